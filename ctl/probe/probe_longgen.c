/* SPDX-License-Identifier: MIT
 * probe_longgen.c - one long article, watched for repetition while it streams.
 * Threads: one at a time per run. Locks: none. */
#include "ctl/probe/probe_run.h"
#include "ctl/probe/probe_text.h"

#include <stdio.h>
#include <string.h>

/* Bytes of a text that can be judged, about what min_tokens of the quick form are. Of 1,200 bytes of English, Chinese,
 * code and tables the gzip ratio is 0.41 or more, of a sentence again and again under 0.10; the
 * header alone is 0.015. */
#define LONGGEN_GZIP_FROM 1200
#define LONGGEN_SILENT 16        /* tokens that are no text: what ends the answer, the marks of phases */
/* A ratio can recover, as runs and lines cannot. So the generation is stopped by it only once so many bytes are under
 * the limit, the newest of them taken alone as well: that is a loop, whatever comes after it. */
#define LONGGEN_STOP_FROM 16000
#define LONGGEN_STOP_NEWEST 8000
#define LONGGEN_STOP_GROWTH 8    /* looks are an eighth of the text apart: all together cost ten times the last */

/* Each is judged apart: a model can loop in any of them. */
enum { PHASE_CONTENT, PHASE_REASONING, PHASE_ARGUMENTS, N_PHASE };
static const char *const longgen_phase[N_PHASE] = { "content", "reasoning", "arguments" };

struct longgen {
	struct probe_run *run;
	struct probe_text text[N_PHASE];
	int pieces;                  /* of the stream */
	size_t look[N_PHASE];        /* the length at which the ratio is looked at next */
	bool stopped;
};

/* ---- while it streams ---- */

static bool longgen_runs(const struct probe_run *r, const struct repetition_figures *f, const char *level)
{
	char run[32], line[32];

	snprintf(run, sizeof run, "maxrun_%s", level);
	snprintf(line, sizeof line, "maxline_%s", level);
	return f->maxrun >= (uint64_t)probe_int(r, run) || f->maxline >= (uint64_t)probe_int(r, line);
}

/* Has the ratio settled, by what stands before the next look? Looks are at fixed lengths, not where a piece of the
 * stream happened to end, so that the same text always has the same verdict. */
static bool longgen_ratio_failed(struct longgen *g, int p)
{
	const struct probe_text *t = &g->text[p];
	double limit = probe_real(g->run, "gzip_fail");
	bool failed = false;

	for (; !failed && t->text.len >= g->look[p]; g->look[p] += g->look[p] / LONGGEN_STOP_GROWTH)
		failed = probe_text_gzip(t, 0, g->look[p]) < limit &&
			 probe_text_gzip(t, g->look[p] - LONGGEN_STOP_NEWEST, g->look[p]) < limit;
	return failed;
}

/* Collects a phase and stops the generation once it can only fail. */
static int longgen_delta(void *arg, bool reasoning, const char *text, size_t len)
{
	struct longgen *g = arg;
	int p = reasoning ? PHASE_REASONING : PHASE_CONTENT;

	g->pieces++;
	probe_text_put(&g->text[p], text, len);
	g->stopped = longgen_runs(g->run, repetition_settled(&g->text[p].said), "fail") || longgen_ratio_failed(g, p);
	return g->stopped;
}

/* ---- the verdict ---- */

static enum probe_verdict longgen_judge(const struct probe_run *r, const struct probe_figures *f, size_t len)
{
	bool gzip = len >= LONGGEN_GZIP_FROM;

	if (longgen_runs(r, &f->said, "fail") || (gzip && f->gzip < probe_real(r, "gzip_fail")))
		return PROBE_FAIL;
	if (longgen_runs(r, &f->said, "warn") || (gzip && f->gzip < probe_real(r, "gzip_warn")))
		return PROBE_WARN;
	return PROBE_PASS;
}

static void longgen_figure(struct probe_run *r, int p, const char *name, double value)
{
	char full[48];

	snprintf(full, sizeof full, "%s_%s", longgen_phase[p], name);
	probe_figure(r, full, value);
}

static void longgen_report(struct longgen *g, int p)
{
	struct probe_run *r = g->run;
	struct probe_figures f;
	enum probe_verdict v;

	if (!g->text[p].text.len)
		return;
	probe_text_figures(&g->text[p], &f);
	v = longgen_judge(r, &f, g->text[p].text.len);
	longgen_figure(r, p, "bytes", (double)g->text[p].text.len);
	longgen_figure(r, p, "maxrun", (double)f.said.maxrun);
	longgen_figure(r, p, "maxline", (double)f.said.maxline);
	longgen_figure(r, p, "gzip", f.gzip);
	if (v != PROBE_PASS)
		probe_verdict(r, v, "%s repeats itself: maxrun %d, maxline %d, gzip %.3f%s", longgen_phase[p],
			      (int)f.said.maxrun, (int)f.said.maxline, f.gzip, g->stopped ? ", stopped there" : "");
}

