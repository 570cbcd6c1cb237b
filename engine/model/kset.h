/* SPDX-License-Identifier: MIT
 * kset.h - immutable kernel sets: ref overlaid by plugin ops, resolved once to a flat table.
 * Threads: control builds, engine pins, anyone reads. Lock: none (atomic count). */
#ifndef ENGINE_KSET_H
#define ENGINE_KSET_H

#include "engine/base/buf.h"
#include "plugins/dsv4_plugin.h"

#include <stdint.h>

struct kset;

/* What one slot resolved to; every slot is always filled. */
struct kset_slot {
	dsv4_any_f *fn;
	const struct dsv4_plugin *provider;
	const struct dsv4_op_entry *entry;
};

/* "FAMILY[.PHASE]=PLUGIN", parsed. */
struct kset_overlay {
	enum dsv4_family family;
	int phase;                 /* enum dsv4_phase, or -1: both */
	const struct dsv4_plugin *plugin;
};

#define KSET_MAX_OVERLAYS 64

/* Finds a plugin by name; NULL when there is none. */
typedef const struct dsv4_plugin *kset_find_f(void *arg, const char *name);

/* Reads "FAMILY[.PHASE]=PLUGIN". RC_INVALID for the form, an unknown family or phase, RC_NOT_FOUND for an
 * unknown plugin; why names the choices. "ref" is always found; find may be NULL. */
int kset_overlay_parse(struct kset_overlay *ov, const char *spec, kset_find_f *find, void *arg,
	struct buf *why);

/* Later overlays win over earlier ones, slot by slot. Ops without a weight use wfmt 0. RC_PLUGIN for a
 * descriptor with a bad entry, RC_KERNEL when a plugin offers nothing for a family it is named for. */
int kset_build(const struct kset_overlay *ov, int n_ov, struct kset **ret_ks, struct buf *why);
struct kset *kset_pin(struct kset *ks);
void kset_unpin(struct kset **ks);
const struct kset_slot *kset_slot(const struct kset *ks, enum dsv4_op op, enum dsv4_phase ph,
	enum dsv4_wfmt wf);
/* "ref", or e.g. "indexer=indexer-bf16,attention.decode=attn-splitk". */
const char *kset_name(const struct kset *ks);
/* Unique and rising over the process's life. */
uint64_t kset_generation(const struct kset *ks);

const char *kset_family_name(enum dsv4_family f);
/* -1 when unknown. */
int kset_family_find(const char *name);
const char *kset_op_name(enum dsv4_op op);
enum dsv4_family kset_op_family(enum dsv4_op op);
const char *kset_phase_name(enum dsv4_phase ph);
const char *kset_wfmt_name(enum dsv4_wfmt wf);

#endif
