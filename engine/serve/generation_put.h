/* SPDX-License-Identifier: MIT
 * generation_put.h - the engine's side of generation.h: making a generation and putting events into it.
 * Threads: engine, but generation_new (who submits) and generation_stop (any). Lock: generation. */
#ifndef ENGINE_GENERATION_PUT_H
#define ENGINE_GENERATION_PUT_H

#include "engine/serve/generation.h"

/* A consumer that leaves so many events unread, or so many bytes of text and alternatives, pauses its request; adjacent
 * texts count as one event. One whose `full` says so pauses it from the first. */
#define GENERATION_MAX_BACKLOG 1024
#define GENERATION_MAX_BACKLOG_BYTES 65536

#define GENERATION_ID_MAX 64

struct generation_setup {
	const char *id;                          /* copied */
	void (*notify)(void *arg); bool (*full)(void *arg); void *arg; /* the consumer's; may be NULL */
	/* Tells the engine thread that it may have to stop or go on; called by the consumer, no lock held. */
	void (*wake)(void *arg); void *wake_arg;
};

/* Two references: one for the consumer (generation_unref), one for the engine (generation_release). */
struct generation *generation_new(const struct generation_setup *s);
void generation_release(struct generation **g);

/* Queues; the consumer is told by generation_flush. After the consumer has left, events are dropped.
 * Text of the kind and call of the last unread event is appended to that. */
void generation_put_text(struct generation *g, enum gen_event_kind kind, int call, const char *text,
			 size_t len);
/* With a new id, which is `id` afterwards. */
void generation_put_tool(struct generation *g, int call, const char *name, size_t len, char id[GENERATION_ID_MAX]);
void generation_put_tool_end(struct generation *g, int call);
void generation_put_logprob(struct generation *g, const struct gen_token_logprob *lp, const struct gen_place *place,
			    const struct gen_token_logprob *top, int n_top);
/* That stop string ended it, which the last event will say. */
void generation_stop_string(struct generation *g, int index);
/* It loops, which the last event will say. */
void generation_loop(struct generation *g, const struct gen_loop *l);
/* The last event, once; also flushes. */
void generation_finish(struct generation *g, enum gen_finish finish, int rc, const char *detail);
void generation_flush(struct generation *g);
void generation_set_usage(struct generation *g, const struct gen_usage *u);

/* Marks as to be stopped on behalf of someone else, who says why (RC_CANCELLED, RC_DRAINING; the first
 * counts): the consumer is still told how it ended. Wakes nobody. */
void generation_stop(struct generation *g, int why);
/* That reason; 0: goes on. */
int generation_stopped(const struct generation *g);
/* Was it its own consumer that stopped it? */
bool generation_left(struct generation *g);
/* Has the consumer to read before more is made? After a yes it wakes the engine once it has. */
bool generation_backlogged(struct generation *g);

#endif