/* Arguments come with the whole answer; a call's are one line, so that the same call again and again is one too. */
static void longgen_arguments(struct longgen *g, const struct probe_answer *a)
{
	json_t *call;
	size_t i;

	json_array_foreach(a->tool_calls, i, call) {
		const char *s = json_string_value(json_object_get(json_object_get(call, "function"), "arguments"));

		if (s)
			probe_text_put(&g->text[PHASE_ARGUMENTS], s, strlen(s));
		probe_text_put(&g->text[PHASE_ARGUMENTS], "\n", 1);
	}
}

/* A dsv4d whose repetition guard is on ends the loop before this probe sees enough of it. */
static bool longgen_guarded(const struct probe_answer *a)
{
	json_t *choice = json_array_get(json_object_get(a->reply, "choices"), 0);
	const char *detail = json_string_value(json_object_get(choice, "finish_detail"));

	return detail && !strcmp(detail, "repetition");
}

/* A token is a byte at least. What usage counts beyond that nobody has seen: false, and the verdict says so. */
static bool longgen_counted(const struct longgen *g, const struct probe_answer *a)
{
	json_t *said = json_object_get(json_object_get(a->reply, "usage"), "completion_tokens");
	size_t bytes = 0;

	for (int p = 0; p < N_PHASE; p++)
		bytes += g->text[p].text.len;
	if (a->completion_tokens >= 0 && (size_t)a->completion_tokens <= bytes + LONGGEN_SILENT)
		return true;
	probe_verdict(g->run, PROBE_INCONCLUSIVE,
		      "usage counts %.0f tokens, and %zu bytes came in %d pieces: it cannot be "
		      "right", json_number_value(said), bytes, g->pieces);
	return false;
}

static void longgen_verdict(struct longgen *g, const struct probe_answer *a)
{
	struct probe_run *r = g->run;
	int tokens = a->completion_tokens;

	longgen_arguments(g, a);
	if (longgen_counted(g, a))
		probe_figure(r, "tokens", tokens);
	for (int p = 0; p < N_PHASE; p++)
		longgen_report(g, p);
	if (longgen_guarded(a))
		probe_verdict(r, PROBE_FAIL, "the server's repetition guard ended it after %d tokens", tokens);
	if (r->result->verdict != PROBE_PASS)
		return;
	if (tokens < probe_int(r, "min_tokens"))
		probe_verdict(r, PROBE_INCONCLUSIVE, "only %d tokens were generated (%s)", tokens, a->finish);
	else if (!g->text[PHASE_CONTENT].text.len)
		probe_verdict(r, PROBE_INCONCLUSIVE,
			      "all %d tokens went to reasoning that does not repeat itself: there is no content to "
			      "judge (%s)", tokens, a->finish);
	else if (g->text[PHASE_CONTENT].text.len < LONGGEN_GZIP_FROM)
		probe_verdict(r, PROBE_INCONCLUSIVE, "%zu bytes of content are too few to be judged (%s)",
			      g->text[PHASE_CONTENT].text.len, a->finish);
	else
		probe_verdict(r, PROBE_PASS, "%d tokens without repetition", tokens);
}

void probe_longgen(struct probe_run *r)
{
	struct longgen g = { .run = r };
	json_t *messages = json_array(), *body;
	struct probe_answer a;

	for (int p = 0; p < N_PHASE; p++) {
		probe_text_init(&g.text[p]);
		g.look[p] = LONGGEN_STOP_FROM;
	}
	probe_say(messages, "user",
		  "Write a long and detailed article about the history of operating systems, from the "
		  "first batch monitors to today, with a chapter for each decade.");
	body = probe_body(messages, probe_int(r, "thinking"), false, (int)probe_int(r, "max_tokens"));
	json_object_set_new(body, "temperature", json_real(probe_real(r, "temperature")));
	json_object_set_new(body, "seed", json_integer(probe_int(r, "seed")));
	if (probe_ask(r, body, longgen_delta, &g, &a)) {
		longgen_verdict(&g, &a);
		probe_answer_fini(&a);
	}
	for (int p = 0; p < N_PHASE; p++)
		probe_text_fini(&g.text[p]);
}
