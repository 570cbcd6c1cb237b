/* SPDX-License-Identifier: MIT
 * forward_priv.h - the inside of struct forward, shared by forward*.c and mtp.c only.
 * Threads: as forward.h. Locks: none. */
#ifndef ENGINE_FORWARD_PRIV_H
#define ENGINE_FORWARD_PRIV_H

#include "engine/device/queue.h"
#include "engine/model/expert_slots.h"
#include "engine/model/forward.h"
#include "engine/model/model.h"

#include <errno.h>

/* Work buffers of a step: BUF(name, type, elements per token). d is the model's config. */
#define FORWARD_BUFS(BUF) \
	BUF(streams, float, d->hc_mult * d->hidden_size) \
	BUF(x, float, d->hidden_size)                      /* a block's input */ \
	BUF(y, float, d->hidden_size)                      /* and output */ \
	BUF(draft, float, d->hc_mult * d->hidden_size)     /* MTP: the streams, projected */ \
	BUF(post, float, d->hc_mult) \
	BUF(comb, float, d->hc_mult * d->hc_mult) \
	BUF(qr, float, d->q_lora_rank) \
	BUF(q, float, d->n_heads * d->head_dim) \
	BUF(o, float, d->n_heads * d->head_dim) \
	BUF(oa, float, d->o_groups * d->o_lora_rank) \
	BUF(kv, float, d->head_dim) \
	BUF(proj, float, 2 * (d->head_dim > d->index_dim ? d->head_dim : d->index_dim)) \
	BUF(pooled, float, d->head_dim > d->index_dim ? d->head_dim : d->index_dim) \
	BUF(iq, float, d->index_heads * d->index_dim) \
	BUF(iw, float, d->index_heads) \
	BUF(cs_window, float, d->rope_dim) \
	BUF(cs_compress, float, d->rope_dim) \
	BUF(cs_pooled, float, d->rope_dim) \
	BUF(token, int32_t, 1) \
	BUF(n_vis, int32_t, 1) \
	BUF(count, int32_t, 1) \
	BUF(expert, int32_t, d->experts_per_tok) \
	BUF(gate, float, d->experts_per_tok)

/* Those that are sized otherwise. */
#define FORWARD_OTHER_BUFS(BUF) \
	BUF(rows, int32_t)                                 /* [n_tok][min(top-k, most visible)] */ \
	BUF(score, float)                                  /* [slice][most visible] */ \
	BUF(last, float)                                   /* [wanted][hc][hidden], for the head */ \
	BUF(logits, float)                                 /* [wanted][rows of the head], if not the caller's own */ \
	BUF(ranks, float)                                  /* several GPUs: [rank][n_tok][part of oa, or hidden] */ \
	BUF(oa_all, float)                                 /* [n_tok][all groups], where heads are cut */ \
	BUF(part, struct forward_part) \
	BUF(seq, struct dsv4_seq) \
	BUF(cut, struct dsv4_seq)

enum forward_buf_id {
#define BUF(name, ...) FORWARD_B_##name,
	FORWARD_BUFS(BUF)
	FORWARD_OTHER_BUFS(BUF)
#undef BUF
	FORWARD_N_BUF
};

/* One sequence's part of the step. */
struct forward_part {
	struct sequence *seq;
	int tok0, n, n_logits;
	int64_t pos0;
};

struct forward {
	const struct model *m;
	struct pool *pool;
	struct running *running;       /* the pool's */
	struct device *device;         /* the model's */
	struct queue *queue;           /* NULL until the first step */
	bool gpu;
	struct expert_slots *slots;    /* or NULL */
	int rank;                      /* of the model's GPUs */
	struct forward_crew *crew;     /* rank 0's: the others, since the first step; NULL with one GPU */
	long long waited_ns;           /* rank 0's: as of forward_waited() */
	int keep_experts;              /* as of forward_keep_experts() */
	size_t cap[FORWARD_N_BUF];     /* bytes */
	int64_t max_scores;            /* index scores held at once; longer batches are scored in slices */
#define BUF(name, type, ...) type *name;
	FORWARD_BUFS(BUF)
	FORWARD_OTHER_BUFS(BUF)
#undef BUF
	/* The step that runs. */
	const struct kset *kset;
	uint64_t generation;           /* of kset */
	const struct numerics *num;
	enum dsv4_phase phase;
	const struct forward_tap *tap;
	const struct forward_watch *watch;
	const char *no_graph;          /* why the step is none, on any rank; or NULL */
	unsigned long n_pass, plain_until; /* passes so far, the same on all ranks; the first that
					    * may be a graph again */
	bool lacks;                    /* it was this GPU that had no memory for one */
	bool told;                     /* forward_agree() has said that the step fails, or is to be run again */
	const char *const *name;       /* of the parts, or NULL */
	struct buf *why;
	long blocks_read;              /* of files, by this process, when the step began */
	bool cold;                     /* some were since the step before began: weights are not all in memory */
	int fetched;                   /* layers whose weights but the routed experts were asked for */
	bool detour;                   /* ops take the longer way: somebody looks on, or a GPU computes */
	const float *logits_back, *streams_back; /* where the host reads them after the step: a
						  * GPU's logits; for the tap */
	int layer;                     /* the one that runs; n_layers is MTP, -1 the head */
	int n_part, n_tok, n_want;     /* n_want: tokens that want logits */
	int at_part, at_tok0;          /* what compress works on; first token of an indexer's slice */
};

/* forward_cold.c: weights that are not in memory. At the beginning of a step; before layers up to `last` run; when
 * experts are chosen. */
