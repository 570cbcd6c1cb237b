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
	struct buf output;
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
	atomic_store(&r->bytes, sizeof *r + r->messages.cap + r->prompt.cap + r->output.cap
					+ (size_t)r->tokens.cap * sizeof *r->tokens.id);
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
	token_ids_fini(&r->tokens);
	r->magic = 0;
	free(r);
}

void record_admitted(struct record *r)
{
	lock_take(&r->lock);
	r->view.t_admit = record_now();
	lock_drop(&r->lock);
}

void record_token(struct record *r, int32_t id, const char *bytes, size_t len, const struct gen_usage *u)
{
	lock_take(&r->lock);
	r->view.t_last = record_now();
	if (r->view.t_first <= 0)
		r->view.t_first = r->view.t_last;
	r->view.usage = *u;
	token_ids_add(&r->tokens, id);
	utf8_stream_put(&r->utf8, bytes, len, &r->output);
	record_count_bytes(r);
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

size_t record_bytes(const struct record *r)
{
	return atomic_load(&r->bytes);
}

const char *record_id(const struct record *r)
{
	return r->view.id;
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

void record_output(struct record *r, struct buf *out)
{
	lock_take(&r->lock);
	buf_add(out, r->output.data, r->output.len);
	lock_drop(&r->lock);
}
