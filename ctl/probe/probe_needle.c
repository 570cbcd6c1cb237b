/* SPDX-License-Identifier: MIT
 * probe_needle.c - one fact at several depths of long prompts.
 * Threads: one at a time per run. Locks: none. */
#include "ctl/probe/probe_run.h"
#include "engine/base/mem.h"

#define NEEDLE_ROOM 600  /* tokens kept free for the answer and for what we cannot count */
#define NEEDLE_SAMPLE 40 /* sentences of the prompt that measures tokens per sentence */
#define NEEDLE_MAX_SENTENCES 200000

static const char *const needle_codes[] = { "basil", "coral", "lark", "marble" };
static const char *const needle_objects[] = { "workshop", "radio", "camera", "workshop" };

/* A prompt of n sentences with the fact before sentence `at`. */
static json_t *needle_messages(int n, int at, size_t fact)
{
	json_t *messages = json_array();
	struct buf b = { 0 };

	buf_adds(&b, "Read these notes.\n\n");
	for (int i = 0; i <= n; i++) {
		if (i == at)
			buf_printf(&b, " The access code for the %s is %s.", needle_objects[fact],
				   needle_codes[fact]);
		if (i < n)
			probe_sentence(&b, (unsigned)i);
	}
	buf_printf(&b, "\n\nWhat is the access code for the %s?", needle_objects[fact]);
	probe_say(messages, "user", buf_str(&b));
	buf_fini(&b);
	return messages;
}

/* Tokens per filler sentence, by the peer's own count. */
static double needle_measure(struct probe_run *r)
{
	struct probe_answer small, large;
	double per = 0;

	if (!probe_ask(r, probe_body(needle_messages(1, 0, 0), false, false, 1), NULL, NULL, &small))
		return 0;
	if (probe_ask(r, probe_body(needle_messages(1 + NEEDLE_SAMPLE, 0, 0), false, false, 1), NULL, NULL, &large)) {
		per = (double)(large.prompt_tokens - small.prompt_tokens) / NEEDLE_SAMPLE;
		probe_answer_fini(&large);
	}
	probe_answer_fini(&small);
	if (per < 1)
		probe_verdict(r, PROBE_INCONCLUSIVE, "the server does not count prompt tokens");
	return per;
}

/* What came of all questions. */
struct needle {
	struct probe_run *run;
	double per; /* tokens of a sentence */
	int asked, content, reasoning;
};

/* The code must be in the content: what was only thought was never said. */
static bool needle_judge(struct needle *n, const struct probe_answer *a, int64_t depth, const char *code)
{
	unsigned where = probe_where(a, code, NULL);
	struct buf said = { 0 };

	n->asked++;
	n->content += (where & PROBE_IN_CONTENT) != 0;
	n->reasoning += (where & PROBE_IN_REASONING) != 0;
	probe_print_answer(a, &said);
	if (!(where & PROBE_IN_CONTENT))
		probe_verdict(n->run, PROBE_FAIL, "at %d tokens and depth %lld %% %s%s", a->prompt_tokens,
			      (long long)depth, where ? "the reasoning has the code and the answer has not: " : "",
			      buf_str(&said));
	buf_fini(&said);
	return where & PROBE_IN_CONTENT;
}

/* One question; true when the code is in the content. */
static bool needle_one(struct needle *n, int sentences, int64_t depth, size_t fact)
{
	bool thinking = probe_int(n->run, "thinking"), found;
	json_t *messages = needle_messages(sentences, (int)(sentences * depth / 100), fact);
	struct probe_answer a;

	if (!probe_ask(n->run, probe_body(messages, thinking, false, thinking ? NEEDLE_ROOM - 100 : 200), NULL, NULL,
		       &a))
		return false;
	found = needle_judge(n, &a, depth, needle_codes[fact]);
	probe_answer_fini(&a);
	return found;
}

/* One size, at every depth. */
static void needle_size(struct needle *n, int64_t size, size_t i)
{
	double sentences = (double)size / n->per;
	int64_t depth;
	int hit = 0;

	if (sentences > NEEDLE_MAX_SENTENCES)
		sentences = NEEDLE_MAX_SENTENCES;
	for (size_t d = 0; (depth = probe_list_int(n->run, "depths", d)) >= 0; d++)
		hit += needle_one(n, (int)sentences, depth, (i + d) % mem_countof(needle_codes));
	probe_figure_at(n->run, "found_at", size, hit);
}

/* The i-th size, as far as the context goes; -1 past the end. */
static int64_t needle_size_at(const struct probe_run *r, size_t i)
{
	int64_t cap = r->peer->context > NEEDLE_ROOM ? r->peer->context - NEEDLE_ROOM : 0,
		size = probe_list_int(r, "sizes", i);

	return cap && size > cap ? cap : size;
}

static size_t needle_count(const struct probe_run *r, const char *option)
{
	size_t n = 0;

	while (probe_list_int(r, option, n) >= 0)
		n++;
	return n;
}

void probe_needle(struct probe_run *r)
{
	struct needle n = { .run = r };
	int64_t size;

	r->total = 2 + (int)(needle_count(r, "sizes") * needle_count(r, "depths"));
	n.per = needle_measure(r);
	if (n.per < 1)
		return;
	for (size_t i = 0; (size = needle_size_at(r, i)) >= 0; i++)
		if (i == 0 || size != needle_size_at(r, i - 1)) /* two sizes above the context are one test */
			needle_size(&n, size, i);
	probe_figure(r, "asked", n.asked);
	probe_figure(r, "found", n.content);
	probe_figure(r, "found_reasoning", n.reasoning);
	if (r->result->verdict == PROBE_PASS)
		probe_verdict(r, PROBE_PASS, "%d of %d needles found", n.content, n.asked);
}
