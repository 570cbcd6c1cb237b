/* SPDX-License-Identifier: MIT
 * ranks_priv.h - the inside of ranks, shared by engine/device/ only.
 * Threads, locks: as ranks.h. */
#ifndef ENGINE_RANKS_PRIV_H
#define ENGINE_RANKS_PRIV_H

#include "engine/base/lock.h"
#include "engine/device/ranks.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

/* A rank. What its own thread writes in one round, the others read after it. */
struct ranks_place {
	alignas(64) struct device *device;
	int said;
	const void *src;                /* [bytes]: what others copy, on the CPU */
	size_t bytes;
};

struct ranks {
	int n;
	struct ranks_place *place;      /* [n] */
	atomic_int here;                /* who has come in this round */
	atomic_uint round;
	int agreed;                     /* what came of the last round */
	struct lock lock;               /* of who sleeps, and of the passes below */
	pthread_cond_t all_here, pass_over;
	uint64_t ticket, serving;       /* of passes: given out, and whose turn it is */
};

#endif
