/* SPDX-License-Identifier: MIT
 * request.h - one request on its way through the engine: made of a spec, admitted, fed, ended.
 * Threads: who submits makes it, then it is the engine thread's. Locks: generation, record. */
#ifndef ENGINE_REQUEST_H
#define ENGINE_REQUEST_H

#include "engine/base/list.h"
#include "engine/text/completion.h"
#include "engine/serve/generation_put.h"
#include "engine/serve/loopguard.h"
#include "engine/model/model.h"
#include "engine/kernels/numerics.h"
#include "engine/serve/record_put.h"
#include "engine/serve/request_cache.h"
#include "engine/serve/request_must.h"
#include "engine/serve/sampler.h"
#include "engine/serve/scheduler.h"
#include "engine/serve/speculate.h"
#include "engine/text/tokenizer.h"

/* What a request needs of the engine; read-only. */
struct request_env {
	const struct model *model;
	const struct tokenizer *tokenizer;
	int max_context;
	size_t max_state;          /* bytes for all sequences */
	struct cache *cache;
	long long disk_wait_ns;    /* for the cache's next block from disk: a long path comes for
				    * longer, but it comes */
	int32_t think, think_end;  /* token ids, -1 if the tokenizer has none */
	struct constraint_vocab *vocab;
	void (*wake)(void *arg); void *wake_arg;
};

/* What a request pins when it is submitted. */
struct request_pins {
	struct kset *kset;         /* a pin to take over */
	struct numerics numerics;
	uint64_t epoch;            /* 0: numbers of its own, which are not those in force */
	bool own;                  /* the spec names the set or the numerics */
	int speculate;
};

/* The next token, picked but not yet told to anyone. */
struct request_pick {
	bool made;
	int rc;                    /* of it, with why; else the rest: */
	struct buf why;
	uint64_t digest;           /* of the logits */
	const uint64_t *allowed;   /* the tokens that might come, until the request's next mask; NULL: any */
	struct sampler_choice choice;
};

struct request {
	const struct request_env *env;
	struct sched_task task;
	struct list live;          /* the engine's list of all requests, under its lock */
	struct generation *gen;    /* the engine's reference */
	struct record *rec;
	struct kset *kset;
	bool own;                  /* runs under what its spec named, to its end */
	bool repin;                /* is to go on with another set from the next step; under the engine's lock */
	int32_t *prompt;           /* [n_prompt] */
	int n_prompt;
	int32_t next[1 + SPECULATE_MAX]; /* when decoding: the token to feed, and task.drafts of those after it */
	int speculate;             /* drafts to feed along at most; 0: none, or none any more */
	int max_out;
	bool max_is_context;       /* max_out is what fits, not what was asked for */
	bool ignore_eos, logprobs;
	long long submitted_ns, token_ns; /* clock_ns() of the submission, of the latest token; 0: none yet */
	long long deadline_ns;     /* clock_ns(); 0: none */
	int deadline;              /* the seconds it was */
	struct gen_usage usage;
	struct sampler *sampler;
	struct request_pick pick;
	struct completion *parser;
	struct sampler_choice *untold; /* [n_untold] tokens of which the parser has not said what they are of */
	int n_untold, cap_untold;
	struct loopguard *guard;       /* NULL for an answer that was given beforehand */
	bool looped;               /* since the engine asked last */
	struct sequence *seq;      /* from admission on */
	struct request_cache cache;
	struct request_must must;
	size_t need, held;         /* state bytes at full length, with what the cache part keeps; now */
};

/* Whose task it is. */
static inline struct request *request_of(struct sched_task *t)
{
	return list_entry(t, struct request, task);
}

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
/* n tokens were computed; when decoding, 1. */
void request_computed(struct request *r, int n);
/* The ways to end that are not the answer's own (request_answer.h). */
void request_cancelled(struct request *r, int why, struct request_end *ret_end);
void request_failed(struct request *r, int rc, const char *why, struct request_end *ret_end);
/* Tells the record, drops the sequence. The consumer is told by request_tell, after the engine's books. */
void request_close(struct request *r, const struct request_end *end);
void request_tell(struct request *r, const struct request_end *end);

#endif
