/* SPDX-License-Identifier: MIT
 * probe.h - coherency probes: scripted conversations with a chat server, and a verdict on its answers.
 * Threads: one at a time per run. Locks: none. */
#ifndef CTL_PROBE_H
#define CTL_PROBE_H

#include "ctl/probe/probe_exchange.h"
#include "engine/base/buf.h"

#include <jansson.h>
#include <stdbool.h>

#define PROBE_ALL "all"     /* stands for every probe: as a name to run, and in probe.def for options that all have */
#define PROBE_QUICK "quick" /* the option that chooses the quick form */

enum probe_verdict { PROBE_PASS, PROBE_WARN, PROBE_FAIL, PROBE_INCONCLUSIVE };

/* A piece of an answer as it streams; nonzero stops the generation (the answer so far is returned). */
typedef int probe_delta_f(void *arg, bool reasoning, const char *text, size_t len);

/* A finished request, its prompt and its own answer computed once more without the prefix cache: are the logits from
 * which each token of the answer was taken the same bits? */
struct probe_replay {
	/* Which: by id, or, where that is NULL, the nth newest from 0, what replays themselves made not counted. */
	const char *want;
	int nth, max_tokens;           /* one with more tokens is skipped; 0: none is */
	/* What came of it; zeroes before. */
	char id[64], again[64];        /* the request; the one that computed it again, empty when there was none */
	int prompt_tokens, output_tokens;
	int reused;                    /* tokens of the prompt that the request had from the cache */
	int differing;                 /* logits with other bits, of output_tokens */
	int first;                     /* place in prompt and answer of the first token taken from such logits; -1 */
	struct buf skipped;            /* why it cannot be compared; empty: it was. The caller frees */
};

/* A prompt through what is in force and through the reference kernels. */
struct probe_compare {
	const char *prompt;            /* text, its control tokens with it */
	int prompt_tokens;             /* of it, from its beginning */
	int tokens;                    /* of each greedy answer */
	bool same_numerics;            /* the reference with the parameters in force; false: with the exact ones */
};

/* A chat server. `body` is an OpenAI chat.completions request without `stream`; the reply is a chat.completion
 * object. With delta the server streams and the reply is put together. 0 or a negative code, `why` filled. */
struct probe_peer {
	int (*chat)(void *arg, json_t *body, probe_delta_f *delta, void *delta_arg, json_t **ret_reply,
		    struct buf *why);
	/* One raw exchange, for what `chat` hides: status, headers, the stream's own lines, times. 0 whatever the
	 * status, also when `piece` dropped the connection; a negative code when no whole answer came, `why` filled.
	 * NULL: the peer has no HTTP, and http_why says why (may be NULL too). */
	int (*http)(void *arg, const struct probe_request *q, struct probe_reply *ret_r, struct buf *why);
	const char *http_why;
	/* Both are NULL for a server that cannot look into itself. RC_NOT_FOUND when there is no such request. */
	int (*replay)(void *arg, struct probe_replay *r, struct buf *why);
	/* The reply is that of io.dsv4.Kernels.Compare, with a, the reference, and b, what is in force; and `exact`: b
	 * counts as having the reference's bits, where the parameters are the same. */
	int (*compare)(void *arg, const struct probe_compare *c, json_t **ret_reply, struct buf *why);
	/* Called after each request, for progress; may be NULL. */
	void (*progress)(void *arg, const char *probe, int done, int total);
	void *arg;
	const char *model; /* for the `model` field */
	int context;       /* tokens, 0 when unknown */
	bool local;        /* only this machine can reach its HTTP, as far as its address says */
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

/* Runs one probe. options: {name: value} over the defaults of probe.def, those of the quick form where options say
 * "quick": 1; so who gathers options puts the weakest first. RC_NOT_FOUND for an unknown probe, RC_INVALID naming an
 * unknown or ill-typed option. A peer's error makes the verdict inconclusive, never an error here, so that one bad
 * answer cannot hide the rest of a report. */
int probe_run(const char *name, json_t *options, const struct probe_peer *peer, struct probe_result *ret_r,
	      struct buf *why);
/* Checks one option value given as text (config file, command line) and adds it to options. */
int probe_option_set(const char *probe, const char *option, const char *value, json_t *options, struct buf *why);
/* The same for each of the named probes that has it, in options {probe: {name: value}}. One
 * that none has is the error of the last. */
int probe_option_give(json_t *names, const char *option, const char *value, json_t *options, struct buf *why);
/* [{name, text, options: [{name, default, quick, text}], figures: [{name, text}]}]; new reference. */
json_t *probe_list(void);
bool probe_exists(const char *name);
/* The names, from 0; NULL past the last. */
const char *probe_name(int i);
/* Does the probe say in probe.def that it reports this figure? *ret_many: as one of many, by a
 * name that ends in "*". */
bool probe_figure_declared(const char *probe, const char *figure, bool *ret_many);
/* The probes that a list of names means, each once; "all" means every probe, and so does NULL. RC_NOT_FOUND. */
int probe_names(json_t *said, json_t **ret_names, struct buf *why);
const char *probe_verdict_name(enum probe_verdict v);
/* What both say together: pass < warn < fail; inconclusive only over pass. */
enum probe_verdict probe_worse(enum probe_verdict a, enum probe_verdict b);

#endif
