/* SPDX-License-Identifier: MIT
 * probe_run.h - what the probes share: options, asking the peer, figures. Private to ctl/probe.
 * Threads: one at a time per run. Locks: none. */
#ifndef CTL_PROBE_RUN_H
#define CTL_PROBE_RUN_H

#include "ctl/probe/probe.h"

#include <stdint.h>

struct probe_run {
	const char *name;
	json_t *options;                /* complete: defaults filled in */
	const struct probe_peer *peer;
	struct probe_result *result;
	int asked, total;               /* requests, for progress */
	bool no_logprobs;               /* the peer refuses them */
};

typedef void probe_f(struct probe_run *r);

/* The answer to one request, split by phase; borrowed from `reply`. */
struct probe_answer {
	json_t *reply;                  /* owned; NULL after an error */
	const char *reasoning, *content;
	const char *finish;
	json_t *tool_calls;             /* array or NULL */
	int prompt_tokens, completion_tokens; /* 0: the server does not say; -1: what it says is no count */
	int cached_tokens;              /* -1: the server does not say */
};
void probe_answer_fini(struct probe_answer *a);

int64_t probe_int(const struct probe_run *r, const char *option);
double probe_real(const struct probe_run *r, const char *option);
/* The i-th number of a list option, or -1 past its end. */
int64_t probe_list_int(const struct probe_run *r, const char *option, size_t i);
void probe_figure(struct probe_run *r, const char *name, double value);
/* Raises the verdict to at least v (pass < warn < fail; inconclusive only over pass) and appends to `why`. */
void probe_verdict(struct probe_run *r, enum probe_verdict v, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Adds {role, content} to messages. */
void probe_say(json_t *messages, const char *role, const char *content);
/* Asks at temperature 0 unless body says otherwise; takes over body. False: the error became an inconclusive
 * verdict. */
bool probe_ask(struct probe_run *r, json_t *body, probe_delta_f *delta, void *arg, struct probe_answer *ret_a);
/* The same, with log-probabilities where the peer gives them: one that refuses them is asked without. */
bool probe_ask_logprobs(struct probe_run *r, json_t *body, struct probe_answer *ret_a);
/* As probe_ask(), for an answer that may fail: without a verdict, `why` filled. */
bool probe_try(struct probe_run *r, json_t *body, probe_delta_f *delta, void *arg, struct probe_answer *ret_a,
	       struct buf *why);
/* A request body: messages (taken over), thinking, max_tokens, and a tools list when asked for. */
json_t *probe_body(json_t *messages, bool thinking, bool tools, int max_tokens);

/* Where an answer has any of these words, upper case or lower; `alias` may be NULL. */
enum { PROBE_IN_CONTENT = 1, PROBE_IN_CALLS = 2, PROBE_IN_REASONING = 4 };
unsigned probe_where(const struct probe_answer *a, const char *word, const char *alias);
/* What was answered, for a verdict's text: the content's beginning, the call, or that there was none; and the request's
 * id, by which it can be looked into. */
void probe_print_answer(const struct probe_answer *a, struct buf *out);
/* The i-th sentence of a text about nothing, the same each time; no fact of any probe is in it. */
void probe_sentence(struct buf *b, unsigned i);
/* Adds so many short turns whose answers any model could have given. */
void probe_small_talk(json_t *messages, int turns);
#define PROBE_NONCE 9
/* Letters that no earlier prompt had: what begins with them, no server has cached. */
void probe_nonce(char out[PROBE_NONCE]);
/* {name}_{n} */
void probe_figure_at(struct probe_run *r, const char *name, long long n, double value);
/* A request that a verdict is about and that the peer's reply does not name. */
void probe_request(struct probe_run *r, const char *id);
/* One more piece of work of `total` is done. */
void probe_step(struct probe_run *r);

probe_f probe_abort, probe_numerics, probe_warmcold;
probe_f probe_recall, probe_continuation, probe_needle, probe_longgen;
probe_f probe_api;

#endif
