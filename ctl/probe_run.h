/* SPDX-License-Identifier: MIT
 * probe_run.h - what the probes share: options, asking the peer, figures. Private to ctl/probe*.c.
 * Threads: one at a time per run. Locks: none. */
#ifndef CTL_PROBE_RUN_H
#define CTL_PROBE_RUN_H

#include "ctl/probe.h"

#include <stdint.h>

struct probe_run {
	const char *name;
	json_t *options;                /* complete: defaults filled in */
	const struct probe_peer *peer;
	struct probe_result *result;
	int asked, total;               /* requests, for progress */
};

typedef void probe_f(struct probe_run *r);

/* The answer to one request, split by phase; borrowed from `reply`. */
struct probe_answer {
	json_t *reply;                  /* owned; NULL after an error */
	const char *reasoning, *content;
	const char *finish;
	json_t *tool_calls;             /* array or NULL */
	int prompt_tokens, completion_tokens;
};
void probe_answer_fini(struct probe_answer *a);

int64_t probe_int(const struct probe_run *r, const char *option);
double probe_real(const struct probe_run *r, const char *option);
/* The i-th number of a list option, or -1 past its end. */
int64_t probe_list_int(const struct probe_run *r, const char *option, size_t i);
void probe_figure(struct probe_run *r, const char *name, double value);
/* Raises the verdict to at least v (pass < warn < fail; inconclusive only over pass) and appends to `why`. */
void probe_verdict(struct probe_run *r, enum probe_verdict v, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Adds {role, content} to messages. */
void probe_say(json_t *messages, const char *role, const char *content);
/* Asks at temperature 0 unless body says otherwise; takes over body. False: the error became an inconclusive
 * verdict. */
bool probe_ask(struct probe_run *r, json_t *body, probe_delta_f *delta, void *arg, struct probe_answer *ret_a);
/* A request body: messages (taken over), thinking, max_tokens, and a tools list when asked for. */
json_t *probe_body(json_t *messages, bool thinking, bool tools, int max_tokens);

probe_f probe_recall, probe_continuation, probe_needle, probe_longgen;

#endif
