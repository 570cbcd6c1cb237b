/* SPDX-License-Identifier: MIT
 * bench_serve.c - a server as its clients see it: streams at once, the time to the first text and between texts; of a
 * server of one's own also beside the bare engine.
 * Threads: main, and one for each stream. Locks: none. */
#include "tests/bench/bench_serve.h"
#include "ctl/probe/probe_chat.h"
#include "ctl/probe/probe_http.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "tests/bench/bench_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct bench_column bench_serve_columns[] = {
	{ "streams", "STREAMS", 7, 0 }, { "prompt_tokens", "PROMPT", 6, 0 }, { "first_p50", "FIRST_MS", 9, 1 },
	{ "first_p90", "P90", 8, 1 }, { "first_p99", "P99", 8, 1 }, { "gap_p50", "GAP_MS", 8, 2 },
	{ "gap_p90", "P90", 8, 2 },
	{ "gap_p99", "P99", 8, 2 }, { "token_ms", "TOKEN_MS", 8, 2 }, { "tokens_s", "TOK/S", 8, 1 },
	{ "decode_s", "DECODE", 8, 1 }, { "times", "TIMES", 5, 2 }, { "bare_ms", "BARE_MS", 8, 2 },
	{ "over_bare", "OVER", 6, 3 },
	{ "over_p25", "P25", 6, 3 }, { "over_p75", "P75", 6, 3 },
};
static const struct bench_column bench_beside_columns[] = {
	{ "streams", "STREAMS", 7, 0 }, { "prompt_tokens", "PROMPT", 6, 0 }, { "first_ms", "FIRST_MS", 9, 1 },
	{ "before_p50", "GAP_MS", 8, 2 }, { "before_max", "MAX", 8, 2 }, { "during_p50", "BESIDE", 8, 2 },
	{ "during_max", "MAX", 8, 2 }, { "gaps", "GAPS", 5, 0 },
};
#define BENCH_SERVE_PAIRS 3
#define BENCH_SERVE_BESIDE 7   /* streams that a long prompt comes to */
#define BENCH_SERVE_LONGER 8

struct bench_serve {
	struct bench *b;
	struct bench_client_options o;
	struct bench_daemon daemon;
	struct bench_model *bare;    /* the engine without a server; NULL: somebody else's server */
	double one;                  /* tokens per second of one stream; NaN: not measured yet */
	int rounds;                  /* so far */
	struct buf model;
	struct buf *why;
};

static bool bench_serve_is_url(const char *what)
{
	return strstr(what, "://") != NULL || strncmp(what, "unix:", 5) == 0;
}

/* ---- rows ---- */

/* What the streams of a row saw; the engine without the server, by turns with them. */
struct bench_serve_row {
	struct bench_client_sum sum;
	struct bench_samples bare, over; /* ms of a step; a token's time over it, pair by pair */
};

static json_t *bench_serve_json(struct bench_serve *s, int n, struct bench_serve_row *r)
{
	struct bench_client_sum *sum = &r->sum;
	double token = bench_samples_at(&sum->token, 0.5), rate = n * 1e3 / token;
	json_t *row = json_pack("{s:i, s:i, s:f, s:i, s:o, s:f, s:o, s:o, s:o, s:i}", "streams", n, "requests",
				sum->streams,
				"prompt_tokens", (double)sum->prompt_tokens / sum->streams, "tokens", sum->tokens,
				"token_ms", bench_real(token), "tokens_s", sum->tokens / sum->seconds,
				"decode_s", bench_real(rate), "times", bench_real(rate / (n == 1 ? rate : s->one)),
				"bare_ms", bench_real(bench_samples_at(&r->bare, 0.5)), "pairs", r->over.n);
	static const struct { const char *name; double at; } parts[] =
		{ { "p50", 0.5 }, { "p90", 0.9 }, { "p99", 0.99 } };

	json_object_set_new(row, "over_bare", bench_real(bench_samples_at(&r->over, 0.5)));
	json_object_set_new(row, "over_p25", bench_real(bench_samples_at(&r->over, 0.25)));
	json_object_set_new(row, "over_p75", bench_real(bench_samples_at(&r->over, 0.75)));
	for (size_t i = 0; i < mem_countof(parts); i++) {
		char key[16];

		snprintf(key, sizeof key, "first_%s", parts[i].name);
		json_object_set_new(row, key, bench_real(bench_samples_at(&sum->first, parts[i].at)));
		snprintf(key, sizeof key, "gap_%s", parts[i].name);
		json_object_set_new(row, key, bench_real(bench_samples_at(&sum->gap, parts[i].at)));
	}
	return row;
}

/* The streams once, then the bare engine for as long a time, on as many sequences, each as long as the streams' are in
 * the midst of their answers. */
static int bench_serve_turn(struct bench_serve *s, int n, struct bench_serve_row *r)
{
	const struct bench_client_sum *sum = &r->sum;
	double begin = clock_s(), ms;
	int had = sum->token.n, rc = bench_client_round(&s->o, n, s->rounds++, &r->sum, s->why);
	struct bench_samples own = { 0 };

	if (rc || !s->bare)
		return rc;
	for (int i = had; i < sum->token.n; i++)
		bench_samples_add(&own, sum->token.v[i]);
	rc = bench_decode_ms(s->bare, (sum->prompt_tokens + sum->tokens / 2) / sum->streams, n, clock_s() - begin, &ms);
	if (rc == 0) {
		bench_samples_add(&r->bare, ms);
		if (own.n)
			bench_samples_add(&r->over, bench_samples_at(&own, 0.5) / ms);
	}
	bench_samples_fini(&own);
	return rc;
}

