/* SPDX-License-Identifier: MIT
 * kset.h - immutable kernel sets: ref overlaid by plugin ops, resolved once to a flat table.
 * Threads: control builds, engine pins, anyone reads, ops frees. Lock: none (atomic count).
 *
 * A set holds its providers from build to free. The last unpin may come from the engine thread, so it frees
 * only a set that nobody asked to be told of (kset_when_unused). */
#ifndef ENGINE_KSET_H
#define ENGINE_KSET_H

#include "engine/base/buf.h"
#include "engine/kernels/provider.h"
#include "plugins/op/op_name.h"

#include <stdbool.h>
#include <stdint.h>

struct kset;

/* What one slot resolved to; every slot is always filled. */
struct kset_slot {
	dsv4_any_f *fn;
	struct provider *provider;
	const struct dsv4_op_entry *entry; /* of provider->plugin */
};

/* "FAMILY[.PHASE]=PLUGIN" or "OP[.PHASE]=PLUGIN", parsed. */
struct kset_overlay {
	enum dsv4_family family;
	int phase;                 /* enum dsv4_phase, or -1: both */
	struct provider *provider;
	uint64_t ops;              /* bits of enum dsv4_op, one of them; 0: every op of the family */
};

#define KSET_MAX_OVERLAYS 64

/* Finds a provider by its plugin's name; NULL when there is none. */
typedef struct provider *kset_find_f(void *arg, const char *name);

/* Reads "FAMILY[.PHASE]=PLUGIN" or "OP[.PHASE]=PLUGIN"; the only op of a family is the family. RC_INVALID for the form,
 * an unknown family, op or phase, RC_NOT_FOUND for an unknown plugin; why names the choices. "ref" is always found;
 * find may be NULL. */
int kset_overlay_parse(struct kset_overlay *ov, const char *spec, kset_find_f *find, void *arg,
	struct buf *why);
/* May this, of len bytes, stand before the "="? So far as the family or the op goes; "all" may, too. */
bool kset_overlay_names(const char *name, size_t len);
/* As it would be typed. */
void kset_overlay_print(const struct kset_overlay *ov, struct buf *out);
bool kset_overlay_covers(const struct kset_overlay *ov, enum dsv4_op op, enum dsv4_phase ph);
bool kset_overlays_equal(const struct kset_overlay *a, int n_a, const struct kset_overlay *b, int n_b);

/* Appends what such a spec or "all=PLUGIN" says: all is every family that the plugin offers, and all=ref
 * empties the list. ov has room for KSET_MAX_OVERLAYS. Errors as above, RC_TOO_LARGE. */
int kset_overlays_add(struct kset_overlay *ov, int *n, const char *spec, kset_find_f *find, void *arg, struct buf *why);
/* Drops the overlays without which all of them together make the same slots; *n becomes what is left. Errors as
 * of kset_build(), of any overlay, dropped or not. */
int kset_overlays_reduce(struct kset_overlay *ov, int *n, struct buf *why);
/* Later overlays win over earlier ones, slot by slot. Ops without a weight use wfmt 0. RC_PLUGIN for a
 * descriptor with a bad entry, RC_KERNEL when a plugin offers nothing for a family it is named for. */
int kset_build(const struct kset_overlay *ov, int n_ov, struct kset **ret_ks, struct buf *why);
struct kset *kset_pin(struct kset *ks);
/* For whoever knows the set from a list and holds no pin: false when the last one is gone already. */
bool kset_try_pin(struct kset *ks);
int kset_pins(const struct kset *ks);
/* Nulls *ks. The last unpin frees, or calls the function below instead. */
void kset_unpin(struct kset **ks);
/* Set before the set is shared: fn runs on whichever thread unpins last and must not block; somebody then calls
 * kset_free(), on the ops thread where a provider might be closed next. */
void kset_when_unused(struct kset *ks, void (*fn)(void *arg, struct kset *ks), void *arg);
/* Nobody may have it pinned. Lets go of the providers. NULL is fine. */
void kset_free(struct kset **ks);
const struct kset_slot *kset_slot(const struct kset *ks, enum dsv4_op op, enum dsv4_phase ph,
	enum dsv4_wfmt wf);
/* The shortest list of overlays that makes it: "ref", or e.g. "all=avx2,attention.decode=attn-splitk". */
const char *kset_name(const struct kset *ks);
/* Unique and rising over the process's life. */
uint64_t kset_generation(const struct kset *ks);

#endif
