/* SPDX-License-Identifier: MIT
 * gen.h - the plain values of a generation: how to sample, how hard to think, how it ended, what it used.
 * Threads: any, values only. Locks: none. */
#ifndef ENGINE_GEN_H
#define ENGINE_GEN_H

#include <stdbool.h>
#include <stdint.h>

#define GEN_MAX_STOPS 16
#define GEN_MAX_TOP_LOGPROBS 20

struct gen_logit_bias { int32_t token; float bias; };

/* Neutral values in brackets; zero-initialise, then gen_sampling_init() of engine.h. */
struct gen_sampling {
	float temperature;            /* [1]; 0 is greedy */
	float top_p, min_p;           /* [1] [0] */
	int top_k;                    /* [0]: off */
	float repetition_penalty;     /* [1] over prompt and output */
	float presence_penalty, frequency_penalty; /* [0] over output */
	bool has_seed; uint64_t seed; /* without one a random seed is drawn and recorded */
	const struct gen_logit_bias *bias; int n_bias;
	const char *const *stop; int n_stop;  /* UTF-8, matched in content after protocol markers */
	bool logprobs; int top_logprobs;
	bool ignore_eos;
};

enum gen_effort { GEN_EFFORT_DEFAULT, GEN_EFFORT_HIGH, GEN_EFFORT_MAX };

/* What the content must be, from the end of the reasoning on; with calls REQUIRED or NAMED there is no content. */
enum gen_format { GEN_FORMAT_TEXT, GEN_FORMAT_JSON_OBJECT, GEN_FORMAT_JSON_SCHEMA };

/* NONE: an answer has no calls, whatever tools are offered; REQUIRED: calls and nothing else; NAMED: calls of that
 * function and nothing else. AUTO: as the model will; with a format either calls or that. */
enum gen_calls { GEN_CALLS_AUTO, GEN_CALLS_NONE, GEN_CALLS_REQUIRED, GEN_CALLS_NAMED };

enum gen_finish { GEN_RUNNING, GEN_STOP, GEN_LENGTH, GEN_TOOL_CALLS, GEN_CANCELLED, GEN_ERROR };

/* Parts of an answer that are watched for loops apart from each other. */
enum gen_part { GEN_PART_REASONING, GEN_PART_CONTENT, GEN_PART_ARGUMENTS, GEN_N_PART };

/* What a loop is, by the figure that tells it: one word in a row, one line again and again (each at most 16 lines after
 * the last; lines without a letter or digit do not count), tokens that are the same as a circle before. 0: that figure
 * does not count. The defaults are far above what sound texts reach, a list of a hundred equal lines included: a model
 * that loops gets there all the same. */
struct gen_guard {
	enum { GEN_GUARD_UNSAID, GEN_GUARD_OFF, GEN_GUARD_ON } say; /* ON: a loop ends the answer */
	int maxrun, maxline, period; /* of ON */
};
#define GEN_GUARD_MAXRUN 512
#define GEN_GUARD_MAXLINE 512
#define GEN_GUARD_PERIOD 4096

enum gen_loop_kind { GEN_LOOP_NONE, GEN_LOOP_WORD, GEN_LOOP_LINE, GEN_LOOP_PERIOD };

/* An answer that loops, when that was first seen. */
struct gen_loop {
	enum gen_loop_kind kind;
	enum gen_part part;
	int count;                    /* the figure; of a period its tokens in one circle */
	int token;                    /* tokens of output until then */
	bool ended;                   /* the guard ended the answer there */
};

struct gen_token_logprob { int32_t token; float logprob; };

struct gen_usage {
	int prompt_tokens, completion_tokens, reasoning_tokens, cached_tokens;
	int drafted_tokens, accepted_tokens; /* speculation: drafts that were verified, those that
					      * the answer went on from */
};

#endif
