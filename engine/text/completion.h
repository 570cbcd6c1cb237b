/* SPDX-License-Identifier: MIT
 * completion.h - turns generated tokens into reasoning, content and tool calls while they stream.
 * Threads: one at a time per object (the engine thread). Locks: none. */
#ifndef ENGINE_COMPLETION_H
#define ENGINE_COMPLETION_H

#include "engine/base/buf.h"
#include "engine/gen.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* How the prompt ended: inside <think>, after </think>, or unparsed text. */
enum completion_mode { COMPLETION_THINKING, COMPLETION_CHAT, COMPLETION_RAW };

/* One generated token: its raw bytes (perhaps part of a character) and what the tokenizer says of it.
 * The end-of-sentence token is not put; it is completion_end(COMPLETION_EOS). */
struct completion_token {
	const char *bytes;
	size_t len;
	bool added, special;
};

enum completion_kind {
	COMPLETION_REASONING,
	COMPLETION_CONTENT,
	COMPLETION_TOOL_BEGIN, /* text: the function's name */
	COMPLETION_TOOL_ARGS,  /* text: the next piece of the arguments' JSON, as it is generated */
	COMPLETION_TOOL_END,   /* the call is whole: its pieces together are one valid JSON object */
	COMPLETION_TOKEN       /* what became of one token (only with `tell`): each once, in their order */
};

/* NOT: it is of a marker, a call, a stop string, or what follows one. OPEN never comes out. */
enum completion_told_as { COMPLETION_TOLD_OPEN, COMPLETION_TOLD_NOT, COMPLETION_TOLD_REASONING,
			  COMPLETION_TOLD_CONTENT };

/* text: whole UTF-8 characters, never empty but for TOOL_END and TOKEN; borrowed for the call. call: from 0. */
struct completion_event {
	enum completion_kind kind;
	int call;
	const char *text;
	size_t len;
	enum completion_told_as told; /* of TOKEN; before the text that it is of */
	size_t character;      /* of TOKEN: characters of content before its own */
};
typedef void completion_emit_f(void *arg, const struct completion_event *ev);

struct completion_options {
	enum completion_mode mode;
	const char *const *stop; int n_stop; /* copied; matched in content only, after protocol markers */
	/* Markers count however they are spelled (stored text), rather than as added tokens only. */
	bool spelled;
	/* The opposite: no marker counts but as its added token. For answers that were held to a form, in which a
	 * text that looks like a marker is that text. */
	bool tokens_only;
	bool tell; /* emit TOKEN events */
	bool sure_json; /* calls were held to a form: a string="false" value is JSON, and nothing of it is held back */
	bool no_tools; /* none were offered: calls are markup that is dropped */
	completion_emit_f *emit; void *arg;
};

struct completion;

/* RC_INVALID for stop strings that are empty, too many or too long; why names which. */
int completion_new(const struct completion_options *o, struct completion **ret_c, struct buf *why);
void completion_free(struct completion **c);

/* Emits what the token settles. True when nothing more is wanted (a stop string was found): the caller stops
 * generating and calls completion_end. Tokens put before that are ignored; none may be put after it. */
bool completion_put(struct completion *c, const struct completion_token *t);
/* Would the next token belong to the reasoning? For counting, ask before completion_put. */
bool completion_in_reasoning(const struct completion *c);

enum completion_why { COMPLETION_EOS, COMPLETION_MAX_TOKENS, COMPLETION_CONTEXT, COMPLETION_CANCELLED,
	COMPLETION_REPETITION /* it loops, and was asked to be ended then */ };

/* What a completion may do against the protocol, and what is made of it: flag, name, recovery. A completion
 * without any flag is one that the official parser accepts, and the message is the one it returns. */
#define COMPLETION_FLAGS(X) \
	X(NO_END, "no_end", "cut off: what came is kept, finish is length") \
	X(AFTER_END, "after_end", "a text that goes on after the end marker: that part is ignored") \
	X(OPEN_THINK, "open_think", "no </think>: all text is reasoning, content is empty") \
	X(STRAY_MARKER, "stray_marker", \
		"<think> in content opens reasoning again; others are dropped, the text goes on") \
	X(CALL_IN_THINK, "call_in_think", \
		"calls before </think>: they count; reasoning is the text before and after") \
	X(TEXT_AFTER_CALL, "text_after_call", \
		"text after the calls: appended to the content (to the reasoning while it is open)") \
	X(SECOND_BLOCK, "second_block", "a second block of calls: dropped, so that no call can run twice") \
	X(DUP_PARAM, "dup_param", "a parameter given twice: the first value counts") \
	X(CUT_CALL, "cut_call", "ended inside a call: it gets no TOOL_END and nobody runs it") \
	X(OPEN_BLOCK, "open_block", "ended between calls: the whole ones count") \
	X(BAD_CALL, "bad_call", "unreadable call: as CUT_CALL, its markup is dropped") \
	X(UNOFFERED_CALL, "unoffered_call", "a call though no tools were offered: dropped whole") \
	X(BAD_MARKUP, "bad_markup", \
		"a damaged or unknown tag outside a call: the tag is dropped, the text around it kept") \
	X(BAD_JSON, "bad_json", \
		"a string=\"false\" value that is no JSON by its first 64 bytes: passed as a JSON string") \
	X(LOOSE, "loose", \
		"readable calls in another spelling: ASCII bars, other white space, a missing outer tag") \
	X(CONTROL, "control", "a role marker or other control token in text: dropped")

enum completion_flag_bit {
#define X(flag, name, text) COMPLETION_BIT_##flag,
	COMPLETION_FLAGS(X)
#undef X
	COMPLETION_N_FLAGS
};
enum completion_flag {
#define X(flag, name, text) COMPLETION_##flag = 1 << COMPLETION_BIT_##flag,
	COMPLETION_FLAGS(X)
#undef X
};

struct completion_verdict {
	enum gen_finish finish; /* STOP, TOOL_CALLS, LENGTH, CANCELLED */
	/* "eos", "stop_string", "tool_calls", "max_tokens", "context", "cancelled", "repetition",
	 * "incomplete_tool_call", "tool_call_without_tools" (eos), "only_reasoning" (eos without content or calls),
	 * "empty". */
	const char *detail;
	int n_calls;            /* whole calls */
	int stop;               /* the stop string that ended it, by its index; -1 */
	unsigned flags;         /* enum completion_flag */
};

/* Appends the flags' names, comma-separated; for operators. */
void completion_remarks(unsigned flags, struct buf *out);

/* Emits what was held back and decides how it ended. Once per object. */
void completion_end(struct completion *c, enum completion_why why, struct completion_verdict *ret_v);

/* A whole text, as the official parser takes it: ends with the end-of-sentence marker, or was cut off. The
 * message is {role, content, reasoning_content, tool_calls: [{type, function: {name, arguments}}]}.
 * `chunk`: bytes fed at a time, 0 for all; the result is the same. */
void completion_parse_text(const char *text, size_t len, bool thinking, size_t chunk, json_t **ret_message,
	struct completion_verdict *ret_v);

#endif
