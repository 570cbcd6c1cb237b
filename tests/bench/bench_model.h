/* SPDX-License-Identifier: MIT
 * bench_model.h - a model that is ready to run, sequences of any length on it, and what its ops do: between the files
 * of `dsv4-bench model`. Threads: main; a pool's. Locks: none. */
#ifndef TESTS_BENCH_MODEL_H
#define TESTS_BENCH_MODEL_H

#include "engine/eval/eval_plugins.h"
#include "engine/model/forward.h"
#include "engine/model/model.h"
#include "engine/model/repack.h"
#include "plugins/op/op_cost.h"
#include "tests/bench/bench.h"
#include "tests/bench/bench_memory.h"

/* ---- bench_watch.c: what ops were called, how long they took, what they had to read and compute ---- */

struct bench_watch_row {
	int calls;
	double seconds;
	struct op_cost cost;
};

struct bench_watch {
	struct bench_watch_row row[DSV4_N_OP][DSV4_N_WFMT];
	int steps;
	double seconds;      /* of the steps */
	long long begin;     /* of the op that runs */
};

struct forward_watch bench_watch_of(struct bench_watch *w);
void bench_watch_add(struct bench_watch *to, const struct bench_watch *w);
/* All rows together; of linear and moe_experts alone: `matrix`. */
struct bench_watch_row bench_watch_sum(const struct bench_watch *w, bool matrix);
/* Rows of a table, one for each op and weight format, times and costs of a step. */
void bench_watch_table(struct bench_out *o, const char *name);
void bench_watch_print(struct bench_out *o, const char *phase, int64_t context, int n_tok, const struct bench_watch *w);

/* ---- bench_state.c: sequences of any length ---- */

/* Rows that the model made itself, which longer sequences have over and over with random signs: their values are as
 * roundings left them, and no two rows are alike. */
struct bench_seed {
	int n_layer;
	struct bench_seed_layer {
		float *rows[SEQUENCE_N_ROWS], *window;
		int64_t n[SEQUENCE_N_ROWS], n_window;
	} *layer;
};

/* Of a sequence that the model has computed. */
void bench_seed_init(struct bench_seed *s, const struct sequence_layout *l, const struct sequence *seq);
void bench_seed_fini(struct bench_seed *s);
/* A sequence of n tokens, moved by q as it grows, which has nothing else queued. -ENOMEM, or as queue_sync(). */
int bench_state_new(const struct bench_seed *s, const struct sequence_layout *l, int64_t n, uint64_t key,
		    struct queue *q, struct sequence **ret_seq);

/* ---- bench_model.c ---- */

struct bench_model {
	struct bench *b;
	struct model *m;
	struct repack *repack;       /* NULL: experts as the checkpoint has them */
	struct eval_plugins plugins;
	struct kset *ks;
	struct numerics num;
	struct pool *pool;
	struct forward *f;
	struct bench_memory memory;  /* for the reads that steps are held against */
	int *order;                  /* of its chunks */
	int at;
	size_t read_at;              /* in it, on a GPU */
	struct bench_seed seed;
	float *logits;               /* [batch][vocab] */
	int32_t *token;              /* [most tokens of a step] */
	uint64_t drawn;              /* tokens so far */
	struct buf last;             /* lines that end the text: what tests/bench/against.py reads */
	int told;                    /* decoding stands in them */
	struct buf *why;
};

/* Opens b's model with its kernels and computes the first tokens. Close it in any case; RC_PLUGIN as
 * eval_plugins_fini(). */
int bench_model_open(struct bench_model *m, struct bench *b, struct buf *why);
int bench_model_close(struct bench_model *m, struct buf *why);
/* One step: n tokens for each of the sequences. Seconds, negative: the code of an error with m->why. With w each op is
 * looked at, for which a GPU waits before and after it. */
double bench_model_step(struct bench_model *m, struct sequence *const *seq, int n_seq, int n, enum dsv4_phase phase,
			struct bench_watch *w);

/* The same, and what it did in w. On a GPU a second step of the same sequences is looked at for that, so that the
 * first is as a server makes it. */
double bench_model_watched(struct bench_model *m, struct sequence *const *seq, int n_seq, int n, enum dsv4_phase phase,
			   struct bench_watch *w);
/* What the model's sequences are moved by. */
struct queue *bench_model_queue(const struct bench_model *m);
/* GB/s of reading about so many bytes from memory; negative: failed. */
double bench_model_read(struct bench_model *m, double bytes);
/* Operations per second of the fastest multiply-adds, for about so many seconds; negative: failed. */
double bench_model_peak(struct bench_model *m, double seconds);

/* ---- bench_decode.c, bench_prefill.c ---- */

int bench_decode(struct bench_model *m);
/* The median of a step's milliseconds, of about so many seconds, without a table. */
int bench_decode_ms(struct bench_model *m, int64_t context, int n_seq, double seconds, double *ret_ms);
int bench_prefill(struct bench_model *m);

#endif
