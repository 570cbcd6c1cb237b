/* SPDX-License-Identifier: MIT
 * probe_longgen.c - one long article, watched for repetition while it streams.
 * Threads: one at a time per run. Locks: none. */
#include "ctl/probe_run.h"
#include "ctl/probe_text.h"

#include <stdio.h>

#define LONGGEN_LOOK_EVERY 2048  /* bytes of a phase between two looks */
#define LONGGEN_GZIP_FROM 6000   /* shorter texts say nothing by their gzip ratio */

enum { PHASE_CONTENT, PHASE_REASONING, N_PHASE };
static const char *const longgen_phase[N_PHASE] = { "content", "reasoning" };

struct longgen {
	struct probe_run *run;
	struct buf text[N_PHASE];
	size_t looked[N_PHASE];
};

/* The verdict on one phase's figures. */
static enum probe_verdict longgen_judge(const struct probe_run *r, const struct probe_text *t, size_t len)
{
	bool gzip = len >= LONGGEN_GZIP_FROM;

	if (t->maxrun >= probe_int(r, "maxrun_fail") || t->maxline >= probe_int(r, "maxline_fail") ||
	    (gzip && t->gzip < probe_real(r, "gzip_fail")))
		return PROBE_FAIL;
	if (t->maxrun >= probe_int(r, "maxrun_warn") || t->maxline >= probe_int(r, "maxline_warn") ||
	    (gzip && t->gzip < probe_real(r, "gzip_warn")))
		return PROBE_WARN;
	return PROBE_PASS;
}

/* Collects a phase and stops the generation once it can only fail. */
static int longgen_delta(void *arg, bool reasoning, const char *text, size_t len)
{
	struct longgen *g = arg;
	int p = reasoning ? PHASE_REASONING : PHASE_CONTENT;
	struct probe_text t;

	buf_add(&g->text[p], text, len);
	if (g->text[p].len < g->looked[p] + LONGGEN_LOOK_EVERY)
		return 0;
	g->looked[p] = g->text[p].len;
	probe_text_measure(g->text[p].data, g->text[p].len, &t);
	return longgen_judge(g->run, &t, g->text[p].len) == PROBE_FAIL;
}

static void longgen_report(struct longgen *g, int p)
{
	struct probe_run *r = g->run;
	struct probe_text t;
	enum probe_verdict v;
	char name[48];

	probe_text_measure(buf_str(&g->text[p]), g->text[p].len, &t);
	v = longgen_judge(r, &t, g->text[p].len);
	snprintf(name, sizeof name, "%s_bytes", longgen_phase[p]);
	probe_figure(r, name, (double)g->text[p].len);
	snprintf(name, sizeof name, "%s_maxrun", longgen_phase[p]);
	probe_figure(r, name, t.maxrun);
	snprintf(name, sizeof name, "%s_maxline", longgen_phase[p]);
	probe_figure(r, name, t.maxline);
	snprintf(name, sizeof name, "%s_gzip", longgen_phase[p]);
	probe_figure(r, name, t.gzip);
	if (v != PROBE_PASS)
		probe_verdict(r, v, "%s repeats itself: maxrun %d, maxline %d, gzip %.3f", longgen_phase[p], t.maxrun,
			      t.maxline, t.gzip);
}

void probe_longgen(struct probe_run *r)
{
	struct longgen g = { .run = r };
	json_t *messages = json_array(), *body;
	struct probe_answer a;
	int tokens;

	probe_say(messages, "user", "Write a long and detailed article about the history of operating systems, from the "
				    "first batch monitors to today, with a chapter for each decade.");
	body = probe_body(messages, probe_int(r, "thinking"), false, (int)probe_int(r, "max_tokens"));
	json_object_set_new(body, "temperature", json_real(probe_real(r, "temperature")));
	json_object_set_new(body, "seed", json_integer(probe_int(r, "seed")));
	if (probe_ask(r, body, longgen_delta, &g, &a)) {
		tokens = a.completion_tokens;
		probe_figure(r, "tokens", tokens);
		for (int p = 0; p < N_PHASE; p++)
			if (g.text[p].len)
				longgen_report(&g, p);
		if (r->result->verdict == PROBE_PASS && tokens < probe_int(r, "min_tokens"))
			probe_verdict(r, PROBE_INCONCLUSIVE, "only %d tokens were generated (%s)", tokens, a.finish);
		else if (r->result->verdict == PROBE_PASS)
			probe_verdict(r, PROBE_PASS, "%d tokens without repetition", tokens);
		probe_answer_fini(&a);
	}
	for (int p = 0; p < N_PHASE; p++)
		buf_fini(&g.text[p]);
}
