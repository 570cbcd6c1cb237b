/* SPDX-License-Identifier: MIT
 * probe_same.c - are two answers the same: reasoning, content, calls, and log-probabilities where both have them.
 * Threads: one at a time. Locks: none. */
#include "ctl/probe/probe_same.h"

#include <math.h>
#include <string.h>

#define SAME_SHOWN 40 /* bytes of each side, from where they part */

static bool same_text(const char *name, const char *a, const char *b, struct buf *what)
{
	size_t n = 0;

	while (a[n] && a[n] == b[n])
		n++;
	if (a[n] == b[n])
		return true;
	while (n > 0 && ((unsigned char)a[n] & 0xc0) == 0x80) /* a character is shown whole */
		n--;
	buf_printf(what, "%s differs from byte %zu on: \"%.*s\" and \"%.*s\"", name, n, SAME_SHOWN, a + n, SAME_SHOWN,
		   b + n);
	return false;
}

/* Names and arguments; ids are always others. */
static void same_calls_text(json_t *calls, struct buf *out)
{
	json_t *call;
	size_t i;

	json_array_foreach(calls, i, call)
	{
		json_t *f = json_object_get(call, "function");
		const char *name = json_string_value(json_object_get(f, "name"));
		const char *args = json_string_value(json_object_get(f, "arguments"));

		buf_printf(out, "%s(%s) ", name ? name : "", args ? args : "");
	}
}

static bool same_calls(json_t *a, json_t *b, struct buf *what)
{
	struct buf text_a = { 0 }, text_b = { 0 };
	bool same;

	same_calls_text(a, &text_a);
	same_calls_text(b, &text_b);
	same = same_text("the calls", buf_str(&text_a), buf_str(&text_b), what);
	buf_fini(&text_a);
	buf_fini(&text_b);
	return same;
}

static json_t *same_logprobs(const struct probe_answer *a, const char *phase)
{
	json_t *choice = json_array_get(json_object_get(a->reply, "choices"), 0);

	return json_object_get(json_object_get(choice, "logprobs"), phase);
}

static bool same_phase(struct probe_same *s, json_t *a, json_t *b, const char *phase, struct buf *what)
{
	size_t n = json_array_size(a) < json_array_size(b) ? json_array_size(a) : json_array_size(b);

	for (size_t i = 0; i < n; i++) {
		json_t *x = json_object_get(json_array_get(a, i), "logprob"),
		       *y = json_object_get(json_array_get(b, i), "logprob");
		double apart = fabs(json_number_value(x) - json_number_value(y));

		s->compared++;
		s->apart = apart > s->apart ? apart : s->apart;
		if (apart <= s->tolerance)
			continue;
		buf_printf(what,
			   "the text is the same, the log-probability of token %zu of the %s is not: %.9g and %.9g",
			   i, phase, json_number_value(x), json_number_value(y));
		return false;
	}
	return true;
}

bool probe_same(struct probe_same *s, const struct probe_answer *a, const struct probe_answer *b, struct buf *what)
{
	return same_text("the reasoning", a->reasoning, b->reasoning, what) &&
	       same_text("the content", a->content, b->content, what) &&
	       same_calls(a->tool_calls, b->tool_calls, what) &&
	       same_phase(s, same_logprobs(a, "reasoning_content"), same_logprobs(b, "reasoning_content"),
			  "reasoning", what) &&
	       same_phase(s, same_logprobs(a, "content"), same_logprobs(b, "content"), "content", what);
}
