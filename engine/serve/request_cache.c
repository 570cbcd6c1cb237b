/* SPDX-License-Identifier: MIT
 * request_cache.c - a request and the prefix cache: what it finds there, and what it leaves there.
 * Threads: who submits looks up, then it is the engine thread's. Locks: cache, record, generation, one at a time. */
#include "engine/serve/request_cache.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/cache/cache_finite.h"
#include "engine/cache/cache_numbers.h"
#include "engine/kernels/disproved.h"
#include "engine/serve/request.h"

#include <stdlib.h>
#include <string.h>

#define REQUEST_CACHE_STATES 8              /* every so many blocks a state */

/* ---- memory ---- */

void request_cache_need(struct request *r)
{
	const struct sequence_layout *l = &r->env->model->layout;
	int64_t most = ((int64_t)r->n_prompt + r->max_out) / SEQUENCE_BLOCK * SEQUENCE_BLOCK;
	size_t bytes = most > 0 ? sequence_state_bytes(l, most) : 0;

	if (!r->env->cache || r->cache.off || bytes > r->env->max_state - r->need)
		return;
	r->cache.edge_bytes = bytes;
	r->need += bytes;
}

size_t request_cache_bytes(const struct request *r)
{
	const struct sequence_state *st = r->cache.edge;

	return st ? sequence_state_bytes(&r->env->model->layout, sequence_state_edge(st)) : 0;
}

/* ---- finding ---- */

/* Where the token begins in the prompt's text. */
static int64_t request_cache_byte(const struct request *r, int64_t token)
{
	int64_t at = 0;

	if (token < 0)
		return -1;
	for (int64_t i = 0; i < token; i++) {
		size_t len;

		tokenizer_bytes(r->env->tokenizer, r->prompt[i], &len);
		at += (int64_t)len;
	}
	return at;
}

static void request_cache_tell(struct request *r)
{
	const struct cache_find *f = &r->cache.find;

	record_cached(r->rec, (int)f->reused, f->kept, cache_miss_name(f->miss),
		request_cache_byte(r, f->diff_token));
}

/* The list first: whoever is disproved meanwhile is then noticed later. */
static void request_cache_identity(struct request *r)
{
	r->cache.disproved = disproved_newest();
	cache_numbers(r->kset, &r->task.numerics, r->cache.numbers);
}

/* Was the path found under numbers that are no longer the request's? Hashed again only when someone was disproved. */
static bool request_cache_outdated(struct request *r, bool other_set)
{
	struct request_cache *c = &r->cache;
	uint8_t before[sizeof c->numbers];

	if (!other_set && c->disproved == disproved_newest())
		return false;
	memcpy(before, c->numbers, sizeof before);
	request_cache_identity(r);
	return memcmp(before, c->numbers, sizeof before) != 0;
}

void request_cache_lookup(struct request *r)
{
	struct request_cache *c = &r->cache;

	if (c->off) {
		c->find = (struct cache_find){ .miss = CACHE_OFF, .diff_token = -1 };
		request_cache_tell(r);
	}
	if (!r->env->cache || c->off)
		return;
	request_cache_identity(r);
	c->decode = cache_phases_agree(r->kset);
	(r->own ? cache_lookup_own : cache_lookup)(r->env->cache, c->numbers, r->prompt, r->n_prompt, &c->path,
						   &c->find);
	r->task.held = c->find.waiting;
	c->wait_until = clock_ns() + r->env->disk_wait_ns;
	request_cache_tell(r);
	if (c->find.miss == CACHE_OFF)
		request_cache_drop(r);
}

void request_cache_poll(struct request *r)
{
	struct request_cache *c = &r->cache;
	int64_t matched = c->find.matched;

	if (!r->task.held || !c->path)
		return;
	r->task.held = !cache_ready(r->env->cache, c->path, &c->find);
	if (c->find.matched > matched)
		c->wait_until = clock_ns() + r->env->disk_wait_ns;
	if (r->task.held && clock_ns() >= c->wait_until) {
		cache_give_up(r->env->cache, c->path, &c->find);
		r->task.held = false;
	}
}

