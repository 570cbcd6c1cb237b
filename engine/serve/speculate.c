/* SPDX-License-Identifier: MIT
 * speculate.c - drafts of the tokens that come next, for the next step to verify along with the one it must compute.
 * Threads: the engine thread. Locks: none. */
#include "engine/serve/speculate.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/model/mtp.h"
#include "engine/serve/request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The end of one item of the batch. */
struct speculate_part {
	struct request *r;         /* NULL: has no drafts, or has ended */
	bool prompt;               /* its tokens are of the prompt */
	int tok, n;                /* those that count: the first one's place in the batch, how many */
	int row;                   /* theirs of `streams` and `next` */
};

struct speculate {
	const struct model *model;
	size_t width;              /* floats of one token's streams */
	struct speculate_part *part; /* [n_part] of the batch */
	int n_part, n_row, cap_row;
	float *streams;            /* [cap_row][width] after the last layer; later of the drafts, [n_item] */
	int32_t *next;             /* [cap_row] the tokens after those */
	/* A pass of the draft block. */
	struct mtp_item *item;     /* [n_item] */
	struct request **who;      /* [n_item] */
	int n_item, cap_logits;
	float *logits;             /* [cap_logits][vocab] */
	struct forward_tap model_tap, draft_tap;
};

/* ---- what a forward pass leaves ---- */

/* Streams after the last layer, of the tokens that count. */
static void speculate_see_model(void *arg, int n_tok, const float *streams)
{
	const struct speculate *s = arg;

	for (const struct speculate_part *p = s->part; p < s->part + s->n_part; p++) {
		must(p->tok + p->n <= n_tok);
		if (p->n)
			memcpy(s->streams + (size_t)p->row * s->width, streams + (size_t)p->tok * s->width,
				(size_t)p->n * s->width * sizeof *streams);
	}
}

/* The block's own, of each item's last token; the pass has read what they take the place of. */
static void speculate_see_draft(void *arg, int n_tok, const float *streams)
{
	const struct speculate *s = arg;
	size_t end = 0;

	for (int i = 0; i < s->n_item; i++) {
		end += (size_t)s->item[i].n;
		memcpy(s->streams + (size_t)i * s->width, streams + (end - 1) * s->width, s->width * sizeof *streams);
	}
	must(end == (size_t)n_tok);
}

/* ---- life ---- */

struct speculate *speculate_new(const struct model *m, int max_running)
{
	struct speculate *s = mem_new(sizeof *s);

	must(m->weights->mtp);
	s->model = m;
	s->width = (size_t)m->config->hc_mult * (size_t)m->config->hidden_size;
	s->part = mem_grow(NULL, (size_t)max_running, sizeof *s->part);
	s->item = mem_grow(NULL, (size_t)max_running, sizeof *s->item);
	s->who = mem_grow(NULL, (size_t)max_running, sizeof *s->who);
	s->model_tap = (struct forward_tap){ .arg = s, .end = speculate_see_model };
	s->draft_tap = (struct forward_tap){ .arg = s, .end = speculate_see_draft };
	return s;
}

void speculate_free(struct speculate **ps)
{
	struct speculate *s = *ps;

	if (!s)
		return;
	*ps = NULL;
	free(s->part);
	free(s->item);
	free(s->who);
	free(s->streams);
	free(s->next);
	free(s->logits);
	free(s);
}

static bool speculate_grow(struct speculate *s)
{
	if (s->n_row <= s->cap_row)
		return true;
	free(s->streams);
	free(s->next);
	s->streams = mem_try((size_t)s->n_row, s->width * sizeof *s->streams);
	s->next = mem_try((size_t)s->n_row, sizeof *s->next);
	s->cap_row = s->streams && s->next ? s->n_row : 0;
	return s->cap_row > 0;
}

/* ---- before and after the forward pass ---- */

/* How many of the n tokens at the request's place count: of a prompt, those in the block's window at its end. */
static int speculate_count(const struct speculate *s, const struct request *r, int n)
{
	int window = s->model->config->window - (r->task.left - n);

	if (!r->speculate)
		return 0;
	if (r->task.left == 0 || window > n)
		return n;
	return window > 0 ? window : 0;
}

const struct forward_tap *speculate_begin(struct speculate *s, const struct sched_item *item, int n)
{
	int tok = 0;

	s->n_part = n;
	s->n_row = 0;
	for (int i = 0; i < n; i++) {
		struct request *r = request_of(item[i].task);
		int count = speculate_count(s, r, item[i].n);

		tok += item[i].n;
		s->part[i] = (struct speculate_part){ .r = count ? r : NULL, .prompt = r->task.left > 0,
						      .tok = tok - count, .n = count, .row = s->n_row };
		s->n_row += count;
	}
	if (s->n_row == 0)
		return NULL;
	if (speculate_grow(s))
		return &s->model_tap;
	for (int i = 0; i < n; i++)
		if (s->part[i].r)
			s->part[i].r->speculate = 0;
	s->n_part = 0;
	return NULL;
}

