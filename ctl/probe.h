/* SPDX-License-Identifier: MIT
 * probe.h - coherency probes: scripted conversations with a chat server, and a verdict on its answers.
 * Threads: one at a time per run. Locks: none. */
#ifndef CTL_PROBE_H
#define CTL_PROBE_H

#include "engine/base/buf.h"

#include <jansson.h>
#include <stdbool.h>

enum probe_verdict { PROBE_PASS, PROBE_WARN, PROBE_FAIL, PROBE_INCONCLUSIVE };

/* A piece of an answer as it streams; nonzero stops the generation (the answer so far is returned). */
typedef int probe_delta_f(void *arg, bool reasoning, const char *text, size_t len);

/* A chat server. `body` is an OpenAI chat.completions request without `stream`; the reply is a chat.completion
 * object. With delta the server streams and the reply is put together. 0 or a negative code, `why` filled. */
struct probe_peer {
	int (*chat)(void *arg, json_t *body, probe_delta_f *delta, void *delta_arg, json_t **ret_reply, struct buf *why);
	/* Called after each request, for progress; may be NULL. */
	void (*progress)(void *arg, const char *probe, int done, int total);
	void *arg;
	const char *model; /* for the `model` field */
	int context;       /* tokens, 0 when unknown */
};

struct probe_result {
	enum probe_verdict verdict;
	json_t *figures;  /* {name: number} */
	json_t *requests; /* [request id] */
	struct buf why;   /* one sentence: what was seen */
};
void probe_result_fini(struct probe_result *r);
/* {name, verdict, why, figures, requests, seconds}; new reference. */
json_t *probe_result_json(const char *name, const struct probe_result *r, double seconds);

/* Runs one probe. options: {name: value} over the defaults of probe.def; RC_NOT_FOUND for an unknown probe,
 * RC_INVALID naming an unknown or ill-typed option. A peer's error makes the verdict inconclusive, never an
 * error here, so that one bad answer cannot hide the rest of a report. */
int probe_run(const char *name, json_t *options, const struct probe_peer *peer, struct probe_result *ret_r, struct buf *why);
/* Checks one option value given as text (config file, command line) and adds it to options. */
int probe_option_set(const char *probe, const char *option, const char *value, json_t *options, struct buf *why);
/* [{name, text, options: [{name, default, text}]}]; new reference. */
json_t *probe_list(void);
bool probe_exists(const char *name);
const char *probe_verdict_name(enum probe_verdict v);

#endif
