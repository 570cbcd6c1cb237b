/* SPDX-License-Identifier: MIT
 * probe_numerics.c - how far what is in force is from the reference kernels, layer by layer and in the logits.
 * Threads: one at a time per run. Locks: none.
 *
 * Twice: against the reference with the same parameters, where kernels that count as exact must have its bits, and
 * against the reference with exact parameters, which tells what the rounding that is in force comes to. */
#include "ctl/probe/probe_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define NUMERICS_MAX_LAYERS 128 /* figures of layers */
#define NUMERICS_MAX_TOKENS 100000
#define NUMERICS_BYTES_PER_TOKEN 16 /* of text: more than any tokenizer leaves, so that the prompt is long enough */

/* What one comparison came to. */
struct numerics_seen {
	double relative, cosine, kl, same_best;
	double worst_layer;                              /* the largest relative error of a layer's streams */
	long long differing, nonfinite, failures, first; /* first: token of the answers; -1: none differs */
	bool exact;
};

/* A chat of one turn with much text, in the model's own form. */
static void numerics_prompt(size_t tokens, struct buf *out)
{
	buf_adds(out, "<｜begin▁of▁sentence｜><｜User｜>Read these notes.\n\n My codeword is poppy.");
	for (unsigned i = 0; out->len < tokens * NUMERICS_BYTES_PER_TOKEN; i++)
		probe_sentence(out, i);
}

/* Infinite where the reply has null: what is no number is as far as can be. */
static double numerics_number(json_t *o, const char *name)
{
	json_t *v = json_object_get(o, name);

	return json_is_number(v) ? json_number_value(v) : INFINITY;
}

static void numerics_layers(struct probe_run *r, json_t *reply, const char *side, struct numerics_seen *s)
{
	json_t *layer;
	char name[32];
	size_t i;

	snprintf(name, sizeof name, "%s_layer", side);
	json_array_foreach(json_object_get(reply, "layers"), i, layer)
	{
		double relative = numerics_number(layer, "relative");

		s->worst_layer = relative > s->worst_layer ? relative : s->worst_layer;
		s->differing += json_integer_value(json_object_get(layer, "differing"));
		if (i < NUMERICS_MAX_LAYERS && isfinite(relative))
			probe_figure_at(r, name, (long long)i, relative);
	}
}

static void numerics_read(struct probe_run *r, json_t *reply, const char *side, struct numerics_seen *s)
{
	json_t *logits = json_object_get(reply, "logits"), *first = json_object_get(reply, "first_difference");

	*s = (struct numerics_seen){ .first = -1 };
	s->relative = numerics_number(logits, "relative");
	s->cosine = numerics_number(logits, "cosine");
	s->kl = numerics_number(logits, "kl");
	s->same_best = numerics_number(logits, "same_best");
	s->differing = json_integer_value(json_object_get(logits, "differing"));
	s->nonfinite = json_integer_value(json_object_get(logits, "nonfinite"));
	s->failures = json_integer_value(json_object_get(reply, "failures"));
	s->exact = json_is_true(json_object_get(reply, "exact"));
	if (json_is_object(first))
		s->first = json_integer_value(json_object_get(first, "token"));
	numerics_layers(r, reply, side, s);
}

static void numerics_figure(struct probe_run *r, const char *side, const char *name, double value)
{
	char full[48];

	snprintf(full, sizeof full, "%s_%s", side, name);
	if (isfinite(value))
		probe_figure(r, full, value);
}

static void numerics_report(struct probe_run *r, const char *side, const struct numerics_seen *s)
{
	numerics_figure(r, side, "relative", s->relative);
	numerics_figure(r, side, "cosine", s->cosine);
	numerics_figure(r, side, "kl", s->kl);
	numerics_figure(r, side, "best", s->same_best);
	numerics_figure(r, side, "worst_layer", s->worst_layer);
	numerics_figure(r, side, "differing", (double)s->differing);
	numerics_figure(r, side, "nonfinite", (double)s->nonfinite);
	numerics_figure(r, side, "first_difference", (double)s->first);
}

