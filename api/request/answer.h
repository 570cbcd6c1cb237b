/* SPDX-License-Identifier: MIT
 * answer.h - generations on their way to a client: submits, then streams or waits; a form says what it looks like.
 * Threads: the connection's libmicrohttpd thread. Locks: none of its own.
 *
 * Every route that generates goes through here, so that keep-alives, vanished clients, shutdown and errors are the same
 * in all of them, and a protocol is only how events are written. */
#ifndef API_ANSWER_H
#define API_ANSWER_H

#include "api/http/exchange.h"
#include "api/request/collect.h"
#include "engine/engine.h"

#define ANSWER_MAX_CHOICES 16

/* What a protocol makes of the generations of one request. `form` is the protocol's own state. */
struct answer_form {
	/* Streams. begin writes what comes before any event; event one event of a choice, also its FINISH where that is
	 * one a client gets an answer for; end what follows the last choice's FINISH; fail an error instead of all that
	 * would still come: either is the stream's last act. The usage is that of all choices so far. */
	void (*begin)(void *form, const struct gen_usage *usage, struct buf *out);
	void (*event)(void *form, int choice, const struct gen_event *ev, const struct gen_usage *usage,
		struct buf *out);
	void (*end)(void *form, const struct gen_usage *usage, struct buf *out);
	void (*fail)(void *form, const struct error *err, struct buf *out);
	/* Something to send when the stream was silent for long; NULL: a comment. */
	void (*quiet)(void *form, struct buf *out);
	/* Whole answers: the body, from n choices that all came to an answer. */
	json_t *(*reply)(void *form, const struct collect *choice, int n, const struct gen_usage *usage);
	void (*free)(void *form);
};

/* Submits the spec n times (a seed goes up by one each time) and has the exchange stream the answers, or reply with
 * them. Takes over `form`, on failure as well. The spec's id, label and notify are set here. Errors: as
 * engine_submit(); nothing then runs. */
int answer_start(struct exchange *x, struct generation_spec *spec, int n, bool stream, const struct answer_form *as,
	void *form, struct error *err);
/* The same for several specs, each n times: ANSWER_MAX_CHOICES in all, the first spec's choices first. */
int answer_start_prompts(struct exchange *x, struct generation_spec *spec, int n_prompts, int n, bool stream,
	const struct answer_form *as, void *form, struct error *err);

#endif
