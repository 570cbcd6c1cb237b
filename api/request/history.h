/* SPDX-License-Identifier: MIT
 * history.h - a conversation told in another protocol's items, put together as the messages the engine renders.
 * Threads: any, one at a time per object. Locks: none.
 *
 * What an assistant did between two others' messages is one message, however many items told it. Each message knows
 * which of the client's items it began with, so that the engine's refusals can name that. */
#ifndef API_HISTORY_H
#define API_HISTORY_H

#include "api/http/error.h"

#include <jansson.h>
#include <stdbool.h>

/* Start from {.list, .front, .earlier}. */
struct history {
	const char *list;        /* the client's name for the conversation: "messages", "input" */
	const char *front;       /* and for what stands before it: "system", "instructions" */
	const char *earlier;     /* and for what names an earlier request; NULL: nothing does */
	json_t *messages;
	int *from;               /* [messages]: index in the client's list, or HISTORY_... */
	size_t n_from;
	bool fronted;            /* instructions in front are being collected: a message only when they are all there */
	int front_from;
	struct buf instructions;
	bool open;               /* an assistant's message is being put together, of: */
	int open_from;
	struct buf reasoning, content;
	json_t *calls;
};

#define HISTORY_FRONT (-1)
#define HISTORY_EARLIER (-2) /* came with an earlier request */

void history_fini(struct history *h);
/* Instructions. Those in front are one message; later ones become a user's words, for only a user's message is followed
 * by an answer. */
void history_system(struct history *h, int from, const char *text, size_t len);
/* Takes over `content`. */
void history_user(struct history *h, int from, json_t *content);
/* Messages as the engine has them, of an earlier request. */
void history_earlier(struct history *h, const json_t *messages);
/* What a call gave; takes over `content`. */
void history_result(struct history *h, int from, const char *id, json_t *content);
/* The assistant's. Several reasonings are told apart by a blank line, texts follow each other as they are. */
void history_reasoning(struct history *h, int from, const char *text, size_t len);
void history_text(struct history *h, int from, const char *text, size_t len);
/* Takes over `arguments`: an object, or a string of JSON. */
void history_call(struct history *h, int from, const char *id, const char *name, json_t *arguments);
/* No more is to come. Returns the messages, which stay the history's. */
json_t *history_end(struct history *h);
/* Are calls the last that was told? */
bool history_ends_with_calls(const struct history *h);

/* Makes "messages[3].content: ..." of the engine the client's own path. */
void history_error(const struct history *h, struct error *err);

#endif