/* What it waited with may be a liar's. It has waited: what only a disk has is not waited for again. */
static void request_cache_find_anew(struct request *r)
{
	struct request_cache *c = &r->cache;

	request_cache_drop(r);
	request_cache_lookup(r);
	if (c->path && c->find.waiting)
		cache_give_up(r->env->cache, c->path, &c->find);
	r->task.held = false;
}

void request_cache_resume(struct request *r)
{
	struct request_cache *c = &r->cache;

	if (c->path && request_cache_outdated(r, false))
		request_cache_find_anew(r);
	if (!c->path)
		return;
	/* Those before it in the queue may have left what it needs. */
	cache_look_again(r->env->cache, c->path, r->prompt, r->n_prompt, &c->find);
	(void)cache_resume(r->env->cache, c->path, r->seq, &c->find); /* without memory it begins empty */
	must(c->find.reused == sequence_pos(r->seq));
	must(c->find.reused < r->n_prompt && c->find.reused == cache_path_blocks(c->path) * SEQUENCE_BLOCK);
	c->next = cache_path_blocks(c->path);
	r->task.left = r->n_prompt - (int)c->find.reused;
	r->usage.cached_tokens = (int)c->find.reused;
	generation_set_usage(r->gen, &r->usage);
	request_cache_tell(r);
}

void request_cache_repinned(struct request *r)
{
	if (!r->cache.path)
		return;
	r->cache.decode = cache_phases_agree(r->kset);
	if (!request_cache_outdated(r, true))
		return;
	request_cache_drop(r);
	if (!r->seq)
		request_cache_lookup(r);
}

/* ---- publishing ---- */

/* Has it a path to publish under? Not under one that was cleared away because a kernel was disproved: its blocks would
 * be written to the disk again. */
static bool request_cache_may_publish(struct request *r)
{
	if (r->cache.path && request_cache_outdated(r, false))
		request_cache_drop(r);
	return r->cache.path != NULL;
}

/* Without memory for them nothing more can be published. */
static bool request_cache_more_fed(struct request_cache *c)
{
	int cap = c->cap_fed ? 2 * c->cap_fed : SEQUENCE_BLOCK;
	int32_t *fed = mem_try((size_t)cap, sizeof *fed);

	if (!fed)
		return false;
	if (c->n_fed)
		memcpy(fed, c->fed, (size_t)c->n_fed * sizeof *fed);
	free(c->fed);
	c->fed = fed;
	c->cap_fed = cap;
	return true;
}

void request_cache_fed(struct request *r, int32_t token)
{
	struct request_cache *c = &r->cache;

	if (!c->path)
		return;
	if (c->n_fed == c->cap_fed && !request_cache_more_fed(c)) {
		request_cache_drop(r);
		return;
	}
	c->fed[c->n_fed++] = token;
}

/* What a later request continues from must be numbers, or it would fail for this one's fault. */
static bool request_cache_block_good(const struct request *r, int64_t i)
{
	struct sequence_block *b = sequence_share(r->seq, i);
	bool good = cache_finite_block(&r->env->model->layout, b);

	sequence_block_unref(&b);
	return good;
}

static bool request_cache_wants_state(const struct request *r, int64_t edge)
{
	const struct cache_find *f = &r->cache.find;
	int64_t last = (int64_t)(r->n_prompt - 1) / SEQUENCE_BLOCK * SEQUENCE_BLOCK;

	return edge == last || (edge == f->matched && edge > f->reused) ||
		edge % (REQUEST_CACHE_STATES * SEQUENCE_BLOCK) == 0;
}

/* The last edge up to which the request may publish: decode steps count only if prefill has their bits. */
static int64_t request_cache_end(const struct request *r)
{
	int64_t pos = sequence_pos(r->seq);

	if (!r->cache.decode && pos > r->n_prompt)
		pos = r->n_prompt;
	return pos / SEQUENCE_BLOCK * SEQUENCE_BLOCK;
}

/* The state at the edge of block `next`, if someone wants it; NULL also when memory is short. False when it is not
 * fit to be published. */