void forward_feel(struct forward *f);
void forward_fetch_layers(struct forward *f, int last);
void forward_fetch_experts(struct forward *f, const struct weights_layer *w);

/* forward_ops.c: one caller per op. Sets the size field and what follows the step's numerics, runs the slot of the
 * step's set and phase, and turns a failure into RC_KERNEL with `why` naming op, provider and layer (-ENOMEM
 * stays). */
#define OP(op, family, args, text) \
	int forward_##op(struct forward *f, enum dsv4_wfmt wf, enum forward_role role, struct args *a);
#include "plugins/ops.def"
#undef OP
/* Plain y = x W^T over the step's tokens; role ACT: x is rounded as the weight's format and numerics ask for. */
int forward_matrix(struct forward *f, const struct dsv4_weight *w, enum forward_role role, const float *x,
	float *y);
/* Row-wise norm of n_row rows, in place. */
int forward_norm(struct forward *f, float *x, int64_t n_row, int dim, const float *weight);

/* forward_watch.c: runs the op with the watch, if any, told before and after. RC_CANCELLED when it says stop. */
int forward_watched(struct forward *f, const struct forward_op *o);

/* forward_device.c: runs an op by whoever the slot names: a GPU's plugin on the queue, another on the pool, when what
 * is queued has run. */
int forward_call(struct forward *f, enum dsv4_op op, const struct kset_slot *slot, const void *args);

/* forward_step.c: a step begins on the queue. */
int forward_begin(struct forward *f, struct buf *why);
/* How a pass ends where a GPU has no memory for a graph; all begin again without one.
 * forward_agree() alone passes it on. */
#define FORWARD_NO_GRAPH (-ENOBUFS)
/* What is queued from here on may be a graph, which a step that fails drops: sequences have made room before. Or
 * FORWARD_NO_GRAPH. */
int forward_capture(struct forward *f);
/* Before a sync: what was captured can be launched. FORWARD_NO_GRAPH; with several GPUs any failure of the queue. */
int forward_ready(struct forward *f);
/* The last that is queued, behind the head: what the host looks at when the step has ended. */
void forward_last(struct forward *f);
/* And ends: waits, and gives its rows of the logits, unless the step failed (rc). */
int forward_end(struct forward *f, int rc, float *logits);
/* It has ended on all ranks, and failed on none: the tap gets its streams. */
void forward_tell_end(const struct forward *f);
/* Are logits computed into memory of its own: a GPU's, or of its rows of the head alone? */
static inline bool forward_own_logits(const struct forward *f)
{
	return f->gpu || f->m->n_rank > 1;
}
/* The host looks at the step's memory. */
int forward_look(struct forward *f);
/* Where others may call that op, this one has nothing to compute: it waits where they would. */
int forward_pass_by(struct forward *f, enum dsv4_op op, enum dsv4_wfmt wf);

/* forward_ranks.c: a step on all GPUs of the model, each with a thread, or on the only one. Every rank runs `pass`, in
 * which forward_agree() says how it went so far, whenever it did not go well and at the end: with several GPUs all of
 * them wait there for each other and get the same answer, the lowest rank's error or 0. What ends a pass on one ends it
 * on all. */
typedef int forward_pass_f(struct forward *f, const void *batch);
int forward_all(struct forward *f, forward_pass_f *pass, const void *batch, struct buf *why);
int forward_agree(struct forward *f, int rc);
/* The same, and no rank's queue has failed: before the first gather. */
int forward_agree_queue(struct forward *f, int rc);
/* The same at the end, where what is captured is launched by all or by none. */
int forward_agree_launch(struct forward *f, int rc);
/* For rank 0; waits until its threads are gone. */
void forward_crew_free(struct forward_crew **c);
/* More buffers of a step, with several GPUs. */
int forward_prepare_ranks(struct forward *f);
/* The parts of f->oa of all ranks' heads, in order, for each token: *ret_oa is where they lie. */
int forward_join_heads(struct forward *f, const float **ret_oa);
/* f->y becomes the sum of all ranks' f->y, in their order. */
int forward_join_experts(struct forward *f);

/* forward_attn.c, forward_moe.c: from f->x to f->y. */
int forward_attention(struct forward *f, const struct weights_layer *w);
int forward_experts(struct forward *f, const struct weights_layer *w);

/* forward.c: frees all buffers; nothing that is queued uses them. */
void forward_release(struct forward *f);
/* Makes a buffer at least n * size bytes; -ENOMEM. Contents are lost when it grows. */
int forward_grow(struct forward *f, enum forward_buf_id id, size_t n, size_t size);
/* Buffers for the parts that are set up in f->part, n_tok and n_want. */
int forward_prepare(struct forward *f);
void forward_embed(struct forward *f, int32_t token, float *row);
/* What a step's batch says of it; rank 0 alone is looked at. */
void forward_set_step(struct forward *f, const struct kset *ks, const struct numerics *n, enum dsv4_phase phase,
	const struct forward_tap *tap, const struct forward_watch *watch);
/* To fill with n_tok ids and put into f->token; NULL, with why, when short. */
int32_t *forward_stage_tokens(struct forward *f);
/* All of a layer, on f->streams. */
int forward_block(struct forward *f, const struct weights_layer *w);
/* hc_head, norm and the shared head for the last tokens of each part. */
int forward_logits(struct forward *f, const struct dsv4_hc_weights *hc, const float *norm, float *logits);
/* RC_INVALID when an id is not in the vocabulary. */
int forward_check_tokens(const struct forward *f, const int32_t *token, int n, struct buf *why);

#endif
