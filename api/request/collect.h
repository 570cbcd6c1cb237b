/* SPDX-License-Identifier: MIT
 * collect.h - one generation as a whole: its events put together, for answers that are not streamed.
 * Threads: any, one at a time per object. Locks: none. */
#ifndef API_COLLECT_H
#define API_COLLECT_H

#include "api/http/error.h"
#include "engine/engine.h"

#include <stdbool.h>

struct collect_call {
	char *id, *name;
	struct buf arguments;           /* JSON text */
};

/* What came one after the other: a piece of the reasoning or the content, or a whole call. */
struct collect_part {
	enum gen_event_kind kind;       /* REASONING, CONTENT, TOOL_END */
	size_t from, len;               /* of the text */
	int call;
};

/* Zero-initialise. */
struct collect {
	struct buf reasoning, content;
	/* Whole calls only: whoever gets a whole answer may run what stands here, so one that was cut off stays out. */
	struct collect_call *call; int n_calls;
	struct gen_event *logprob; int n_logprobs; /* GEN_EV_LOGPROB each */
	struct collect_part *part; int n_parts; /* in order, for the protocols that have one */
	bool ended;
	enum gen_finish finish;
	int stop;                       /* index of the stop string that ended it; -1 */
	struct buf detail;              /* of the finish */
	struct error error;             /* rc != 0: the generation was cancelled or failed */
	bool open;                      /* call[n_calls] has begun and is no whole call */
	bool parted;                    /* internal: the next text is a part of its own */
};

/* Takes the event in and finishes it; true after the FINISH. */
bool collect_add(struct collect *c, struct gen_event *ev);
void collect_fini(struct collect *c);

/* Did the generation reach an end that a client gets an answer for: stop, length, tool calls? */
bool collect_finish_ok(enum gen_finish f);
/* The error of a FINISH that is none of those. */
void collect_error(const struct gen_event *ev, struct error *err);

#endif
