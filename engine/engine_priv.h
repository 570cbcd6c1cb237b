/* SPDX-License-Identifier: MIT
 * engine_priv.h - the engine's own state, shared by engine.c (callers' side) and the other engine_*.c.
 * Threads: see each member. Lock: engine. */
#ifndef ENGINE_ENGINE_PRIV_H
#define ENGINE_ENGINE_PRIV_H

#include "engine/base/lock.h"
#include "engine/base/sha256.h"
#include "engine/engine.h"
#include "engine/model/forward.h"
#include "engine/serve/picking.h"
#include "engine/serve/request.h"
#include "engine/serve/ring.h"
#include "engine/serve/tally.h"

#include <pthread.h>
#include <stdatomic.h>

struct engine {
	/* Fixed after engine_open. */
	char *name, *aliases;
	struct model *model;
	struct ranks *ranks;       /* NULL: the CPU */
	struct device *device;     /* the first of them */
	size_t device_free;        /* bytes beside weights and slots of the GPU that has the fewest; 0 for the CPU */
	struct tokenizer *tokenizer;
	struct pool *pool;
	struct repack *repack;     /* NULL: nothing is repacked */
	uint64_t repack_bytes;     /* what the copies will take */
	bool repack_auto;
	enum pool_pin pin;         /* of the pool and the engine thread */
	struct request_env env;
	struct ring *ring;
	struct cache *cache;
	struct cache_disk *cache_disk;
	struct buf cache_disk_why;
	char model_id[SHA256_HEX];
	int request_timeout;       /* seconds; 0: none */
	int max_queued, reserved;  /* reserved: places in the queue for which requests are to come; under the lock */
	double recompute_patience; /* seconds */
	pthread_t thread;
	bool started;

	/* The engine thread's. */
	struct forward *forward;
	struct speculate *speculate; /* NULL: the model has no draft block */
	struct scheduler sched;
	struct forward_item *items; /* [max_running], the batch being run */
	struct sampler_work *work;
	struct picking *picking;
	float *logits;             /* [n_logits][vocab] */
	int n_logits;
	int bad_runs;              /* forward passes that failed by a kernel, since the last that did not */
	bool broken;               /* no forward pass any more */
	int broken_rc;             /* what requests end with then */
	struct shadow *shadow_now; /* the step's, a reference; NULL: none */
	const char **names;        /* [max_running] ids of the batch's requests, for the shadow */

	/* Read by anyone. */
	struct tally tally;
	atomic_llong step_end_ns;  /* clock_ns() of the last step, or when work began */
	atomic_bool busy;
	atomic_size_t state_bytes;

	struct lock lock;          /* everything below */
	pthread_cond_t cond;
	struct list incoming;      /* of request.task.link: submitted, not yet seen by the thread */
	struct list live;          /* of request.live: all that have not finished */
	bool woken, stopping;
	size_t taken;              /* state bytes that the running requests may come to hold */
	size_t granted;            /* the same of sequences that are no request's */
	pthread_cond_t room;       /* there may be room for one of those */
	struct kset *kset;
	struct numerics numerics;
	struct shadow *shadow;     /* a reference; NULL: none */
	struct kset *repin;        /* what requests with `repin` set are to go on with; NULL when there are none */
	uint64_t repin_epoch;
	struct buf kept;           /* across which change cache_keep() was said last */
	uint64_t set_seen;         /* count.steps + 1 when count.set_steps last rose; 0: not yet */
	struct engine_status count; /* all but step_age, state_bytes, n_threads */
};

/* The engine thread. */
void *engine_thread_main(void *e);

/* engine_step.c: what the scheduler plans now is run, and its requests go on with what came of it. */
void engine_step(struct engine *e);

/* engine_end.c, for the engine thread: the request ends so. It is freed, the end's detail too. */
void engine_end(struct engine *e, struct request *r, struct request_end *end);
/* It ends with the error rc, why being its text. */
void engine_end_failed(struct engine *e, struct request *r, int rc, const char *why);
/* It ends if someone asked for that, or its time is over. True: it has. */
bool engine_end_due(struct engine *e, struct request *r);

/* engine_memory.c: an n-th of all memory. Of all, since free pages alone would be few on a machine that caches the
 * model's files. */
size_t engine_memory_share(size_t n);
/* The same of what sequences and the cache lie in. */
size_t engine_memory_work_share(const struct engine *e, size_t n);
/* For the engine thread, between two steps or later: room for the state of a request. False: it is to wait for it. */
bool engine_memory_take(struct engine *e, size_t bytes);
void engine_memory_give(struct engine *e, size_t bytes);
/* What the request holds of it was changed, by a step or its end. */
void engine_memory_held(struct engine *e, struct request *r);
/* Room for a sequence that is no request's: waits for it, recompute_patience at most, while those that run have it.
 * RC_BUSY, RC_CANCELLED when *cancel (or NULL) was set, RC_DRAINING; 0 is undone by engine_memory_unclaim(). */
int engine_memory_claim(struct engine *e, size_t bytes, const atomic_bool *cancel, struct buf *why);
void engine_memory_unclaim(struct engine *e, size_t bytes);

/* engine_activate.c: does the cache's identity of the numbers differ? */
bool engine_other_numbers(const struct kset *a, const struct numerics *na, const struct kset *b,
	const struct numerics *nb);
/* For the engine thread: a forward pass of ks ended with rc; ks is still pinned. */
void engine_set_ran(struct engine *e, const struct kset *ks, int rc);
/* And between two steps: the requests that are to go on with another set do so. */
void engine_repin(struct engine *e);

/* engine_cache.c: with the model open; also after a failure. */
int engine_cache_open(struct engine *e, const struct engine_options *o, struct buf *why);
void engine_cache_close(struct engine *e);

/* engine_shadow.c, for the engine thread: a step begins and ends; what a batch of it is to be watched by. */
void engine_shadow_begin(struct engine *e);
const struct forward_watch *engine_shadow_watch(struct engine *e, const struct kset *ks);
void engine_shadow_end(struct engine *e);

/* engine_repack.c: bytes that copies of experts will take, 0 when there are to be none; starts the thread that makes
 * them; says which set is in force. */
uint64_t engine_repack_plan(const struct engine *e, enum engine_repack mode);
int engine_repack_open(struct engine *e, const struct engine_options *o, struct buf *why);
void engine_repack_set(struct engine *e, const struct kset *ks);

#endif