void speculate_stand(struct speculate *s, int i, int n)
{
	if (i >= s->n_part)
		return;
	if (n == 0)
		s->part[i].r = NULL;
	if (s->part[i].n > n)
		s->part[i].n = n;
}

/* ---- drafts ---- */

/* How many the request can use: what is sampled after the last of them is the answer's end at the latest. */
static int speculate_room(const struct request *r)
{
	int room = r->max_out - r->usage.completion_tokens - 1;

	return r->task.left ? 0 : room < r->speculate ? room : r->speculate;
}

/* The tokens after each of the part's: those of the prompt or the drafts that stood, and the one just sampled. */
static void speculate_next(struct speculate *s, const struct speculate_part *p)
{
	const struct request *r = p->r;
	const int32_t *after = p->prompt ? r->prompt + r->n_prompt - r->task.left - (p->n - 1) : r->next + 1;
	int32_t *next = s->next + p->row;

	memcpy(next, after, (size_t)(p->n - 1) * sizeof *next);
	next[p->n - 1] = r->task.left ? after[p->n - 1] : r->next[0];
}

/* The first pass: the block gets to the end of what is computed. */
static void speculate_plan_first(struct speculate *s)
{
	s->n_item = 0;
	for (const struct speculate_part *p = s->part; p < s->part + s->n_part; p++) {
		if (!p->r || (p->r->task.left == 0 && speculate_room(p->r) <= 0))
			continue;
		speculate_next(s, p);
		s->who[s->n_item] = p->r;
		s->item[s->n_item++] = (struct mtp_item){
			.seq = p->r->seq,
			.streams = s->streams + (size_t)p->row * s->width,
			.next = s->next + p->row,
			.n = p->n,
			.n_logits = p->r->task.left == 0,
		};
	}
}

/* Pass k, of those that have k - 1 drafts and can use more. */
static void speculate_plan(struct speculate *s, int k)
{
	int n = 0;

	for (int i = 0; i < s->n_item; i++) {
		struct request *r = s->who[i];

		if (r->task.drafts != k - 1 || speculate_room(r) < k)
			continue;
		s->who[n] = r;
		s->item[n++] = (struct mtp_item){
			.seq = r->seq,
			.streams = s->streams + (size_t)i * s->width,
			.next = &r->next[k - 1],
			.n = 1,
			.n_logits = 1,
		};
	}
	s->n_item = n;
}

static int speculate_room_for_logits(struct speculate *s, struct buf *why)
{
	if (s->n_item <= s->cap_logits)
		return 0;
	free(s->logits);
	s->cap_logits = 0;
	s->logits = mem_try((size_t)s->n_item, (size_t)s->model->config->vocab_size * sizeof *s->logits);
	if (!s->logits)
		return buf_why(why, -ENOMEM, "no memory for the logits of %d drafts", s->n_item);
	s->cap_logits = s->n_item;
	return 0;
}

static int speculate_run(struct speculate *s, struct forward *f, enum dsv4_phase phase, int ahead,
	struct buf *why)
{
	const struct sched_task *any = &s->who[0]->task; /* all agree */
	struct mtp_batch b = { .kset = any->kset, .numerics = &any->numerics, .phase = phase, .item = s->item,
			       .n_item = s->n_item, .tap = &s->draft_tap, .ahead = ahead };
	int rc = speculate_room_for_logits(s, why);

	b.logits = s->logits;
	rc = rc ? rc : mtp_run(f, &b, why);
	for (int i = 0; i < s->n_item && rc; i++)
		s->who[i]->speculate = 0;
	return rc;
}

/* Draft k of each, from the logits that the pass gave. */
static void speculate_take(struct speculate *s, struct sampler_work *w, int k)
{
	const float *logits = s->logits;

	for (int i = 0; i < s->n_item; i++) {
		struct request *r = s->who[i];
		uint64_t index = (uint64_t)(r->usage.completion_tokens + k - 1);

		if (!s->item[i].n_logits)
			continue;
		if (sampler_draft(r->sampler, w, logits, index, &r->next[k]) == 0)
			r->task.drafts = k;
		else
			r->speculate = 0;
		logits += s->model->config->vocab_size;
	}
}

int speculate_draft(struct speculate *s, struct forward *f, struct sampler_work *w, enum dsv4_phase phase,
	struct buf *why)
{
	int rc = 0;

	speculate_plan_first(s);
	for (int k = 1; s->n_item > 0 && rc == 0; k++) {
		rc = speculate_run(s, f, phase, k - 1, why);
		if (rc == 0) {
			speculate_take(s, w, k);
			speculate_plan(s, k + 1);
		}
	}
	s->n_part = 0;
	return rc;
}