/* The prompt through the reference and what is in force. False: the verdict says why not. */
static bool numerics_compare(struct probe_run *r, bool same, struct numerics_seen *s)
{
	struct buf prompt = { 0 }, why = { 0 };
	struct probe_compare c = { .prompt_tokens = (int)probe_int(r, "tokens"),
				   .tokens = (int)probe_int(r, "answer"),
				   .same_numerics = same };
	json_t *reply = NULL;
	int rc;

	numerics_prompt((size_t)c.prompt_tokens, &prompt);
	c.prompt = buf_str(&prompt);
	rc = r->peer->compare(r->peer->arg, &c, &reply, &why);
	probe_step(r);
	if (rc == 0) {
		numerics_read(r, reply, same ? "same" : "exact", s);
		numerics_report(r, same ? "same" : "exact", s);
	} else {
		probe_verdict(r, PROBE_INCONCLUSIVE, "the comparison with %s parameters failed: %s",
			      same ? "the same" : "exact", buf_str(&why));
	}
	json_decref(reply);
	buf_fini(&prompt);
	buf_fini(&why);
	return rc == 0;
}

/* The answers' part of a verdict. */
static void numerics_first(const struct numerics_seen *s, struct buf *out)
{
	if (s->first >= 0)
		buf_printf(out, ", and the answers part at token %lld", s->first);
}

static void numerics_judge_same(struct probe_run *r, const struct numerics_seen *s)
{
	bool fail = s->relative >= probe_real(r, "same_fail"), warn = s->relative >= probe_real(r, "same_warn");
	struct buf part = { 0 };

	numerics_first(s, &part);
	if (s->failures)
		probe_verdict(r, PROBE_FAIL, "%lld operations of the set in force failed", s->failures);
	if (s->nonfinite || !isfinite(s->relative))
		probe_verdict(r, PROBE_FAIL, "of the set in force %lld logits are no numbers", s->nonfinite);
	else if (s->exact && s->differing)
		probe_verdict(r, PROBE_FAIL,
			      "the set in force counts as exact, but %lld values have other bits than the "
			      "reference's: logits are "
			      "%.3g apart%s",
			      s->differing, s->relative, buf_str(&part));
	else if (fail || warn)
		probe_verdict(
			r, fail ? PROBE_FAIL : PROBE_WARN,
			"with the same parameters the logits of the set in force are %.3g from the reference's%s",
			s->relative, buf_str(&part));
	buf_fini(&part);
}

static void numerics_judge_exact(struct probe_run *r, const struct numerics_seen *s)
{
	struct buf part = { 0 };

	numerics_first(s, &part);
	if (!isfinite(s->relative) || s->relative >= probe_real(r, "exact_warn"))
		probe_verdict(r, PROBE_WARN, "the rounding in force puts logits %.3g from those computed exactly%s",
			      s->relative, buf_str(&part));
	buf_fini(&part);
}

void probe_numerics(struct probe_run *r)
{
	struct numerics_seen same, exact;

	if (!r->peer->compare) {
		probe_verdict(r, PROBE_INCONCLUSIVE,
			      "only a daemon of this kind can be looked into, over its control socket");
		return;
	}
	if (probe_int(r, "tokens") < 1 || probe_int(r, "tokens") + probe_int(r, "answer") > NUMERICS_MAX_TOKENS) {
		probe_verdict(r, PROBE_INCONCLUSIVE, "tokens must be 1 or more, and with answer at most %d",
			      NUMERICS_MAX_TOKENS);
		return;
	}
	r->total = 2;
	if (!numerics_compare(r, true, &same))
		return;
	numerics_judge_same(r, &same);
	if (!numerics_compare(r, false, &exact))
		return;
	numerics_judge_exact(r, &exact);
	if (r->result->verdict == PROBE_PASS)
		probe_verdict(r, PROBE_PASS, "%s, and %.3g from what is computed exactly",
			      same.differing ? "close to the reference" : "the reference's own bits", exact.relative);
}
