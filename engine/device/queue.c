/* SPDX-License-Identifier: MIT
 * queue.c - what forward passes are driven by: a stream, its scratch and staging memory, and how it fails.
 * Threads: one at a time per queue. Locks: none. */
#include "engine/device/queue_priv.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/device/ranks_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE_CHUNK ((size_t)1 << 20)

static struct queue queue_cpu;

/* ---- arenas ---- */

static struct queue_chunk *queue_chunk_add(struct queue *q, struct queue_arena *a, size_t size)
{
	struct queue_chunk *c = mem_new(sizeof *c);
	void *host = NULL;
	int rc;

	if (a->pinned) {
		rc = q->device->cu->host_alloc(&host, size, CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED);
		c->host = host;
	} else {
		rc = device_plain_alloc(q->device, &c->p, size);
	}
	if (rc) {
		free(c);
		return NULL;
	}
	c->size = size;
	c->next = a->chunk;
	a->chunk = c;
	if (a->pinned)
		atomic_fetch_add(&q->device->pinned, size);
	return c;
}

static size_t queue_chunks_free(struct queue *q, struct queue_arena *a)
{
	size_t held = 0;

	while (a->chunk) {
		struct queue_chunk *c = a->chunk;

		a->chunk = c->next;
		held += c->size;
		if (a->pinned)
			(void)q->device->cu->host_free(c->host);
		else
			device_plain_drop(q->device, c->p, c->size);
		free(c);
	}
	if (a->pinned)
		atomic_fetch_sub(&q->device->pinned, held);
	return held;
}

void *queue_arena_take(struct queue *q, struct queue_arena *a, size_t bytes, uint64_t *ret_p)
{
	struct queue_chunk *c = a->chunk;
	size_t at;

	if (bytes > SIZE_MAX / 4)
		return NULL;
	bytes = device_round(bytes);
	while (c && c->size - c->used < bytes)
		c = c->next;
	if (!c)
		c = queue_chunk_add(q, a, bytes > QUEUE_CHUNK ? bytes : QUEUE_CHUNK);
	if (!c && bytes < QUEUE_CHUNK)
		c = queue_chunk_add(q, a, bytes);
	if (!c)
		return NULL;
	at = c->used;
	c->used += bytes;
	if (ret_p)
		*ret_p = c->p + at;
	return a->pinned ? c->host + at : (void *)(uintptr_t)(c->p + at);
}

/* Nothing uses it any more: one chunk of the full size takes the place of several. */
static void queue_arena_over(struct queue *q, struct queue_arena *a)
{
	if (a->chunk && a->chunk->next)
		(void)queue_chunk_add(q, a, queue_chunks_free(q, a)); /* short of memory: who takes next asks again */
	if (a->chunk)
		a->chunk->used = 0;
}

/* Ops follow each other: what is queued next may write what the op before has done with. Chunks stay until a sync. */
static void queue_arena_rewind(struct queue_arena *a)
{
	for (struct queue_chunk *c = a->chunk; c; c = c->next)
		c->used = 0;
}

/* ---- life ---- */

struct queue *queue_new(struct device *d, struct buf *why)
{
	struct queue *q;
	int rc;

	if (!device_is_gpu(d))
		return &queue_cpu;
	device_enter(d);
	q = mem_new(sizeof *q);
	q->device = d;
	q->staging.pinned = true;
	rc = d->cu->stream_create(&q->stream, CUDA_STREAM_NON_BLOCKING);
	if (rc) {
		(void)device_result(d, rc, "no stream", why);
		free(q);
		return NULL;
	}
	atomic_fetch_add(&d->queues, 1);
	return q;
}

void queue_free(struct queue **pq)
{
	struct queue *q = *pq;

	*pq = NULL;
	if (!q || q == &queue_cpu)
		return;
	(void)queue_sync(q, NULL);
	queue_graph_fini(q);
	queue_chunks_free(q, &q->scratch);
	queue_chunks_free(q, &q->staging);
	(void)q->device->cu->stream_destroy(q->stream);
	atomic_fetch_sub(&q->device->queues, 1);
	buf_fini(&q->why);
	free(q->discard);
	free(q);
}

bool queue_is_gpu(const struct queue *q)
{
	return q != &queue_cpu;
}

struct dsv4_exec *queue_exec(struct queue *q)
{
	return (struct dsv4_exec *)(void *)q;
}

/* ---- what is queued ---- */

void queue_result(struct queue *q, int rc, const char *what)
{
	if (rc && !q->failed)
		q->failed = device_result(q->device, rc, what, &q->why);
}

void queue_begin(struct queue *q)
{
	device_enter(q->device);
	q->busy = true;
}

void queue_fail(struct queue *q, int rc, const char *why)
{
	if (!q->failed)
		q->failed = buf_why(&q->why, rc, "%s", why);
}

