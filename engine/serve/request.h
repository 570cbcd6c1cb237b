/* SPDX-License-Identifier: MIT
 * request.h - one request on its way through the engine: prompt in, tokens out, how it ended.
 * Threads: who submits makes it, then it is the engine thread's. Locks: generation, record. */
#ifndef ENGINE_REQUEST_H
#define ENGINE_REQUEST_H

#include "engine/base/list.h"
#include "engine/text/completion.h"
#include "engine/serve/generation_put.h"
#include "engine/model/model.h"
#include "engine/model/numerics.h"
#include "engine/serve/record_put.h"
#include "engine/serve/request_cache.h"
#include "engine/serve/request_must.h"
#include "engine/serve/sampler.h"
#include "engine/serve/scheduler.h"
#include "engine/text/tokenizer.h"

/* What a request needs of the engine; read-only. */
struct request_env {
	const struct model *model;
	const struct tokenizer *tokenizer;
	int max_context;
	size_t max_state;          /* bytes for all sequences */
	struct cache *cache;
	long long disk_wait_ns;    /* for the cache's next block from disk: a long path comes for longer, but it comes */
	int32_t think, think_end;  /* token ids, -1 if the tokenizer has none */
	struct constraint_vocab *vocab;
	void (*wake)(void *arg); void *wake_arg;
};

/* What a request pins when it is submitted. */
struct request_pins {
	struct kset *kset;         /* a pin to take over */
	struct numerics numerics;
	uint64_t epoch;
};

struct request {
	const struct request_env *env;
	struct sched_task task;
	struct list live;          /* the engine's list of all requests, under its lock */
	struct generation *gen;    /* the engine's reference */
	struct record *rec;
	struct kset *kset;
	bool repin;                /* is to go on with another set from the next step; under the engine's lock */
	int32_t *prompt;           /* [n_prompt] */
	int n_prompt;
	int32_t next;              /* the token to feed when decoding */
	int max_out;
	bool max_is_context;       /* max_out is what fits, not what was asked for */
	bool ignore_eos, logprobs;
	long long submitted_ns, token_ns; /* clock_ns() of the submission, of the latest token; 0: none yet */
	long long deadline_ns;     /* clock_ns(); 0: none */
	int deadline;              /* the seconds it was */
	struct gen_usage usage;
	struct sampler *sampler;
	struct completion *parser;
	struct sequence *seq;      /* from admission on */
	struct request_cache cache;
	struct request_must must;
	size_t need, held;         /* state bytes at full length, with what the cache part keeps; now */
};

/* Renders, tokenizes, checks. On success the consumer's reference is in *ret_g and `pins->kset` is taken
 * over. RC_INVALID, RC_CONTEXT, RC_TOO_LARGE (never fits the state memory), -ENOMEM; why names the field. */
int request_new(const struct request_env *env, const struct generation_spec *spec, struct request_pins *pins,
		struct request **ret_r, struct generation **ret_g, struct buf *why);
/* Frees all but what the consumer and the ring hold. Has finished, or was never queued. */
void request_free(struct request **r);

/* From now on it may take so many seconds; 0: any. */
void request_deadline(struct request *r, int seconds);
/* Goes on with another set (takes over the pin); returns the one so far, to be unpinned. */
struct kset *request_repin(struct request *r, struct kset *ks);
/* Makes the sequence, with what the cache has of it. -ENOMEM. */
int request_admit(struct request *r);

/* How a request ended, before its consumer knows. */
struct request_end {
	enum gen_finish finish;
	int rc;
	struct buf detail;         /* buf_fini after use */
	unsigned flags;            /* how the completion left the protocol: enum completion_flag */
};

/* The tokens to feed next. */
const int32_t *request_tokens(const struct request *r);
/* n tokens were computed. */
void request_computed(struct request *r, int n);
/* Samples from logits [vocab] and passes on what the token means. True when that was the last; *ret_end says
 * why. */
bool request_sample(struct request *r, struct sampler_work *w, const float *logits,
		    struct request_end *ret_end);
/* The other ways to end. */
void request_cancelled(struct request *r, int why, struct request_end *ret_end);
void request_failed(struct request *r, int rc, const char *why, struct request_end *ret_end);
/* Tells the record, drops the sequence. The consumer is told by request_tell, after the engine's books. */
void request_close(struct request *r, const struct request_end *end);
void request_tell(struct request *r, const struct request_end *end);

#endif
