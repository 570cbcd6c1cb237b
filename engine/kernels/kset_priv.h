/* SPDX-License-Identifier: MIT
 * kset_priv.h - what kset.c, kset_name.c and kset_overlay.c share.
 * Threads: any. Locks: none. */
#ifndef ENGINE_KSET_PRIV_H
#define ENGINE_KSET_PRIV_H

#include "engine/kernels/kset.h"

#include <stdbool.h>

/* Can each be laid over the ones before? Errors as of kset_build(). */
int kset_check(const struct kset_overlay *ov, int n, struct buf *why);
/* Both for overlays that passed: do they make ks's slots; would they make the same slots without number i? */
bool kset_is(const struct kset *ks, const struct kset_overlay *ov, int n);
bool kset_superfluous(const struct kset_overlay *ov, int n, int i);
/* The name of a set whose slots are resolved. */
void kset_name_make(const struct kset *ks, const struct kset_overlay *ov, int n, struct buf *out);
/* The overlay as far as the "=". */
void kset_overlay_print_slots(const struct kset_overlay *ov, struct buf *out);
/* Does the plugin have an op of the family? */
bool kset_offers(const struct dsv4_plugin *p, enum dsv4_family f);

#endif
