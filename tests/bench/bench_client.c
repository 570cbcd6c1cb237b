/* SPDX-License-Identifier: MIT
 * bench_client.c - chat requests that stream at the same time, and when each piece came.
 * Threads: the caller's, and one for each stream. Locks: none (each has its own; all are joined). */
#include "ctl/probe/probe_chat.h"
#include "ctl/probe/probe_http.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/serve/rng.h"
#include "tests/bench/bench_serve.h"

#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct bench_stream {
	const struct bench_client_options *o;
	pthread_t thread;
	pthread_barrier_t *start;
	json_t *body;
	double begin, end;              /* clock_s() */
	struct bench_samples at;        /* of each text */
	atomic_bool begun, ended;       /* the first text; all */
	int tokens, prompt_tokens, rc;
	struct buf why;
};

/* No two prompts begin alike, or the prefix cache would answer. */
static json_t *bench_client_body(const struct bench_client_options *o, int round, int i)
{
	struct buf text = { 0 };
	uint64_t key = (uint64_t)round * 4096 + (uint64_t)i;
	json_t *body;

	for (int w = 0; w < o->words; w++)
		buf_printf(&text, "%s%d", w ? " " : "", (int)(rng_uniform(key + 77, (uint64_t)w) * 1000));
	body = json_pack("{s:s, s:b, s:[{s:s, s:s}], s:i, s:b, s:f, s:{s:s}, s:{s:b}}", "model", o->model, "stream", 1,
			 "messages", "role", "user", "content", buf_str(&text), "max_tokens", o->tokens, "ignore_eos",
			 1,
			 "temperature", o->temperature, "thinking", "type", "disabled", "stream_options",
			 "include_usage", 1);
	must(body);
	buf_fini(&text);
	return body;
}

static int bench_client_text(void *arg, bool reasoning, const char *text, size_t len)
{
	struct bench_stream *s = arg;

	(void)reasoning;
	(void)text;
	(void)len;
	bench_samples_add(&s->at, clock_s());
	atomic_store(&s->begun, true);
	return 0;
}

static int bench_client_ask(struct bench_stream *s, struct probe_http *h)
{
	struct probe_chat chat = { .http = probe_http_exchange, .arg = h };
	struct probe_reply reply = { 0 };
	struct probe_stream stream;
	int rc;

	probe_stream_init(&stream);
	stream.delta = bench_client_text;
	stream.delta_arg = s;
	s->begin = clock_s();
	rc = probe_chat_send(&chat, s->body, &stream, &reply, &s->why);
	s->end = clock_s();
	s->tokens = (int)json_integer_value(json_object_get(stream.usage, "completion_tokens"));
	s->prompt_tokens = (int)json_integer_value(json_object_get(stream.usage, "prompt_tokens"));
	s->tokens = s->tokens ? s->tokens : stream.texts;
	probe_reply_fini(&reply);
	probe_stream_fini(&stream);
	probe_chat_fini(&chat);
	return rc;
}

static void *bench_client_run(void *arg)
{
	struct bench_stream *s = arg;
	const struct probe_http_options o = { .url = s->o->url, .key = s->o->key };
	struct probe_http *h = NULL;

	s->rc = probe_http_new(&o, &h, &s->why);
	pthread_barrier_wait(s->start);
	if (s->rc == 0)
		s->rc = bench_client_ask(s, h);
	probe_http_free(&h);
	atomic_store(&s->ended, true);
	return NULL;
}

/* When all streams had begun and none had ended: where they really run at the same time. */
static void bench_client_together(const struct bench_stream *s, int n, double *ret_begin, double *ret_end)
{
	*ret_begin = 0;
	*ret_end = HUGE_VAL;
	for (int i = 0; i < n; i++) {
		const struct bench_samples *at = &s[i].at;

		*ret_begin = at->n ? fmax(*ret_begin, at->v[0]) : HUGE_VAL;
		*ret_end = at->n ? fmin(*ret_end, at->v[at->n - 1]) : 0;
	}
}

static void bench_client_add(struct bench_client_sum *sum, const struct bench_stream *s, double begin, double end)
{
	const struct bench_samples *at = &s->at;
	int texts = 0;

	if (at->n) /* there are answers of control tokens alone */
		bench_samples_add(&sum->first, (at->v[0] - s->begin) * 1e3);
	for (int i = 1; i < at->n; i++) {
		bench_samples_add(&sum->gap, (at->v[i] - at->v[i - 1]) * 1e3);
		texts += at->v[i] > begin && at->v[i] <= end;
	}
	if (texts)
		bench_samples_add(&sum->token, (end - begin) * 1e3 / ((double)texts * s->tokens / at->n));
	sum->tokens += s->tokens;
	sum->prompt_tokens += s->prompt_tokens;
	sum->streams++;
}

