/* SPDX-License-Identifier: MIT
 * device_memory.c - work memory: managed memory of a GPU in pieces of slabs, which are used again by size; and how much
 * of the GPU is taken by all.
 * Threads: any. Lock: the memory's own mutex, a leaf. */
#include "engine/device/device_priv.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

#include <stdlib.h>
#include <string.h>

#define DEVICE_SLAB ((size_t)32 << 20)

/* ---- how much there is ---- */

static bool device_take(struct device *d, uint64_t bytes)
{
	unsigned long long was = atomic_load(&d->taken);

	do {
		if (was > d->usable || bytes > d->usable - was)
			return false;
	} while (!atomic_compare_exchange_weak(&d->taken, &was, was + bytes));
	return true;
}

static void device_give(struct device *d, uint64_t bytes)
{
	must(atomic_fetch_sub(&d->taken, bytes) >= bytes);
}

/* ---- plain memory ---- */

int device_plain_alloc(struct device *d, uint64_t *ret_p, size_t bytes)
{
	int rc;

	if (!device_take(d, bytes))
		return CUDA_NO_MEMORY;
	rc = d->cu->mem_alloc(ret_p, bytes);
	if (rc)
		device_give(d, bytes);
	return rc;
}

void device_plain_drop(struct device *d, uint64_t p, size_t bytes)
{
	(void)d->cu->mem_free(p);
	device_give(d, bytes);
}

void *device_plain_new(struct device *d, size_t bytes)
{
	uint64_t p = 0;

	must(device_is_gpu(d));
	device_enter(d);
	if (device_plain_alloc(d, &p, bytes))
		return NULL;
	atomic_fetch_add(&d->plain, bytes);
	return (void *)(uintptr_t)p;
}

void device_plain_free(struct device *d, void *p, size_t bytes)
{
	if (!p)
		return;
	device_enter(d);
	device_plain_drop(d, (uintptr_t)p, bytes);
	atomic_fetch_sub(&d->plain, bytes);
}

/* ---- classes: sizes that differ by an eighth at most ---- */

static int device_class(size_t bytes, size_t *ret_size)
{
	size_t units = device_round(bytes ? bytes : 1) / DEVICE_ALIGN;
	int top = 63 - __builtin_clzll(units), shift = top > 3 ? top - 3 : 0;

	units = ((units - 1) >> shift) + 1;
	*ret_size = (units << shift) * DEVICE_ALIGN;
	return shift * 8 + (int)units; /* units <= 16: where one class ends with 16, the next begins with 9 */
}

static struct device_piece **device_bucket(struct device_memory *m, uint64_t p)
{
	return &m->used[(p / DEVICE_ALIGN * 0x9e3779b97f4a7c15u >> 32) % DEVICE_BUCKETS];
}

/* ---- slabs ---- */

static struct device_slab *device_slab_new(struct device *d, size_t size)
{
	struct device_slab *s;
	uint64_t p = 0;

	if (!device_take(d, size))
		return NULL;
	if (d->cu->mem_managed(&p, size, CUDA_ATTACH_GLOBAL) != CUDA_OK) {
		device_give(d, size);
		return NULL;
	}
	(void)d->cu->mem_advise(p, size, CUDA_ADVISE_PREFERRED, d->id); /* where it cannot be, the driver places it */
	s = mem_new(sizeof *s);
	s->p = p;
	s->size = size;
	list_put(&d->memory.slabs, &s->link);
	return s;
}

/* Those of which nothing is in use go back to the driver. */
static bool device_slabs_trim(struct device *d)
{
	struct device_memory *m = &d->memory;
	struct list *at, *next;
	bool any = false;

	for (int i = 0; i < DEVICE_CLASSES; i++)
		for (struct device_piece **p = &m->spare[i]; *p;) {
			struct device_piece *one = *p;

			if (one->slab->live > 0) {
				p = &one->next;
				continue;
			}
			*p = one->next;
			free(one);
		}
	for (at = m->slabs.next; at != &m->slabs; at = next) {
		struct device_slab *s = list_entry(at, struct device_slab, link);

		next = at->next;
		if (s->live > 0)
			continue;
		list_del(&s->link);
		(void)d->cu->mem_free(s->p);
		device_give(d, s->size);
		free(s);
		any = true;
	}
	return any;
}

