/* SPDX-License-Identifier: MIT
 * responses_answer.h - answers of OpenAI's /v1/responses, whole and streamed.
 * Threads: any, one at a time per object. Locks: none.
 *
 * Both are made by one machine, which turns events into output items; a whole answer is its items without the telling.
 * A call that was cut off has no item of its own in the end: the stream leaves it open, since clients run what is
 * done. */
#ifndef API_RESPONSES_ANSWER_H
#define API_RESPONSES_ANSWER_H

#include "api/http/exchange.h"
#include "api/request/answer.h"
#include "api/responses/unwrap.h"

/* Start from the fields above the line. */
struct responses_answer {
	struct exchange *x;          /* lives longer */
	json_t *echo, *names;        /* responses_request.h; ours */
	time_t created;
	bool store, summary, encrypted;
	/* ---- */
	int sequence;                /* of the next event */
	int index;                   /* of the item that is open, or the next one */
	json_t *output;              /* items that are done */
	json_t *item;                /* the open one; NULL */
	enum gen_event_kind kind;    /* of what is in it: REASONING, CONTENT or TOOL_ARGS */
	struct buf text;             /* so far */
	struct unwrap input;         /* of a custom tool */
	json_t *finished;            /* the response in the end */
	bool complete;               /* not cut off */
};

void responses_answer_init(struct responses_answer *a);
/* Its form is a malloc'd struct responses_answer. */
extern const struct answer_form responses_answer_form;

/* For responses_answer.c: one event as output items; `out` NULL: only the items. */
void responses_items_event(struct responses_answer *a, const struct gen_event *ev, struct buf *out);
/* The end of what was open. */
void responses_items_end(struct responses_answer *a, struct buf *out);
/* One event of the stream, with its number; takes over it. Nothing without `out`. */
void responses_items_send(struct responses_answer *a, struct buf *out, json_t *event);

#endif
