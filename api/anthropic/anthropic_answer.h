/* SPDX-License-Identifier: MIT
 * anthropic_answer.h - answers of Anthropic's /v1/messages, whole and streamed.
 * Threads: any, one at a time per object. Locks: none.
 *
 * Blocks are thinking, text and tool_use. A call that was cut off ends with its block, as every block does, but its
 * input is then no JSON and the stop_reason not "tool_use"; a whole answer leaves it out. */
#ifndef API_ANTHROPIC_ANSWER_H
#define API_ANTHROPIC_ANSWER_H

#include "api/request/answer.h"

enum anthropic_block { ANTHROPIC_NONE, ANTHROPIC_THINKING, ANTHROPIC_TEXT, ANTHROPIC_TOOL };

/* Start from the fields above the line. */
struct anthropic_answer {
	const struct engine *engine;
	const char *id;
	json_t *stops;               /* the request's, ours; may be NULL */
	bool omit;                   /* thinking is not shown, its signature holds it */
	/* ---- */
	enum anthropic_block block;  /* open now */
	int index;                   /* of the block that is open, or the next one */
	struct buf thinking;         /* of the block at hand, for its signature */
	struct buf input;            /* of the call at hand, for one that is cut off */
};

/* Its form is a malloc'd struct anthropic_answer. */
extern const struct answer_form anthropic_answer_form;

#endif
