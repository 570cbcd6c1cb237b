/* SPDX-License-Identifier: MIT
 * device_weights.c - what a model is made of, copied to a GPU once, and where each tensor lies there.
 * Threads: one opens; any asks for addresses then. Locks: none.
 *
 * Tensors are laid one after the other in large pieces of memory, each on an address that suits wide loads, whatever it
 * had in its file. Copies go through the loader's pinned memory, two parts in turn. */
#include "engine/device/queue_priv.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEVICE_ARENA ((size_t)64 << 20)
#define DEVICE_PART ((size_t)32 << 20)   /* staged before the copies so far are waited for */

/* ---- room ---- */

static int device_arena_add(struct device *d, size_t size, bool pinned, struct buf *why)
{
	struct device_weights *w = &d->weights;
	struct device_arena a = { .size = size };
	int rc;

	if (pinned) {
		rc = d->cu->host_alloc(&a.pinned, size, CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED);
		rc = rc ? rc : d->cu->host_address(&a.p, a.pinned, 0);
	} else {
		rc = device_plain_alloc(d, &a.p, size);
	}
	if (rc)
		return device_result(d, rc, pinned ? "pinned memory for weights" : "memory for weights", why);
	w->arena = mem_grow(w->arena, (size_t)w->n_arena + 1, sizeof *w->arena);
	w->arena[w->n_arena++] = a;
	if (pinned)
		atomic_fetch_add(&d->pinned, size);
	w->left[pinned] = size;
	w->at[pinned] = a.p;
	if (pinned)
		w->host_at = a.pinned;
	return 0;
}

/* A whole arena, or where memory is too short for one, what it takes. */
static int device_room(struct device *d, size_t bytes, bool pinned, struct buf *why)
{
	size_t whole = bytes > DEVICE_ARENA ? bytes : DEVICE_ARENA;
	int rc;

	if (bytes <= d->weights.left[pinned])
		return 0;
	rc = device_arena_add(d, whole, pinned, why);
	return rc == -ENOMEM && whole > bytes ? device_arena_add(d, bytes, pinned, why) : rc;
}

static void device_range_add(struct device_weights *w, const void *host, uint64_t p)
{
	if (w->n == w->cap) {
		w->cap = w->cap ? 2 * w->cap : 1024;
		w->range = mem_grow(w->range, w->cap, sizeof *w->range);
	}
	w->range[w->n++] = (struct device_range){ host, p };
	w->sorted = false;
}

/* ---- copying ---- */

static struct queue *device_loader(struct device *d, struct buf *why)
{
	if (!d->loader)
		d->loader = queue_new(d, why);
	return d->loader;
}

static int device_copy(struct device *d, uint64_t to, const char *from, size_t bytes, struct buf *why)
{
	struct queue *q = device_loader(d, why);

	if (!q)
		return RC_DEVICE;
	while (bytes > 0) {
		size_t n = bytes < DEVICE_PART ? bytes : DEVICE_PART;
		void *staged;

		if (q->staging.chunk && q->staging.chunk->used + n > DEVICE_PART && queue_sync(q, why))
			return RC_DEVICE;
		staged = queue_stage(q, NULL, n);
		if (!staged)
			return queue_sync(q, why);
		memcpy(staged, from, n);
		queue_put(q, (void *)(uintptr_t)to, staged, n);
		to += n;
		from += n;
		bytes -= n;
	}
	return 0;
}

static int device_keep_in(struct device *d, const void *p, size_t bytes, bool pinned, struct buf *why)
{
	struct device_weights *w = &d->weights;
	size_t size = device_round(bytes);
	int rc;

	if (!device_is_gpu(d) || !p || !bytes)
		return 0;
	device_enter(d);
	rc = device_room(d, size, pinned, why);
	if (rc)
		return rc;
	device_range_add(w, p, w->at[pinned]);
	if (pinned)
		memcpy(w->host_at, p, bytes);
	else
		rc = device_copy(d, w->at[0], p, bytes, why);
	w->at[pinned] += size;
	w->left[pinned] -= size;
	w->host_at += pinned ? size : 0;
	*(pinned ? &w->host_bytes : &w->bytes) += bytes;
	return rc;
}

int device_keep(struct device *d, const void *p, size_t bytes, struct buf *why)
{
	return device_keep_in(d, p, bytes, false, why);
}

int device_keep_host(struct device *d, const void *p, size_t bytes, struct buf *why)
{
	return device_keep_in(d, p, bytes, true, why);
}

/* ---- addresses ---- */

static int device_range_order(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t)((const struct device_range *)a)->host,
		y = (uintptr_t)((const struct device_range *)b)->host;

	return x < y ? -1 : x > y;
}

int device_kept(struct device *d, struct buf *why)
{
	struct device_weights *w = &d->weights;
	int rc = d->loader ? queue_sync(d->loader, why) : 0;

	if (!device_is_gpu(d))
		return 0;
	queue_free(&d->loader);
	if (w->n)
		qsort(w->range, w->n, sizeof *w->range, device_range_order);
	w->sorted = true;
	return rc;
}

const void *device_address(const struct device *d, const void *p)
{
	const struct device_weights *w = &d->weights;
	struct device_range key = { p, 0 }, *r;

	if (!device_is_gpu(d) || !p)
		return p;
	must(w->sorted);
	r = bsearch(&key, w->range, w->n, sizeof *w->range, device_range_order);
	return r ? (const void *)(uintptr_t)r->p : NULL;
}

void device_weights_fini(struct device *d)
{
	struct device_weights *w = &d->weights;

	for (int i = 0; i < w->n_arena; i++) {
		const struct device_arena *a = &w->arena[i];

		if (a->pinned)
			(void)d->cu->host_free(a->pinned); /* with the device, whose count of it
							    * nobody reads any more */
		else
			device_plain_drop(d, a->p, a->size);
	}
	free(w->arena);
	free(w->range);
	*w = (struct device_weights){ 0 };
}
