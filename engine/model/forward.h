/* SPDX-License-Identifier: MIT
 * forward.h - one step of the model: a batch of sequences through all layers, by the ops of a kernel set.
 * Threads: one at a time per struct forward, one more for each further GPU. Locks: none (the pool's, inside ops). */
#ifndef ENGINE_FORWARD_H
#define ENGINE_FORWARD_H

#include "engine/base/buf.h"
#include "engine/kernels/kset.h"
#include "engine/kernels/numerics.h"
#include "engine/kernels/pool.h"
#include "engine/model/sequence.h"

#include <stdbool.h>

struct model;
struct forward;
struct running;

/* One sequence's part of a step: its next n tokens. */
struct forward_item {
	struct sequence *seq;
	const int32_t *tokens;
	int n;             /* >= 1 */
	int n_logits;      /* logits wanted for the last so many tokens, 0 to n */
};

/* Looks at intermediate results, rank 0's; any member may be NULL. tok0 counts tokens of the batch, flattened. */
struct forward_tap {
	void *arg;
	/* streams [n_tok][hc][dim] after a layer; layer n_layers is the MTP block */
	void (*streams)(void *arg, int layer, int n_tok, const float *streams);
	/* ids [n_tok][k] ascending, weight [n_tok][k] */
	void (*experts)(void *arg, int layer, int n_tok, int k, const int32_t *ids, const float *weight);
	/* The indexer's choice for tokens [tok0, tok0 + n_tok): rows [n_tok][ldr], count and n_vis [n_tok],
	 * and the scores [n_tok][lds], NULL when no token had more rows than top-k. */
	void (*rows)(void *arg, int layer, int tok0, int n_tok, const struct dsv4_index_topk *choice);
	/* The streams after the last layer, or after the MTP block, once the step has ended and not failed: unlike the
	 * others no look into its midst, for which a GPU would have to stop. */
	void (*end)(void *arg, int n_tok, const float *streams);
};

/* What an op's numerics arguments follow, where its kind alone does not say. */
enum forward_role {
	FORWARD_PLAIN,     /* nothing */
	FORWARD_ACT,       /* linear: rounds its input */
	FORWARD_KV,        /* rope, compress: makes KV rows */
	FORWARD_INDEX      /* rope, compress: makes index queries or keys */
};

/* An op about to run, or that has run. */
struct forward_op {
	const struct forward *forward;
	enum dsv4_op op;
	enum dsv4_phase phase;
	enum dsv4_wfmt wfmt;
	enum forward_role role;
	int layer;         /* -1: the head */
	const struct kset_slot *slot;
	const void *args;  /* the op's argument struct */
	int rank, n_rank;  /* whose heads, experts and rows of the head these are, of so many GPUs; 0 of 0: of one */
};

/* Looks on at every op of rank 0, with its heads, experts and rows of the head alone, or of all ranks; any function may
 * be NULL. */
struct forward_watch {
	void *arg;
	bool all_ranks;    /* before and after are called on each rank's thread for its ops, at the same time */
	bool (*stop)(void *arg); /* true: the pass ends here, with RC_CANCELLED; asked on rank 0's thread */
	void (*before)(void *arg, const struct forward_op *o);
	void (*after)(void *arg, const struct forward_op *o); /* only if it succeeded */
	int score_topk;    /* scores are computed where a token sees more rows than this, too; 0: only if needed */
};

/* Whose row of an op's output that is: a name of forward_batch.name ("" without), and the token's position. Valid
 * inside before() and after(). */
const char *forward_op_token(const struct forward_op *o, int64_t row, int64_t *ret_pos);
/* Runs another slot's kernel with such arguments, inside before() or after(), on this pass's pool or device, and waits.
 * What it writes lies in memory of forward_op_device(). */
int forward_op_call(const struct forward_op *o, const struct kset_slot *slot, const void *args);
struct device *forward_op_device(const struct forward_op *o);
/* Where who watches for crashes and hangs finds what runs. */
struct running *forward_op_running(const struct forward_op *o);
/* Sets what the argument struct says of numerics: prec, act, roundings and top-k. */
void forward_set_numerics(enum dsv4_op op, enum forward_role role, const struct numerics *n, void *args);

struct forward_batch {
	const struct kset *kset;
	const struct numerics *numerics;
	enum dsv4_phase phase;             /* which slots of the set run */
	const struct forward_item *item;
	int n_item;
	const struct forward_tap *tap;     /* NULL: none */
	const struct forward_watch *watch; /* NULL: none */
	const char *const *name;           /* [n_item] whose each item is, for the watch; NULL: nobody's */
	float *logits;                     /* [sum of n_logits][vocab_size], in item order; NULL if none */
	bool drafts;                       /* of every item all tokens but the first are drafts: see forward_run */
};

/* Both must outlive it. */
struct forward *forward_new(const struct model *m, struct pool *p);
void forward_free(struct forward **f);
/* Before its first step: routed experts that lie with the host move to the GPU by use in its steps, at most so many,
 * where there is room. Bits are the same with and without. */
void forward_keep_experts(struct forward *f, int most);

/* Runs the batch and advances every sequence by its n tokens, by one if the others are drafts: the caller commits as
 * many of those as turn out right (sequence_commit()) before the sequence's next step, and the others leave nothing
 * behind: what was written for them lies beyond the position. A sequence may stand in a batch once.
 * The bits of a token's logits depend on its sequence's tokens, the kernel set and the numerics only.
 * RC_INVALID (a token id out of range), RC_CONTEXT (beyond the model's positions), RC_TOO_LARGE (of tokens), -ENOMEM,
 * RC_KERNEL (an op failed; why names op, provider, layer), RC_CANCELLED (by the watch), RC_DEVICE (a GPU is lost),
 * -EAGAIN (no thread for a GPU). On any error every sequence is as it was before the call and may be run again. */
int forward_run(struct forward *f, const struct forward_batch *b, struct buf *why);

/* Nanoseconds that its steps have waited for passes of others on the same GPUs, such as a comparison's. */
long long forward_waited(const struct forward *f);

/* Bytes of the work buffers, which grow with the largest batch so far. */
size_t forward_bytes(const struct forward *f);

#endif
