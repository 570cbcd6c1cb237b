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
/* Log-probabilities in one whole answer, alternatives included: its JSON has a kilobyte of memory for each. */
#define ANSWER_MAX_LOGPROBS 131072

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

/* What a request orders: every spec `each` times, ANSWER_MAX_CHOICES in all, the first spec's choices first. */
struct answer_order {
	struct generation_spec *spec; /* [n_specs]; id, label and notify are set by answer_start() */
	int n_specs, each;
	bool stream;
	const struct answer_form *as;
	void *form;                   /* taken over, on failure as well */
};

/* Submits the specs (a seed goes up by one each time) and has the exchange stream the answers, or reply with them.
 * What is not streamed gets a maximum of tokens by ANSWER_MAX_LOGPROBS, or is refused when it asks for more.
 * Errors: as engine_submit() and keys_answers(); nothing then runs. */
int answer_start(struct exchange *x, const struct answer_order *o, struct error *err);

#endif