int queue_failed(const struct queue *q)
{
	return q->failed;
}

void *queue_stage(struct queue *q, void *dst, size_t bytes)
{
	void *p;

	if (!queue_is_gpu(q))
		return dst;
	device_enter(q->device);
	if (q->staging_over)
		queue_arena_over(q, &q->staging);
	q->staging_over = false;
	p = queue_arena_take(q, &q->staging, bytes, NULL);
	if (!p)
		queue_result(q, CUDA_NO_MEMORY, "pinned memory");
	return p;
}

void queue_put(struct queue *q, void *dst, const void *staged, size_t bytes)
{
	if (!queue_is_gpu(q) || !staged || !bytes)
		return;
	queue_begin(q);
	queue_result(q, q->device->cu->copy_to_device((uintptr_t)dst, staged, bytes, q->stream), "a copy to the GPU");
}

void queue_move(struct queue *q, void *dst, const void *src, size_t bytes)
{
	if (!queue_is_gpu(q)) {
		memcpy(dst, src, bytes);
	} else if (bytes) {
		queue_begin(q);
		queue_result(q, q->device->cu->copy((uintptr_t)dst, (uintptr_t)src, bytes, q->stream), "a copy");
	}
}

void queue_move_rows(struct queue *q, void *dst, size_t dst_stride, const void *src, size_t src_stride, size_t rows,
	size_t bytes)
{
	const struct cuda_copy_rows c = {
		.from_type = CUDA_MEMORY_UNIFIED, .from = (uintptr_t)src, .from_stride = src_stride,
		.to_type = CUDA_MEMORY_UNIFIED, .to = (uintptr_t)dst, .to_stride = dst_stride, .bytes = bytes,
		.rows = rows,
	};

	must(dst_stride >= bytes && src_stride >= bytes);
	if (!queue_is_gpu(q)) {
		for (size_t i = 0; i < rows && bytes; i++)
			memcpy((char *)dst + i * dst_stride, (const char *)src + i * src_stride, bytes);
	} else if (rows && bytes) {
		queue_begin(q);
		queue_result(q, q->device->cu->copy_rows(&c, q->stream), "a copy of rows");
	}
}

const void *queue_fetch(struct queue *q, const void *src, size_t bytes)
{
	void *p;

	if (!queue_is_gpu(q))
		return src;
	p = queue_stage(q, NULL, bytes);
	queue_begin(q);
	if (p && bytes)
		queue_result(q, q->device->cu->copy_to_host(p, (uintptr_t)src, bytes, q->stream),
			     "a copy from the GPU");
	return p;
}

void queue_discard(struct queue *q, void *p)
{
	if (!queue_is_gpu(q)) {
		free(p);
		return;
	}
	if (!p)
		return;
	if (q->n_discard == q->cap_discard) {
		q->cap_discard = q->cap_discard ? 2 * q->cap_discard : 32;
		q->discard = mem_grow(q->discard, (size_t)q->cap_discard, sizeof *q->discard);
	}
	q->discard[q->n_discard++] = p;
}

void queue_next_op(struct queue *q)
{
	queue_arena_rewind(&q->scratch);
}

/* ---- the wait ---- */

static int queue_wait(struct queue *q, struct buf *why)
{
	struct device *d = q->device;
	int rc;

	queue_result(q, d->ranks ? ranks_wait(d, q->stream) : d->cu->stream_wait(q->stream), "the GPU's work");
	rc = q->failed;
	if (rc)
		(void)buf_why(why, rc, "%s", buf_str(&q->why));
	else if (device_broken(d))
		rc = device_lost(d, why);
	q->failed = 0;
	q->busy = false;
	while (q->n_discard > 0)
		device_free(d, q->discard[--q->n_discard]);
	queue_arena_over(q, &q->scratch);
	q->staging_over = true;
	return rc;
}

int queue_sync(struct queue *q, struct buf *why)
{
	if (!queue_is_gpu(q))
		return 0;
	device_enter(q->device);
	if (!q->busy && !q->failed && !q->capturing && !q->made)
		return 0; /* two ops of the CPU, one after the other */
	queue_graph_end(q, "the host computes or looks in its midst");
	return queue_wait(q, why);
}

int queue_op_done(struct queue *q, char *why, size_t size)
{
	struct buf text = { 0 };
	int rc = queue_sync(q, &text);

	queue_next_op(q);
	if (rc)
		snprintf(why, size, "%s", text.len ? buf_str(&text) : rc_text(rc));
	buf_fini(&text);
	return rc ? -EIO : 0;
}

int queue_end(struct queue *q, struct buf *why)
{
	if (!queue_is_gpu(q))
		return 0;
	device_enter(q->device);
	queue_graph_end(q, NULL);
	return queue_wait(q, why);
}