static int bench_serve_row(struct bench_serve *s, int n)
{
	struct bench_serve_row r = { 0 };
	int rc, turns = 0;
	bool more;

	do {
		rc = bench_serve_turn(s, n, &r);
		turns++;
		bench_progress_show(&s->b->bar, "streams", r.sum.seconds, s->b->args.seconds);
		/* Where all of an answer comes at once there is no time of a token, and the turn gave no pair. */
		more = s->bare && r.over.n < BENCH_SERVE_PAIRS && turns < 4 * BENCH_SERVE_PAIRS;
	} while (rc == 0 && (more || r.sum.seconds < s->b->args.seconds));
	if (rc == 0) {
		json_t *row = bench_serve_json(s, n, &r);

		if (n == 1)
			s->one = json_number_value(json_object_get(row, "decode_s"));
		bench_print_row(&s->b->out, row);
	}
	bench_client_sum_fini(&r.sum);
	bench_samples_fini(&r.bare);
	bench_samples_fini(&r.over);
	return rc;
}

/* ---- what a long prompt does to the others ---- */

static int bench_serve_beside(struct bench_serve *s)
{
	const struct bench_args *a = &s->b->args;
	struct bench_client_options o = s->o;
	struct bench_client_beside r = { 0 };
	int n = BENCH_SERVE_BESIDE, rc;

	if (!a->beside)
		return 0;
	o.tokens *= BENCH_SERVE_LONGER; /* so that they outlast the prompt */
	rc = bench_client_beside(&o, n, s->rounds++, a->beside, &r, s->why);
	if (rc == 0) {
		bench_print_table(&s->b->out, "beside", bench_beside_columns, (int)mem_countof(bench_beside_columns));
		bench_print_row(&s->b->out,
				json_pack("{s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:i}", "streams", n, "prompt_tokens",
			r.prompt_tokens, "first_ms", bench_real(r.first), "before_p50",
			bench_real(bench_samples_at(&r.before, 0.5)), "before_max",
			bench_real(bench_samples_at(&r.before, 1)),
			"during_p50", bench_real(bench_samples_at(&r.during, 0.5)), "during_max",
			bench_real(bench_samples_at(&r.during, 1)), "gaps", r.during.n));
	}
	bench_client_beside_fini(&r);
	return rc;
}

/* ---- getting ready ---- */

static int bench_serve_model(struct bench_serve *s)
{
	const struct probe_http_options o = { .url = s->o.url, .key = s->o.key };
	struct probe_http *h = NULL;
	int context = 0, rc = probe_http_new(&o, &h, s->why);

	if (rc == 0) {
		struct probe_chat chat = { .http = probe_http_exchange, .arg = h };

		rc = probe_chat_model(&chat, NULL, &s->model, &context, s->why);
		probe_chat_fini(&chat);
	}
	probe_http_free(&h);
	s->o.model = buf_str(&s->model);
	return rc;
}

static int bench_serve_ready(struct bench_serve *s, struct bench_model *bare)
{
	const struct bench_args *a = &s->b->args;
	int rc = 0;

	s->o = (struct bench_client_options){ .url = a->what, .key = getenv("DSV4_BENCH_KEY"), .tokens = a->answer,
					      .words = a->words };
	if (!bench_serve_is_url(a->what)) {
		rc = bench_model_open(bare, s->b, s->why);
		s->bare = bare;
		rc = rc ? rc : bench_daemon_start(&s->daemon, a, s->why);
		s->o.url = s->daemon.url;
		s->o.temperature = 1; /* random weights go round in circles greedily, and choose the
				       * same experts again */
	}
	return rc ? rc : bench_serve_model(s);
}

int bench_serve(struct bench *b, struct buf *why)
{
	struct bench_serve s = { .b = b, .one = NAN, .why = why };
	struct bench_model bare = { 0 };
	struct bench_client_sum warm = { 0 };
	int rc = bench_serve_ready(&s, &bare), end;

	if (rc == 0) {
		bench_print_note(&b->out, "server", "%s, model %s, answers of %d tokens, temperature %g", s.o.url,
				 s.o.model, s.o.tokens, s.o.temperature);
		rc = bench_client_round(&s.o, 1, s.rounds++, &warm, why);
	}
	if (rc == 0)
		bench_print_table(&b->out, "streams", bench_serve_columns, (int)mem_countof(bench_serve_columns));
	for (int i = 0; i < b->args.streams.n && rc == 0; i++)
		rc = bench_serve_row(&s, (int)b->args.streams.v[i]);
	rc = rc ? rc : bench_serve_beside(&s);
	bench_client_sum_fini(&warm);
	bench_daemon_stop(&s.daemon);
	buf_fini(&s.model);
	end = s.bare ? bench_model_close(&bare, rc ? NULL : why) : 0;
	return rc ? rc : end;
}
