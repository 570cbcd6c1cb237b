/* SPDX-License-Identifier: MIT
 * record.c - what is kept of one request: prompt, tokens, set, numbers, times.
 * Threads: engine writes, anyone reads a copy. Lock: record. */
#include "engine/serve/record.h"
#include "engine/base/lock.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/serve/record_put.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RECORD_MAGIC 0x72656331u

struct record {
	unsigned magic;
	atomic_int refs;
	atomic_size_t bytes;
	int n_prompt;             /* of tokens; never changes, nor do messages and prompt */
	struct buf messages, prompt;
	struct lock lock;         /* everything below */
	struct record_view view;
	struct token_ids tokens;  /* prompt, then output */
	uint64_t *digest;         /* [n_digest], of each output token's logits */
	int n_digest, cap_digest;
	struct buf output, kept;
	struct buf calls;         /* their ids, each with its NUL */
	struct record_set *set;   /* [n_set]; names are in `name` */
	int n_set, n_name;
	char **name;              /* [n_name], each once */
	size_t name_bytes;
	struct utf8_stream utf8;  /* keeps output whole characters */
};

static double record_now(void)
{
	struct timespec t;

	must_zero(clock_gettime(CLOCK_REALTIME, &t));
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Under the lock, or before anyone else knows the record. */
static void record_count_bytes(struct record *r)
{
	atomic_store(&r->bytes, sizeof *r + r->messages.cap + r->prompt.cap + r->output.cap + r->calls.cap + r->kept.cap
					+ (size_t)r->tokens.cap * sizeof *r->tokens.id
					+ (size_t)r->cap_digest * sizeof *r->digest
					+ (size_t)r->n_set * sizeof *r->set + r->name_bytes);
}

/* Under the lock, or before anyone else knows the record: the names of sets come back again and again. */
static const char *record_name(struct record *r, const char *name)
{
	for (int i = 0; i < r->n_name; i++)
		if (strcmp(r->name[i], name) == 0)
			return r->name[i];
	r->name = mem_grow(r->name, (size_t)r->n_name + 1, sizeof *r->name);
	r->name[r->n_name] = mem_strdup(name);
	r->name_bytes += sizeof *r->name + strlen(name) + 1;
	return r->name[r->n_name++];
}

/* A set that computed nothing before the next took over is not kept. So there are at most as many as steps. */
static void record_add_set(struct record *r, const struct record_set *s)
{
	const struct record_set *last = r->n_set ? &r->set[r->n_set - 1] : NULL;

	if (last && last->prompt == s->prompt && last->output == s->output)
		r->n_set--;
	r->set = mem_grow(r->set, (size_t)r->n_set + 1, sizeof *r->set);
	r->set[r->n_set++] = *s;
	r->view.kset_generation = s->generation;
	r->view.epoch = s->epoch;
}

struct record *record_new(struct record_setup *s)
{
	struct record *r = mem_new(sizeof *r);

	r->magic = RECORD_MAGIC;
	atomic_init(&r->refs, 1);
	lock_init(&r->lock, "record");
	r->view = s->view;
	r->view.sampling.bias = NULL;
	r->view.sampling.stop = NULL;
	r->view.first_diff_byte = -1;
	r->view.t_submit = record_now();
	snprintf(r->view.miss_reason, sizeof r->view.miss_reason, "no prefix cache");
	r->messages = *s->messages;
	r->prompt = *s->prompt;
	r->tokens = *s->tokens;
	r->n_prompt = r->tokens.n;
	r->view.usage.prompt_tokens = r->n_prompt;
	record_add_set(r, &(struct record_set){ record_name(r, s->kset), s->view.kset_generation, s->view.epoch,
						0, 0 });
	memset(s->messages, 0, sizeof *s->messages);
	memset(s->prompt, 0, sizeof *s->prompt);
	memset(s->tokens, 0, sizeof *s->tokens);
	record_count_bytes(r);
	return r;
}

struct record *record_ref(struct record *r)
{
	must_magic(r, RECORD_MAGIC);
	atomic_fetch_add(&r->refs, 1);
	return r;
}

void record_unref(struct record **pr)
{
	struct record *r = *pr;

	if (!r)
		return;
	*pr = NULL;
	must_magic(r, RECORD_MAGIC);
	if (atomic_fetch_sub(&r->refs, 1) != 1)
		return;
	lock_fini(&r->lock);
	buf_fini(&r->messages);
	buf_fini(&r->prompt);
	buf_fini(&r->output);
	buf_fini(&r->calls);
	buf_fini(&r->kept);
	token_ids_fini(&r->tokens);
	free(r->digest);
	for (int i = 0; i < r->n_name; i++)
		free(r->name[i]);
	free(r->name);
	free(r->set);
	r->magic = 0;
	free(r);
}

void record_admitted(struct record *r)
{
	lock_take(&r->lock);
	r->view.t_admit = record_now();
	lock_drop(&r->lock);
}

void record_cached(struct record *r, int reused, bool kept, const char *miss, int64_t first_diff_byte)
{
	lock_take(&r->lock);
	r->view.reused_tokens = r->view.usage.cached_tokens = reused;
	snprintf(r->view.miss_reason, sizeof r->view.miss_reason, "%s", miss);
	r->view.first_diff_byte = first_diff_byte;
	r->view.kept = kept;
	lock_drop(&r->lock);
}

void record_repinned(struct record *r, const char *kset, uint64_t generation, uint64_t epoch, int prompt)
{
	lock_take(&r->lock);
	record_add_set(r, &(struct record_set){ record_name(r, kset), generation, epoch, prompt,
						r->view.usage.completion_tokens });
	record_count_bytes(r);
	lock_drop(&r->lock);
}

/* Under the lock. */
static void record_add_digest(struct record *r, uint64_t digest)
{
	if (r->n_digest == r->cap_digest) {
		r->cap_digest = r->cap_digest ? 2 * r->cap_digest : 16;
		r->digest = mem_grow(r->digest, (size_t)r->cap_digest, sizeof *r->digest);
	}
	r->digest[r->n_digest++] = digest;
}

void record_token(struct record *r, const struct record_token *t, const struct gen_usage *u)
{
	lock_take(&r->lock);
	r->view.t_last = record_now();
	if (r->view.t_first <= 0)
		r->view.t_first = r->view.t_last;
	r->view.usage = *u;
	token_ids_add(&r->tokens, t->id);
	record_add_digest(r, t->digest);
	utf8_stream_put(&r->utf8, t->bytes, t->len, &r->output);
	record_count_bytes(r);
	lock_drop(&r->lock);
}

void record_call(struct record *r, const char *id)
{
	lock_take(&r->lock);
	buf_add(&r->calls, id, strlen(id) + 1);
	record_count_bytes(r);
	lock_drop(&r->lock);
}

void record_calls(struct record *r, struct buf *out)
{
	lock_take(&r->lock);
	buf_add(out, buf_str(&r->calls), r->calls.len);
	lock_drop(&r->lock);
}

void record_loop(struct record *r, const struct gen_loop *l)
{
	lock_take(&r->lock);
	r->view.loop = *l;
	lock_drop(&r->lock);
}

void record_finished(struct record *r, enum gen_finish finish, int rc, const char *detail)
{
	lock_take(&r->lock);
	r->view.finish = finish;
	r->view.rc = rc;
	snprintf(r->view.detail, sizeof r->view.detail, "%s", detail);
	r->view.t_end = record_now();
	utf8_stream_end(&r->utf8, &r->output);
	record_count_bytes(r);
	lock_drop(&r->lock);
}

void record_keep(struct record *r, struct buf *text)
{
	struct buf old;

	lock_take(&r->lock);
	old = r->kept;
	r->kept = *text;
	record_count_bytes(r);
	lock_drop(&r->lock);
	*text = (struct buf){ 0 };
	buf_fini(&old);
}

size_t record_bytes(const struct record *r)
{
	return atomic_load(&r->bytes);
}

const char *record_id(const struct record *r)
{
	return r->view.id;
}

bool record_is_of(const struct record *r, const char *label)
{
	return !strcmp(r->view.label, label);
}

/* ---- reading ---- */

void record_view(struct record *r, struct record_view *ret_v)
{
	lock_take(&r->lock);
	*ret_v = r->view;
	lock_drop(&r->lock);
}

void record_prompt(struct record *r, struct buf *out)
{
	buf_add(out, r->prompt.data, r->prompt.len);
}

void record_messages(struct record *r, struct buf *out)
{
	buf_add(out, r->messages.data, r->messages.len);
}

int record_tokens(struct record *r, int32_t **ret_ids, int *ret_n_prompt)
{
	int n;

	lock_take(&r->lock);
	n = r->tokens.n;
	*ret_ids = mem_grow(NULL, (size_t)n, sizeof **ret_ids);
	if (n)
		memcpy(*ret_ids, r->tokens.id, (size_t)n * sizeof **ret_ids);
	lock_drop(&r->lock);
	*ret_n_prompt = r->n_prompt;
	return n;
}

int record_digests(struct record *r, uint64_t **ret_d)
{
	int n;

	lock_take(&r->lock);
	n = r->n_digest;
	*ret_d = mem_grow(NULL, (size_t)n + 1, sizeof **ret_d);
	if (n)
		memcpy(*ret_d, r->digest, (size_t)n * sizeof **ret_d);
	lock_drop(&r->lock);
	return n;
}

void record_output(struct record *r, struct buf *out)
{
	lock_take(&r->lock);
	buf_add(out, r->output.data, r->output.len);
	lock_drop(&r->lock);
}

void record_kept(struct record *r, struct buf *out)
{
	lock_take(&r->lock);
	buf_add(out, r->kept.data, r->kept.len);
	lock_drop(&r->lock);
}

int record_sets(struct record *r, struct record_set **ret_s)
{
	int n;

	lock_take(&r->lock);
	n = r->n_set;
	*ret_s = mem_grow(NULL, (size_t)n, sizeof **ret_s);
	memcpy(*ret_s, r->set, (size_t)n * sizeof **ret_s);
	lock_drop(&r->lock);
	return n;
}

void record_kernels(struct record *r, struct buf *out)
{
	struct record_set *s;
	int n = record_sets(r, &s);

	for (int i = 0; i < n; i++) {
		if (i && s[i].prompt < r->n_prompt)
			buf_printf(out, ", from prompt token %d ", s[i].prompt);
		else if (i)
			buf_printf(out, ", from output token %d ", s[i].output);
		buf_adds(out, s[i].name);
	}
	free(s);
}
