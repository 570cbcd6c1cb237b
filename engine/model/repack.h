/* SPDX-License-Identifier: MIT
 * repack.h - copies of FP4 experts in the form that kernels read fastest (plugins/dsv4_rows16.h), made while serving.
 * Threads: one starts and stops; its own packs; kernels read what is there; any wants and looks. Locks: none (atomics).
 *
 * Expert by expert, layer by layer: an expert's copies are published, then what memory holds of its native form is
 * given back to the system, so that memory does not double. Who reads the native form later reads the file again. The
 * thread runs where nobody else wants to (SCHED_IDLE), and rests nine tenths of the time while the engine is busy. */
#ifndef ENGINE_REPACK_H
#define ENGINE_REPACK_H

#include "engine/base/buf.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct model;
struct repack;

struct repack_options {
	struct model *model;      /* outlives it; its layers' `packed` are written */
	const atomic_bool *busy;  /* does anybody wait for the engine? NULL: nobody */
	uint64_t spare;           /* bytes that must stay available to the system, or it stops */
	bool lock;                /* mlock the copies */
};

enum repack_state { REPACK_WAITING, REPACK_RUNNING, REPACK_DONE, REPACK_STOPPED };

struct repack_view {
	enum repack_state state;
	int n_done, n_total;      /* experts */
	uint64_t bytes;           /* of the copies */
	const char *why;          /* REPACK_STOPPED: what was short, else "" */
};

/* Bytes that the copies of all FP4 experts would take; 0: the model has none. */
uint64_t repack_bytes(const struct model *m);
/* It waits until it is wanted. -ENOMEM, -errno; RC_UNSUPPORTED when the model has no FP4 experts. */
int repack_start(const struct repack_options *o, struct repack **ret_r, struct buf *why);
/* Is there a kernel that reads copies? From then on, or until it is taken back. */
void repack_want(struct repack *r, bool wanted);
void repack_view(struct repack *r, struct repack_view *ret_v);
/* Ends within one panel's work, joins, and frees the copies: no kernel may run any more. NULL is fine. */
void repack_stop(struct repack **r);

#endif
