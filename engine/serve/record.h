/* SPDX-License-Identifier: MIT
 * record.h - what is kept of every request in the ring: prompt, tokens, set, numbers, times.
 * Threads: engine writes, anyone reads a copy. Lock: record (own, short). */
#ifndef ENGINE_RECORD_H
#define ENGINE_RECORD_H

#include "engine/base/buf.h"
#include "engine/gen.h"
#include "engine/kernels/numerics.h"

struct record;

/* A consistent copy of the small fields. Times are seconds of CLOCK_REALTIME, 0 when not reached. */
struct record_view {
	char id[64], label[32];
	enum gen_finish finish; int rc;
	char detail[160];                  /* as told to the client, then the parser's remarks in brackets */
	struct gen_loop loop;
	bool thinking;
	struct gen_usage usage;
	struct numerics numerics;
	struct gen_sampling sampling;      /* pointers inside are NULL */
	int max_tokens;
	uint64_t kset_generation, epoch;   /* of the set it runs under now, or ended under; 0: of numbers of its own */
	int reused_tokens; char miss_reason[64]; int64_t first_diff_byte; /* -1: none */
	bool kept;                         /* what was reused was computed under other numbers: --keep-cache */
	double t_submit, t_admit, t_first, t_last, t_end;
};
void record_view(struct record *r, struct record_view *ret_v);

/* A kernel set that the request ran under: it computed the prompt from token `prompt` on and the output from token
 * `output` on, until the next one took over. */
struct record_set {
	const char *name;                  /* valid as long as the record is held */
	uint64_t generation, epoch;
	int prompt, output;
};
/* In order; a malloc'd array, caller frees. Returns how many, at least 1. */
int record_sets(struct record *r, struct record_set **ret_s);
/* Their names: "ref", or e.g. "ref, from output token 12 gemm=avx2". */
void record_kernels(struct record *r, struct buf *out);
/* The rendered prompt. */
void record_prompt(struct record *r, struct buf *out);
/* Malloc'd array, caller frees; the first *ret_n_prompt ids are the prompt. Returns the count. */
int record_tokens(struct record *r, int32_t **ret_ids, int *ret_n_prompt);
/* For each token of the output the digest (digest.h) of the logits from which it was taken. Malloc'd array, caller
 * frees. Returns the count. */
int record_digests(struct record *r, uint64_t **ret_d);
/* As JSON; empty when there were none. */
void record_messages(struct record *r, struct buf *out);
/* What was generated so far, with its control tokens: whole UTF-8 characters. */
void record_output(struct record *r, struct buf *out);
/* Appends the ids of the tool calls that it made, each with its NUL. */
void record_calls(struct record *r, struct buf *out);
/* The text that whoever submitted the request keeps with it (engine_keep); empty when there is none. */
void record_kept(struct record *r, struct buf *out);
/* Was it submitted under that label, so that whoever asks under it now may be told what was said? The one place that
 * decides this. */
bool record_is_of(const struct record *r, const char *label);
void record_unref(struct record **r);

#endif