static void bench_client_start(struct bench_stream *s, int n, int round, const struct bench_client_options *o,
			       pthread_barrier_t *start)
{
	must_zero(pthread_barrier_init(start, NULL, (unsigned)n + 1));
	for (int i = 0; i < n; i++) {
		s[i] = (struct bench_stream){ .o = o, .start = start, .body = bench_client_body(o, round, i) };
		must_zero(pthread_create(&s[i].thread, NULL, bench_client_run, &s[i]));
	}
	pthread_barrier_wait(start);
}

/* The first that failed says why. */
static int bench_client_join(struct bench_stream *s, int n, pthread_barrier_t *start, struct buf *why)
{
	int rc = 0;

	for (int i = 0; i < n; i++) {
		must_zero(pthread_join(s[i].thread, NULL));
		if (s[i].rc && rc == 0)
			rc = buf_why(why, s[i].rc, "%s", buf_str(&s[i].why));
	}
	must_zero(pthread_barrier_destroy(start));
	return rc;
}

static void bench_client_fini(struct bench_stream *s)
{
	json_decref(s->body);
	bench_samples_fini(&s->at);
	buf_fini(&s->why);
}

int bench_client_round(const struct bench_client_options *o, int n, int round, struct bench_client_sum *sum,
		       struct buf *why)
{
	struct bench_stream *s = mem_new((size_t)n * sizeof *s);
	pthread_barrier_t start;
	double begin = 0, end = 0, both, last;
	int rc;

	bench_client_start(s, n, round, o, &start);
	rc = bench_client_join(s, n, &start, why);
	bench_client_together(s, n, &both, &last);
	for (int i = 0; i < n; i++) {
		if (s[i].rc == 0)
			bench_client_add(sum, &s[i], both, last);
		begin = i == 0 || s[i].begin < begin ? s[i].begin : begin;
		end = s[i].end > end ? s[i].end : end;
		bench_client_fini(&s[i]);
	}
	sum->seconds += end - begin;
	free(s);
	return rc;
}

/* ---- beside a long prompt ---- */

static bool bench_client_begun(struct bench_stream *s, int n)
{
	for (int i = 0; i < n; i++)
		if (!atomic_load(&s[i].begun) && !atomic_load(&s[i].ended))
			return false;
	return true;
}

static void bench_client_gaps(const struct bench_stream *s, const struct bench_stream *along,
			      struct bench_client_beside *sum)
{
	double until = along->at.n ? along->at.v[0] : along->end;

	for (int i = 1; i < s->at.n; i++) {
		double from = s->at.v[i - 1], to = s->at.v[i];

		if (to <= along->begin)
			bench_samples_add(&sum->before, (to - from) * 1e3);
		else if (from < until)
			bench_samples_add(&sum->during, (to - from) * 1e3);
	}
}

int bench_client_beside(const struct bench_client_options *o, int n, int round, int words,
			struct bench_client_beside *sum, struct buf *why)
{
	struct bench_client_options one = *o;
	struct bench_stream *s = mem_new((size_t)n * sizeof *s), along;
	pthread_barrier_t start, alone;
	int rc;

	one.words = words;
	one.tokens = 8; /* some have no text */
	must_zero(pthread_barrier_init(&alone, NULL, 1));
	along = (struct bench_stream){ .o = &one, .start = &alone, .body = bench_client_body(&one, round, n) };
	bench_client_start(s, n, round, o, &start);
	while (!bench_client_begun(s, n))
		poll(NULL, 0, 1);
	(void)bench_client_run(&along);
	rc = bench_client_join(s, n, &start, why);
	rc = rc || !along.rc ? rc : buf_why(why, along.rc, "%s", buf_str(&along.why));
	for (int i = 0; i < n; i++) {
		bench_client_gaps(&s[i], &along, sum);
		bench_client_fini(&s[i]);
	}
	sum->first = along.at.n ? (along.at.v[0] - along.begin) * 1e3 : NAN;
	sum->prompt_tokens = along.prompt_tokens;
	bench_client_fini(&along);
	must_zero(pthread_barrier_destroy(&alone));
	free(s);
	return rc;
}

void bench_client_beside_fini(struct bench_client_beside *sum)
{
	bench_samples_fini(&sum->before);
	bench_samples_fini(&sum->during);
}

void bench_client_sum_fini(struct bench_client_sum *sum)
{
	bench_samples_fini(&sum->first);
	bench_samples_fini(&sum->gap);
	bench_samples_fini(&sum->token);
}
