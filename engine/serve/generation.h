/* SPDX-License-Identifier: MIT
 * generation.h - one request to generate: what to do, and the stream of what came out.
 * Threads: the engine thread produces, one consumer reads. Lock: generation (own, short). */
#ifndef ENGINE_GENERATION_H
#define ENGINE_GENERATION_H

#include "engine/gen.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct generation;
struct kset;
struct numerics;

struct generation_spec {
	/* Either messages (and tools), or raw token ids, or raw text. */
	json_t *messages, *tools;     /* borrowed */
	const int32_t *tokens; int n_tokens;
	const char *text;             /* raw text, added tokens not recognised */
	enum gen_calls calls;
	const char *function;         /* of GEN_CALLS_NAMED */
	bool one_call;                /* the answer ends with its first call */
	enum gen_format format;
	/* Of GEN_FORMAT_JSON_SCHEMA; borrowed for the call; engine/constrain/schema.h says what is understood. A
	 * refusal begins with "schema" and the path in it, one of a tool's with "tools[i].function.parameters". */
	json_t *schema;
	bool thinking;
	int max_reasoning;            /* tokens of reasoning, then it is closed; 0: any */
	enum gen_effort effort;
	int max_tokens;               /* <= 0: what fits the context */
	struct gen_sampling sampling;
	int deadline;                 /* seconds from now, then it ends with RC_TIMEOUT; 0: the engine's limit */
	/* The answer is these tokens, whatever the logits say, and then it ends: for logits,
	 * and work, as they were once.
	 * NULL: none; in place of max_tokens and ignore_eos. */
	const int32_t *answer; int n_answer;
	struct gen_guard guard;       /* loops are noted whatever it says */
	bool parse;                   /* split reasoning, content, tool calls; false: all is content */
	const char *id;               /* request id; NULL: made up */
	const char *label;            /* where from: "http", "probe:recall", ... */
	/* Numbers of its own, for experiments beside the traffic. The set is borrowed for the call and pinned by the
	 * request, which keeps it to its end; such a request is never taken along by a change of those in force, uses
	 * the prefix cache under exactly its own numbers' identity, and its kernels' failures are not held against the
	 * engine. */
	struct kset *set;             /* NULL: the active one */
	const struct numerics *numerics; /* NULL: those in force; they also choose how messages are rendered */
	bool cache_off;               /* looks nothing up in the prefix cache and leaves nothing there */
	bool reserved;                /* takes one of the places that engine_reserve() holds for the caller */
	/* Called on the engine thread, without locks, after events were queued. Must not block. */
	void (*notify)(void *arg); void *arg;
	/* Asked after notify, on the same terms: is there more with the consumer already than it can pass on? The
	 * request then pauses until an event is taken. NULL: never. */
	bool (*full)(void *arg);
};

enum gen_event_kind {
	GEN_EV_REASONING,  /* text: bytes of whole UTF-8 characters */
	GEN_EV_CONTENT,
	GEN_EV_TOOL_BEGIN, /* text: function name; call: index from 0; tool_id set */
	GEN_EV_TOOL_ARGS,  /* text: next piece of the arguments' JSON */
	GEN_EV_TOOL_END,
	GEN_EV_LOGPROB,    /* lp: one generated token; comes before the text events it leads to, in their order */
	GEN_EV_FINISH      /* last event, exactly one: finish, rc, text = detail (see below) */
};

/* What a token is of: the reasoning, the content, or neither of them: a marker, a call, a stop string. */
enum gen_text { GEN_TEXT_NONE, GEN_TEXT_REASONING, GEN_TEXT_CONTENT };
struct gen_place {
	enum gen_text text;
	size_t character;             /* of content: characters of it before the token's own */
};

struct gen_event {
	enum gen_event_kind kind;
	int call;
	char *text; size_t len;       /* owned by the event, NUL-terminated */
	char *tool_id;
	struct gen_token_logprob lp;  /* LOGPROB */
	struct gen_place lp_place;    /* of that token */
	int n_top;
	struct gen_token_logprob *top;
	struct gen_loop loop;         /* FINISH: did it loop? */
	int stop;                     /* FINISH: the stop string that ended it, by its index; -1 */
	enum gen_finish finish;       /* FINISH: `rc` for GEN_ERROR; text is a detail: the error, or "eos", */
	int rc;                       /* "stop_string", "max_tokens", "context", "repetition", ... */
};

/* Moves the next event into *ret_ev; false when none is queued. */
bool generation_next(struct generation *g, struct gen_event *ret_ev);
/* As generation_next, but waits up to timeout_ms (< 0: for ever). 0, -ETIMEDOUT. */
int generation_wait(struct generation *g, struct gen_event *ret_ev, long timeout_ms);
void gen_event_fini(struct gen_event *ev);

const char *generation_id(const struct generation *g);
void generation_usage(struct generation *g, struct gen_usage *ret_u);
/* Asks the engine to stop; idempotent, returns at once. After it no notify call begins that had not begun. */
void generation_cancel(struct generation *g);
/* The consumer's last act; cancels if still running. After it returns notify is never called again. */
void generation_unref(struct generation **g);

#endif
