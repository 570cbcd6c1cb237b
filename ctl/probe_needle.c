/* SPDX-License-Identifier: MIT
 * probe_needle.c - one fact at several depths of long prompts.
 * Threads: one at a time per run. Locks: none. */
#include "ctl/probe_run.h"
#include "engine/base/mem.h"

#include <stdio.h>
#include <string.h>

#define NEEDLE_ROOM 600         /* tokens kept free for the answer and for what we cannot count */
#define NEEDLE_SAMPLE 40        /* sentences of the prompt that measures tokens per sentence */
#define NEEDLE_MAX_SENTENCES 200000

static const char *const needle_people[] = { "Maria", "Felix", "Nadia", "Henry", "Paula", "Jonas", "Rosa", "Walter" };
static const char *const needle_things[] = { "bread", "soup", "cheese", "rice", "fruit", "coffee", "salad" };
static const char *const needle_places[] = { "market", "museum", "kitchen", "garden", "river", "square" };
static const char *const needle_codes[] = { "basil", "coral", "lark", "marble" };
static const char *const needle_objects[] = { "workshop", "radio", "camera", "workshop" };

static void needle_sentence(struct buf *b, unsigned i)
{
	const char *who = needle_people[i * 5 % mem_countof(needle_people)];
	const char *what = needle_things[i * 3 % mem_countof(needle_things)];
	const char *where = needle_places[(i + i / 7) % mem_countof(needle_places)];

	if (i % 3 == 0)
		buf_printf(b, " %s bought %s near the %s.", who, what, where);
	else if (i % 3 == 1)
		buf_printf(b, " %s walked to the bright %s.", who, where);
	else
		buf_printf(b, " %s lives in Berlin and likes %s.", who, what);
}

/* A prompt of n sentences with the fact before sentence `at`. */
static json_t *needle_messages(int n, int at, size_t fact)
{
	json_t *messages = json_array();
	struct buf b = { 0 };

	buf_adds(&b, "Read these notes.\n\n");
	for (int i = 0; i <= n; i++) {
		if (i == at)
			buf_printf(&b, " The access code for the %s is %s.", needle_objects[fact], needle_codes[fact]);
		if (i < n)
			needle_sentence(&b, (unsigned)i);
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

/* One question; true when the code is in the content. */
static bool needle_one(struct probe_run *r, int sentences, int64_t depth, size_t fact)
{
	bool thinking = probe_int(r, "thinking"), found;
	json_t *messages = needle_messages(sentences, (int)(sentences * depth / 100), fact);
	struct probe_answer a;

	if (!probe_ask(r, probe_body(messages, thinking, false, thinking ? NEEDLE_ROOM - 100 : 200), NULL, NULL, &a))
		return false;
	found = strcasestr(a.content, needle_codes[fact]) != NULL;
	if (!found)
		probe_verdict(r, PROBE_FAIL, "at %d tokens and depth %lld %% the answer was \"%.80s\"", a.prompt_tokens,
			      (long long)depth, a.content);
	probe_answer_fini(&a);
	return found;
}

void probe_needle(struct probe_run *r)
{
	int64_t n_depth = 0, size, depth, cap = r->peer->context > NEEDLE_ROOM ? r->peer->context - NEEDLE_ROOM : 0, last = 0;
	double per;
	int found = 0, asked = 0;
	char name[64];

	while (probe_list_int(r, "depths", (size_t)n_depth) >= 0)
		n_depth++;
	for (size_t i = 0; probe_list_int(r, "sizes", i) >= 0; i++)
		r->total += (int)n_depth;
	r->total++;
	per = needle_measure(r);
	if (per < 1)
		return;
	for (size_t i = 0; (size = probe_list_int(r, "sizes", i)) >= 0; i++) {
		int hit = 0, sentences;

		if (cap && size > cap)
			size = cap;
		if (size == last)
			continue; /* two sizes above the context are one test */
		last = size;
		sentences = (int)((double)size / per);
		if (sentences > NEEDLE_MAX_SENTENCES)
			sentences = NEEDLE_MAX_SENTENCES;
		for (size_t d = 0; (depth = probe_list_int(r, "depths", d)) >= 0; d++) {
			hit += needle_one(r, sentences, depth > 100 ? 100 : depth, (i + d) % mem_countof(needle_codes));
			asked++;
		}
		found += hit;
		snprintf(name, sizeof name, "found_at_%lld", (long long)size);
		probe_figure(r, name, hit);
	}
	probe_figure(r, "asked", asked);
	probe_figure(r, "found", found);
	if (r->result->verdict == PROBE_PASS)
		probe_verdict(r, PROBE_PASS, "%d of %d needles found", found, asked);
}
