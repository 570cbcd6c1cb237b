/* SPDX-License-Identifier: MIT
 * ranks_priv.h - the inside of ranks, shared by engine/device/ only.
 * Threads, locks: as ranks.h. */
#ifndef ENGINE_RANKS_PRIV_H
#define ENGINE_RANKS_PRIV_H

#include "engine/base/lock.h"
#include "engine/device/nccl.h"
#include "engine/device/ranks.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A rank. What its own thread writes in one round, the others read after it. */
struct ranks_place {
	alignas(64) struct device *device;
	int said;
	const void *src;                /* [bytes]: what others copy, on the CPU */
	size_t bytes;
	struct ranks *ranks;
	pthread_mutex_t call;           /* a leaf, held in each call of NCCL for this rank but the
					 * last: who has the communicator */
	void *comm;                     /* NULL: over */
	pthread_t ender;                /* makes that last call */
};

enum ranks_ending { RANKS_GO_ON, RANKS_DESTROY, RANKS_ABORT };

struct ranks {
	int n;
	struct ranks_place *place;      /* [n] */
	atomic_int here;                /* who has come in this round */
	atomic_uint round;
	int agreed;                     /* what came of the last round */
	struct lock lock;               /* of who sleeps, and of the passes below */
	pthread_cond_t all_here, pass_over;
	uint64_t ticket, serving;       /* of passes: given out, and whose turn it is */

	const struct nccl_library *nccl; /* NULL: the CPU's memory, or one rank */
	bool connected, hung;           /* under the lock: NCCL has answered; or has not in time */
	int connect_rc;
	struct buf connect_why;
	int n_ender;
	pthread_mutex_t end_mutex;      /* a leaf: of what follows, which changes once */
	pthread_cond_t end_told;
	enum ranks_ending ending;
	int broken;                     /* the rank that broke first; -1: none */
	char broken_why[256];
};

/* ---- ranks_nccl.c ---- */

/* Communicators for the devices that are open, and a first gather. When NCCL does not answer for so long, r is hung: a
 * thread has it and all that is in it for ever. */
int ranks_nccl_open(struct ranks *r, int seconds, struct buf *why);
/* No graph is left that gathers. */
void ranks_nccl_close(struct ranks *r);
void ranks_nccl_gather(struct ranks *r, int rank, struct queue *q, void *dst, const void *src, size_t bytes);
/* This one computes no more, nor do the others; why: of the first. */
void ranks_break(struct ranks *r, int rank, const char *why);
/* Which broke first: its why, and whether it is this one. */
bool ranks_blame(struct ranks *r, int rank, struct buf *why);
/* For one of ranks: a driver's result, as stream_wait: ends when one of the others breaks, too. */
int ranks_wait(struct device *d, void *stream);

#endif