/* A slab with room for so many bytes: one that is there, a new one, one of that size alone, one after trimming. */
static struct device_slab *device_slab_for(struct device *d, size_t size)
{
	size_t whole = size > DEVICE_SLAB / 4 ? size : DEVICE_SLAB;
	struct device_slab *s;

	list_each(one, &d->memory.slabs, struct device_slab, link)
		if (one->size - one->used >= size)
			return one;
	s = device_slab_new(d, whole);
	if (!s && whole > size)
		s = device_slab_new(d, size);
	if (!s && device_slabs_trim(d))
		s = device_slab_new(d, size);
	return s;
}

/* ---- pieces ---- */

static struct device_piece *device_piece_take(struct device *d, size_t bytes)
{
	struct device_memory *m = &d->memory;
	struct device_piece *p;
	struct device_slab *s;
	size_t size;
	int class = device_class(bytes, &size);

	must(class < DEVICE_CLASSES);
	p = m->spare[class];
	if (p) {
		m->spare[class] = p->next;
	} else {
		s = device_slab_for(d, size);
		if (!s)
			return NULL;
		p = mem_new(sizeof *p);
		*p = (struct device_piece){ .p = s->p + s->used, .size = size, .slab = s };
		s->used += size;
	}
	p->slab->live++;
	m->bytes += size;
	return p;
}

void *device_alloc(struct device *d, size_t n, size_t size)
{
	struct device_memory *m = &d->memory;
	struct device_piece *p, **bucket;
	size_t bytes;

	if (!device_is_gpu(d))
		return mem_try(n, size);
	if (__builtin_mul_overflow(n, size, &bytes) || bytes > SIZE_MAX / 4)
		return NULL;
	device_enter(d);
	must_zero(pthread_mutex_lock(&m->mutex));
	p = device_piece_take(d, bytes);
	if (p) {
		bucket = device_bucket(m, p->p);
		p->next = *bucket;
		*bucket = p;
	}
	must_zero(pthread_mutex_unlock(&m->mutex));
	return p ? (void *)(uintptr_t)p->p : NULL;
}

void device_free(struct device *d, void *mem)
{
	struct device_memory *m = &d->memory;
	struct device_piece **p, *one;
	size_t size;
	int class;

	if (!device_is_gpu(d)) {
		free(mem);
		return;
	}
	if (!mem)
		return;
	must_zero(pthread_mutex_lock(&m->mutex));
	for (p = device_bucket(m, (uintptr_t)mem); *p && (*p)->p != (uintptr_t)mem; p = &(*p)->next)
		;
	one = *p;
	must(one != NULL);
	*p = one->next;
	class = device_class(one->size, &size);
	one->next = m->spare[class];
	m->spare[class] = one;
	one->slab->live--;
	m->bytes -= one->size;
	must_zero(pthread_mutex_unlock(&m->mutex));
}

/* ---- life ---- */

void device_memory_init(struct device *d)
{
	list_init(&d->memory.slabs);
	must_zero(pthread_mutex_init(&d->memory.mutex, NULL));
}

void device_memory_trim(struct device *d)
{
	must_zero(pthread_mutex_lock(&d->memory.mutex));
	(void)device_slabs_trim(d);
	must_zero(pthread_mutex_unlock(&d->memory.mutex));
}

void device_memory_fini(struct device *d)
{
	must(d->memory.bytes == 0);
	if (d->context)
		device_memory_trim(d);
	must_zero(pthread_mutex_destroy(&d->memory.mutex));
}
