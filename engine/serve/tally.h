/* SPDX-License-Identifier: MIT
 * tally.h - what the engine has done since it was opened: counts, and distributions of times and batch sizes.
 * Threads: the engine thread adds, who submits adds refusals, anyone reads a copy. Lock: tally (own, short). */
#ifndef ENGINE_TALLY_H
#define ENGINE_TALLY_H

#include "engine/base/lock.h"
#include "engine/base/rc.h"
#include "engine/cache/cache.h"
#include "engine/gen.h"
#include "plugins/dsv4_plugin.h"

#include <stdbool.h>
#include <stdint.h>

#define TALLY_MAX_BOUNDS 19

enum tally_name {
#define TALLY(name, bounds) TALLY_##name,
#include "engine/serve/tally.def"
#undef TALLY
	TALLY_N
};

/* Why a running request was stopped: its client left, somebody cancelled it by its id, the server ends. */
enum tally_stop { TALLY_CLIENT, TALLY_OPERATOR, TALLY_DRAIN, TALLY_N_STOP };
const char *tally_stop_name(enum tally_stop s);

/* Errors by their row of rc.def; those that are no row of it, -errno, come last. */
enum tally_error {
#define RC(name, code, http, type, varlink, text) TALLY_##name,
#include "engine/base/rc.def"
#undef RC
	TALLY_ERRNO, TALLY_N_ERROR
};
/* The rc, 0 for the last. */
int tally_error_rc(enum tally_error e);

/* n[i] values were at most bound i and above bound i - 1; the last of them above all bounds. */
struct tally_hist {
	uint64_t n[TALLY_MAX_BOUNDS + 1];
	double sum;
};
/* Its upper bounds, rising; *ret_n of them. */
const double *tally_bounds(enum tally_name h, int *ret_n);

struct tally_view {
	struct tally_hist hist[TALLY_N];
	uint64_t finished[GEN_ERROR + 1];        /* requests, by how; never GEN_RUNNING */
	uint64_t stopped[TALLY_N_STOP];          /* of those GEN_CANCELLED */
	uint64_t errors[TALLY_N_ERROR];          /* of those GEN_ERROR */
	uint64_t refused[TALLY_N_ERROR];         /* by engine_submit() */
	uint64_t tokens[DSV4_N_PHASE];           /* computed in forward passes */
	uint64_t beside_steps, beside_tokens;    /* steps of decoding that computed prompts too, and
						  * these prompts' tokens */
	uint64_t reasoning_tokens;
	uint64_t drafted_tokens, accepted_tokens; /* as in gen_usage */
	uint64_t looped[GEN_N_PART][2];          /* requests whose answer loops, by where; [1]: the guard ended it */
	uint64_t missed_tokens[CACHE_N_MISS];    /* of admitted prompts not found in the cache, by why */
};

struct tally {
	struct lock lock;
	struct tally_view view;
};

void tally_init(struct tally *t);
void tally_fini(struct tally *t);
void tally_read(struct tally *t, struct tally_view *ret_v);

void tally_refused(struct tally *t, int rc);
/* A request leaves the queue after `seconds`; `missed` tokens of its prompt are to be computed, since `why`. */
void tally_admitted(struct tally *t, double seconds, int missed, enum cache_miss why);
/* A token was generated: the first, `seconds` after submission, or so long after the one before. */
void tally_token(struct tally *t, bool first, double seconds, int reasoning);
void tally_batch(struct tally *t, enum dsv4_phase phase, int requests, int tokens);
/* beside: prompt tokens that it computed beside decoding. */
void tally_step(struct tally *t, double seconds, int beside);
void tally_drafts(struct tally *t, int drafted, int accepted);
/* An answer was seen to loop. */
void tally_looped(struct tally *t, const struct gen_loop *l);
/* rc: of GEN_ERROR what went wrong, of GEN_CANCELLED why it was stopped; left: by its own consumer. */
void tally_ended(struct tally *t, enum gen_finish finish, int rc, bool left, double seconds);

#endif
