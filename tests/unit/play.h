/* SPDX-License-Identifier: MIT
 * play.h - plays a text to the completion parser, by tokens and in chunks, and writes down what comes of it.
 * Threads: the test's own. Locks: none. */
#ifndef TESTS_PLAY_H
#define TESTS_PLAY_H

#include "engine/base/buf.h"
#include "engine/text/completion.h"

#include <stdbool.h>
#include <stddef.h>

/* Pieces of markup. */
#define END "<｜end▁of▁sentence｜>"
#define CALLS "\n\n<｜DSML｜tool_calls>\n"
#define CALLS_END "</｜DSML｜tool_calls>"
#define INVOKE(name) "<｜DSML｜invoke name=\"" name "\">\n"
#define INVOKE_END "</｜DSML｜invoke>\n"
#define STRING(name, value) "<｜DSML｜parameter name=\"" name "\" string=\"true\">" value "</｜DSML｜parameter>\n"
#define JSON(name, value) "<｜DSML｜parameter name=\"" name "\" string=\"false\">" value "</｜DSML｜parameter>\n"
#define F_OSLO INVOKE("f") STRING("city", "Oslo") INVOKE_END

/* What a stream brought: R(..) C(..) B(name) A(..) E, equal neighbours joined. */
struct play_trace {
	struct buf text;
	enum completion_kind kind;
	int n_events;
};
/* A completion_options.emit; arg is the trace. */
void play_event(void *arg, const struct completion_event *ev);

struct play {
	enum completion_mode mode;
	const char *stop[GEN_MAX_STOPS];
	int n_stop;
	bool spelled, no_tools;
	enum completion_why why;
	size_t chunk;              /* bytes at a time; 0: by the tiny tokenizer's tokens */
};
extern const struct play play_chat, play_thinking, play_chat_cut;

/* Clears the trace first; the caller frees its text. */
void play_run(const struct play *p, const char *text, struct play_trace *ret_t, struct completion_verdict *ret_v);
/* By tokens, and spelled in chunks of all small sizes: always the same. */
void play_expect(struct play p, const char *text, const char *want, const char *detail, unsigned flags);

/* Group fixtures: the tiny model's tokenizer. */
int play_setup(void **state);
int play_teardown(void **state);

#endif