static bool request_cache_state(struct request *r, int64_t edge, bool keep, struct sequence_state **ret_st)
{
	*ret_st = NULL;
	if (!keep && !request_cache_wants_state(r, edge))
		return true;
	if (!sequence_can_save(r->seq, edge) || sequence_save(r->seq, edge, ret_st))
		return true;
	if (cache_finite_state(&r->env->model->layout, *ret_st))
		return true;
	sequence_state_unref(ret_st);
	return false;
}

static void request_cache_tokens(const struct request *r, int64_t block, int32_t token[SEQUENCE_BLOCK])
{
	for (int i = 0; i < SEQUENCE_BLOCK; i++) {
		int64_t pos = block * SEQUENCE_BLOCK + i;

		must(pos - r->n_prompt < r->cache.n_fed);
		token[i] = pos < r->n_prompt ? r->prompt[pos] : r->cache.fed[pos - r->n_prompt];
	}
}

/* The next block, whose step has committed. False: there is no room now, or it is not fit to be published, nor is what
 * comes after it. */
static bool request_cache_block(struct request *r, int64_t end)
{
	struct request_cache *c = &r->cache;
	int64_t edge = (c->next + 1) * SEQUENCE_BLOCK;
	bool keep = edge == end && r->task.left == 0 && c->edge_bytes > 0, late = c->late && edge == end, last;
	struct sequence_state *st = NULL;
	int32_t token[SEQUENCE_BLOCK];

	request_cache_tokens(r, c->next, token);
	if (!cache_publish_room(r->env->cache, c->path, token, 1, &last)) {
		c->late = true;
		return false;
	}
	last |= late;
	if (!request_cache_block_good(r, c->next) || !request_cache_state(r, edge, keep || last, &st)) {
		request_cache_drop(r);
		return false;
	}
	cache_publish(r->env->cache, c->path, token, r->seq, last || request_cache_wants_state(r, edge) ? st : NULL);
	if (cache_path_blocks(c->path) == c->next) {
		sequence_state_unref(&st);
		return false;
	}
	c->next++;
	sequence_state_unref(&c->edge);
	if (keep)
		c->edge = st;
	else
		sequence_state_unref(&st);
	c->late = c->late && edge < end;
	return true;
}

/* Blocks there was no room for are worth it only with a state behind them: all of them, and one at their end. */
static bool request_cache_too_late(struct request *r, int64_t end)
{
	struct request_cache *c = &r->cache;
	int32_t token[SEQUENCE_BLOCK];
	bool last;

	if (!c->late || end <= c->next * SEQUENCE_BLOCK)
		return false;
	request_cache_tokens(r, c->next, token);
	return !sequence_can_save(r->seq, end) ||
		!cache_publish_room(r->env->cache, c->path, token, (int)(end / SEQUENCE_BLOCK - c->next), &last);
}

void request_cache_publish(struct request *r)
{
	struct request_cache *c = &r->cache;
	int64_t end;

	if (!request_cache_may_publish(r))
		return;
	end = request_cache_end(r);
	if (request_cache_too_late(r, end))
		return;
	while (c->path && (c->next + 1) * SEQUENCE_BLOCK <= end)
		if (!request_cache_block(r, end))
			return;
}

void request_cache_finish(struct request *r)
{
	struct request_cache *c = &r->cache;

	if (request_cache_may_publish(r) && c->edge)
		cache_publish_state(r->env->cache, c->path, c->edge);
}

void request_cache_left(struct request *r)
{
	struct request_cache *c = &r->cache;
	int64_t edge = c->next * SEQUENCE_BLOCK;
	struct sequence_state *st;

	if (!r->seq || r->task.left == 0 || edge <= c->find.reused || !request_cache_may_publish(r))
		return;
	if (request_cache_state(r, edge, true, &st) && st)
		cache_publish_state(r->env->cache, c->path, st);
	sequence_state_unref(&st);
}

void request_cache_distrust(struct request *r)
{
	if (r->cache.path)
		cache_distrust(r->env->cache, r->cache.path);
}

void request_cache_drop(struct request *r)
{
	if (r->cache.path)
		cache_release(r->env->cache, &r->cache.path);
	sequence_state_unref(&r->cache.edge);
	free(r->cache.fed);
	r->cache.fed = NULL;
	r->cache.n_fed = r->cache.cap_fed = 0;
	r->task.held = false;
}
