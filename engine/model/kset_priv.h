/* SPDX-License-Identifier: MIT
 * kset_priv.h - what kset.c and kset_name.c share.
 * Threads: any. Locks: none. */
#ifndef ENGINE_KSET_PRIV_H
#define ENGINE_KSET_PRIV_H

#include "engine/model/kset.h"

#include <stdbool.h>

/* Do the overlays [0, n), all valid and without number `skip` (-1: none left out), make ks's slots? */
bool kset_is(const struct kset *ks, const struct kset_overlay *ov, int n, int skip);
/* The name of a set whose slots are resolved. */
void kset_name_make(const struct kset *ks, const struct kset_overlay *ov, int n, struct buf *out);

#endif
