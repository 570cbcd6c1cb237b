/* SPDX-License-Identifier: MIT
 * kernels.h - the daemon's kernel sets: the active one, the previous one, last-good, and those asked for by name.
 * Threads: control; sets are freed on ops. Locks: none of its own. */
#ifndef DAEMON_KERNELS_H
#define DAEMON_KERNELS_H

#include "daemon/kernels/start.h"
#include "daemon/ops.h"
#include "engine/engine.h"

#include <jansson.h>
#include <stdbool.h>

struct daemon;

/* A set by what an operator types, pinned for the caller: "active", "previous", "last-good", a generation number,
 * the name of a set that exists, a plugin's name (all it offers over ref), or overlays separated by commas,
 * "indexer=indexer-bf16,attention.decode=attn-splitk", built over ref. Every plugin named must be warm (warming.h).
 * RC_NOT_FOUND, RC_INVALID, RC_PLUGIN, RC_KERNEL. */
int kernels_resolve(struct daemon *d, const char *text, struct kset **ret_ks, struct buf *why);

struct kernels_set;
/* The same, with what it was built from; kernels_drop() when done. */
int kernels_resolve_set(struct daemon *d, const char *text, struct kernels_set **ret_s, struct buf *why);

/* ---- the registry: kernels.c ---- */

/* A set that lives: somebody has it pinned, or it waits to be freed on ops. */
struct kernels_set {
	struct list node;
	struct kset *kset;
	struct daemon *daemon;
	struct ops_note note;      /* that the last pin has gone */
	int n_ov;
	struct kset_overlay ov[KSET_MAX_OVERLAYS]; /* what it was built from, nothing superfluous */
};

struct kernels {
	struct list sets;          /* of kernels_set, the newest first */
	struct list dead;          /* of kernels_set, for the next sweep */
	bool sweeping;
	struct kernels_set *active;   /* pinned by the engine */
	struct kernels_set *previous; /* pinned by us; or NULL */
	json_t *good;              /* last_good.c; never NULL */
	uint64_t good_generation;  /* of the set that is last-good; 0: none of this process */
	uint64_t good_tried;       /* of the set last written, or not to be written */
	bool good_writing;
	enum start_from from;      /* what this run began with */
	bool proven;               /* start_tick() has nothing left to do */
};

struct kernels *kernels_new(void);
/* Takes the engine's own first set, ref, into the registry: before anything is served. */
void kernels_adopt(struct daemon *d);
/* Before the engine is closed: lets go of the previous set. */
void kernels_close(struct kernels *k);
/* The engine is closed and ops has delivered all: frees what is left. No set may be pinned. */
void kernels_free(struct kernels **k);

/* A set of these overlays over ref, pinned for the caller, in the registry. As kset_build(). */
int kernels_build(struct daemon *d, const struct kset_overlay *ov, int n, struct kernels_set **ret_s,
		  struct buf *why);
/* The newest set of this name or generation that still lives, pinned; NULL. By name not one with a plugin of which
 * there is a newer. */
struct kernels_set *kernels_find(struct daemon *d, const char *name);
/* Lets go of a set that kernels_build() or kernels_find() pinned. */
void kernels_drop(struct kernels_set **s);
/* How, for the log, and what of engine_activate(). */
struct kernels_how {
	const char *name;
	bool at_step, keep_cache;
};
/* From now on requests use this set, which the caller has pinned (taken over, also on failure) and numerics n
 * (NULL: those in force). The one before becomes the previous one. */
int kernels_activate(struct daemon *d, struct kernels_set *s, const struct numerics *n, const struct kernels_how *how,
		     struct buf *why);
/* RC_NOT_FOUND when there is no previous set. */
int kernels_rollback(struct daemon *d, struct buf *why);
/* The operator wants the plugin of this provider cold: if the previous set holds it, there is none any more. */
void kernels_let_go(struct daemon *d, const struct provider *p);
/* Does a set that somebody has pinned hold it? What only waits to be swept does not count. */
bool kernels_holds(struct daemon *d, const struct provider *p);
/* Once a second: what could not be swept before, and whether the active set is good by now. */
void kernels_tick(struct daemon *d);

/* ---- what an operator asks for: kernels_spec.c ---- */

/* Adds "FAMILY[.PHASE]=PLUGIN", "OP[.PHASE]=PLUGIN", or "all=PLUGIN" (each family it offers something for), to
 * ov[0..*n), which has room for KSET_MAX_OVERLAYS; "all=ref" empties it. RC_INVALID, RC_NOT_FOUND, RC_PLUGIN,
 * RC_KERNEL, RC_TOO_LARGE. */
int kernels_spec_add(struct daemon *d, const char *spec, struct kset_overlay *ov, int *n, struct buf *why);
/* The name after the "=", whether or not there is such a plugin. RC_INVALID for the form, an unknown family, op or
 * phase: asked first, as those are not the plugin's fault. */
int kernels_spec_plugin(const char *spec, const char **ret_name, struct buf *why);
/* The same, and the overlays with ref in the plugin's place; none of "all". */
int kernels_spec_read(const char *spec, struct kset_overlay *ov, int *n, const char **ret_name, struct buf *why);
/* The overlay as it would be typed. */
void kernels_spec_print(const struct kset_overlay *ov, struct buf *out);

/* ---- as JSON: kernels_json.c ---- */

/* io.dsv4.Kernels.Slot, .Change, .Set */
json_t *kernels_slots(struct daemon *d, const struct kset *ks);
json_t *kernels_changes(const struct kset *before, const struct kset *after);
json_t *kernels_set_json(struct daemon *d, const struct kernels_set *s);
/* The reply of a swap from `before` to what is active now; `changes` is taken over. */
json_t *kernels_swapped(struct daemon *d, const struct kernels_set *before, json_t *changes);

#endif
