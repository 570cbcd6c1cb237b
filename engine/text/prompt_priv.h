/* SPDX-License-Identifier: MIT
 * prompt_priv.h - what the parts of the prompt renderer share: turns, and how pieces are written.
 * Threads: any. Locks: none. */
#ifndef ENGINE_PROMPT_PRIV_H
#define ENGINE_PROMPT_PRIV_H

#include "engine/text/prompt.h"

/* Every control text of the format. In what the renderer itself writes they become their tokens; in what a
 * client wrote they stay text. TASK rows are named by a message's `task` field. */
#define PROMPT_MARKERS(M, TASK) \
	M(BEGIN, "<｜begin▁of▁sentence｜>") \
	M(END, "<｜end▁of▁sentence｜>") \
	M(USER, "<｜User｜>") \
	M(ASSISTANT, "<｜Assistant｜>") \
	M(REMINDER, "<｜latest_reminder｜>") \
	M(THINK, "<think>") \
	M(UNTHINK, "</think>") \
	M(DSML, "｜DSML｜") \
	TASK(ACTION, "<｜action｜>", "action") \
	TASK(QUERY, "<｜query｜>", "query") \
	TASK(AUTHORITY, "<｜authority｜>", "authority") \
	TASK(DOMAIN, "<｜domain｜>", "domain") \
	TASK(TITLE, "<｜title｜>", "title") \
	TASK(READ_URL, "<｜read_url｜>", "read_url")

enum prompt_marker {
#define M(name, text) PROMPT_M_##name,
#define TASK(name, text, task) PROMPT_M_##name,
	PROMPT_MARKERS(M, TASK)
#undef M
#undef TASK
	PROMPT_N_MARKERS,
	PROMPT_NO_MARKER = PROMPT_N_MARKERS
};

/* ---- writing (prompt.c) ---- */

void prompt_add_marker(struct prompt *p, enum prompt_marker m);
/* A client's text: never control. */
void prompt_add_text(struct prompt *p, const char *text, size_t len);
void prompt_add_string(struct prompt *p, const json_t *string);
/* The renderer's own text: the markers in it are control. */
void prompt_add_format(struct prompt *p, const char *text);
size_t prompt_size(const struct prompt *p);
/* PROMPT_NO_MARKER when there is no such task. */
enum prompt_marker prompt_task(const char *name);

/* ---- messages, checked (prompt_turns.c) ---- */

enum prompt_role { PROMPT_SYSTEM, PROMPT_DEVELOPER, PROMPT_USER, PROMPT_ASSISTANT, PROMPT_REMINDER };

/* Part of a user turn: a user's text, or a tool's result. */
struct prompt_block {
	bool result;
	const json_t *content; /* string, array of parts, or NULL */
	int order;             /* of the result's call */
	int index;             /* keeps the sort stable */
};

/* One message, or the users' and tools' messages that follow each other. */
struct prompt_turn {
	enum prompt_role role;
	int message;           /* index of its (first) message; -1: made for the tools */
	const json_t *content; /* not of USER */
	const json_t *reasoning, *tools, *response_format, *tool_calls; /* NULL when absent or empty */
	enum prompt_marker task;
	bool has_task, no_end;
	int first_block, n_blocks;
};

struct prompt_turns {
	struct prompt_turn *turn;
	int n;
	struct prompt_block *block;
	int n_blocks;
	bool any_tools;
	int last_user;         /* -1: none */
};

/* Messages and tools (or NULL) as prompt_render() has them; the turns, empty before, point into them. RC_INVALID: why
 * names the message and its field. prompt_turns_fini() in any case. */
int prompt_turns_read(json_t *messages, json_t *tools, struct prompt_turns *ret_t, struct buf *why);
/* Leaves out what is dropped with the reasoning: developer turns before the last user turn. */
void prompt_turns_drop(struct prompt_turns *t);
void prompt_turns_fini(struct prompt_turns *t);

/* ---- rendering (prompt_render.c) ---- */

/* The turns, of which o's rule may drop some, are written behind what p has. RC_TOO_LARGE: longer or nested deeper than
 * is taken; p then has a part. */
int prompt_render_turns(struct prompt *p, struct prompt_turns *t, const struct prompt_options *o,
	struct buf *why);

#endif
