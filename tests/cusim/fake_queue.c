/* SPDX-License-Identifier: MIT
 * fake_queue.c - the stand-in driver's streams: nothing runs before somebody waits for it.
 * Threads: any; every call takes the one lock. */
#include "tests/cusim/fake_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define FN(field, symbol, params) EXPORT int symbol params;
#include "engine/device/cuda_driver.def"
#undef FN

/* ---- records ---- */

static struct fake_record *fake_work_add(struct fake_work *w, enum fake_kind kind, size_t more)
{
	size_t size = (sizeof(struct fake_record) + more + 15) / 16 * 16;
	struct fake_record *r;

	if (w->cap - w->n < size) {
		w->cap = (w->cap + size) * 2;
		w->p = realloc(w->p, w->cap);
		if (!w->p)
			abort();
	}
	r = (void *)(w->p + w->n);
	*r = (struct fake_record){ .size = (uint32_t)size, .kind = kind };
	w->n += size;
	w->n_record++;
	return r;
}

void fake_work_append(struct fake_work *w, const struct fake_work *more)
{
	for (size_t at = 0; at < more->n;) {
		const struct fake_record *r = (const void *)(more->p + at);
		size_t size = r->size;

		memcpy(fake_work_add(w, r->kind, size - sizeof *r), r, size);
		at += size;
	}
}

void fake_work_free(struct fake_work *w)
{
	if (w)
		free(w->p);
	free(w);
}

/* ---- running ---- */

/* A GPU reaches another's memory only where it was given access, which nobody is here. */
static bool fake_queue_strange(struct fake_device *d, const void *p)
{
	const struct fake_device *owner = fake_memory_owner(p);

	if (!owner || owner == d)
		return false;
	fprintf(stderr, "cusim: a copy on device %d touches %p, which is memory of device %d\n", fake_device_number(d), p,
		fake_device_number(owner));
	d->failed = CUDA_ILLEGAL_ADDRESS;
	return true;
}

static void fake_queue_launch(struct fake_device *d, struct fake_record *r)
{
	static long n;
	const char *lose = getenv("CUSIM_LOSE_AT");

	r->u.launch.args = r + 1;
	r->u.launch.device = (uint32_t)fake_device_number(d);
	if (lose && ++n == strtol(lose, NULL, 10)) {
		d->failed = CUDA_LAUNCH_FAILED;
		return;
	}
	if (cusim_launch(&r->u.launch))
		d->failed = CUDA_ILLEGAL_ADDRESS;
}

static void fake_queue_bytes(struct fake_device *d, void *to, const void *from, size_t bytes)
{
	if (fake_queue_strange(d, to) || fake_queue_strange(d, from))
		return;
	memmove(to, from, bytes);
	if (fake_memory_kind(to) == FAKE_DEVICE)
		cusim_memory_written(to, bytes);
}

static void fake_queue_rows(struct fake_device *d, const struct cuda_copy_rows *c)
{
	for (size_t i = 0; i < c->rows && !d->failed; i++)
		fake_queue_bytes(d, (void *)(uintptr_t)(c->to + i * c->to_stride),
				 (const void *)(uintptr_t)(c->from + i * c->from_stride), c->bytes);
}

static void fake_queue_record(struct fake_device *d, struct fake_record *r)
{
	if (r->kind == FAKE_LAUNCH)
		fake_queue_launch(d, r);
	else if (r->kind == FAKE_COPY)
		fake_queue_bytes(d, r->u.copy.to, r->u.copy.here ? (const void *)(r + 1) : r->u.copy.from, r->u.copy.bytes);
	else if (r->kind == FAKE_COPY_ROWS)
		fake_queue_rows(d, &r->u.rows);
}

/* The other streams go on by themselves, as they do on GPUs. */
static void fake_queue_others(const struct fake_stream *but)
{
	for (int i = 0; fake_device(i); i++)
		for (struct fake_stream *s = fake_device(i)->streams; s; s = s->next)
			if (s != but && s->at < s->queue.n)
				(void)fake_queue_run(s);
}

/* What a lost device had still to do is dropped. */
int fake_queue_run(struct fake_stream *s)
{
	bool over = true;

	if (s->running)
		return CUDA_NOT_READY;
	s->running = true;
	fake_memory_show();
	while (over && s->at < s->queue.n && !s->device->failed) {
		struct fake_record *r = (void *)(s->queue.p + s->at);

		if (r->kind == FAKE_GATHER && !fake_meet_come(&r->u.gather)) {
			fake_queue_others(s);
			over = fake_meet_come(&r->u.gather);
		}
		fake_queue_record(s->device, r);
		s->at += over ? r->size : 0;
	}
	fake_memory_hide();
	s->running = false;
	if (!over && !s->device->failed)
		return CUDA_NOT_READY;
	s->queue.n = s->queue.n_record = s->at = 0;
	return s->device->failed;
}

int fake_queue_finish(struct fake_stream *s)
{
	int rc;

	while ((rc = fake_queue_run(s)) == CUDA_NOT_READY)
		fake_wait();
	return rc;
}

void fake_queue_drain(struct fake_device *d)
{
	for (struct fake_stream *s = d->streams; s; s = s->next)
		if (s->queue.n)
			fake_queue_finish(s);
}

bool fake_queue_capturing(struct fake_device *d)
{
	bool any = false;

	for (struct fake_stream *s = d->streams; s; s = s->next)
		if (s->graph && !s->relaxed)
			any = s->spoilt = true;
	return any;
}

/* ---- streams ---- */

static struct fake_stream *fake_stream_new(struct fake_device *d)
{
	struct fake_stream *s = calloc(1, sizeof *s);

	s->device = d;
	s->next = d->streams;
	d->streams = s;
	return s;
}

struct fake_stream *fake_stream(struct fake_device *d, void *stream)
{
	static struct fake_stream *own[FAKE_MAX_DEVICES];
	int i = 0;

	if (stream)
		return stream;
	while (fake_device(i) != d)
		i++;
	return own[i] ? own[i] : (own[i] = fake_stream_new(d));
}

/* Where a call's record goes. */
static struct fake_work *fake_stream_work(struct fake_stream *s)
{
	return s->graph ? s->graph : &s->queue;
}

int fake_stream_spoil(struct fake_stream *s)
{
	if (!s->graph)
		return CUDA_OK;
	s->spoilt = true;
	return FAKE_CAPTURE_UNSUPPORTED;
}

int cuStreamCreate(void **stream, unsigned flags)
{
	int rc;
	struct fake_device *d = fake_enter(&rc);

	(void)flags;
	if (d)
		*stream = fake_stream_new(d);
	fake_leave();
	return rc;
}

int cuStreamDestroy_v2(void *stream)
{
	struct fake_stream *s = stream, **at;
	int rc;

	fake_enter(&rc);
	fake_queue_finish(s);
	for (at = &s->device->streams; *at != s; at = &(*at)->next)
		;
	*at = s->next;
	fake_work_free(s->graph);
	free(s->queue.p);
	free(s);
	fake_leave();
	return rc;
}

static int fake_stream_look(void *stream, int look(struct fake_stream *s))
{
	int rc;
	struct fake_device *d = fake_enter(&rc);

	if (d) {
		struct fake_stream *s = fake_stream(d, stream);

		rc = fake_stream_spoil(s);
		if (!rc)
			rc = look(s);
	}
	fake_leave();
	return rc;
}

int cuStreamSynchronize(void *stream)
{
	return fake_stream_look(stream, fake_queue_finish);
}

/* Who asks waits: without that, nothing would run. */
int cuStreamQuery(void *stream)
{
	return fake_stream_look(stream, fake_queue_run);
}

/* ---- work ---- */

/* From memory that the driver cannot lock it takes the bytes at once; to such memory it copies before it returns. */
static int fake_queue_put(void *to, const void *from, size_t bytes, void *stream)
{
	int rc;
	struct fake_device *d = fake_enter(&rc);

	if (d && bytes) {
		struct fake_stream *s = fake_stream(d, stream);
		bool here = !s->graph && fake_memory_kind(from) == FAKE_PAGEABLE;
		struct fake_record *r = fake_work_add(fake_stream_work(s), FAKE_COPY, here ? bytes : 0);

		r->u.copy.to = to;
		r->u.copy.from = from;
		r->u.copy.bytes = bytes;
		r->u.copy.here = here;
		if (here)
			memcpy(r + 1, from, bytes);
		if (!s->graph && fake_memory_kind(to) == FAKE_PAGEABLE)
			rc = fake_queue_finish(s);
	}
	fake_leave();
	return rc;
}

int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
	return fake_queue_put((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes, stream);
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream)
{
	return fake_queue_put((void *)(uintptr_t)to, from, bytes, stream);
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream)
{
	return fake_queue_put(to, (const void *)(uintptr_t)from, bytes, stream);
}

/* Between memory of the device, from its begin: all that the daemon asks for. */
int cuMemcpy2DAsync_v2(const struct cuda_copy_rows *copy, void *stream)
{
	int rc;
	struct fake_device *d = fake_enter(&rc);

	if (d && (copy->from_type != CUDA_MEMORY_UNIFIED || copy->to_type != CUDA_MEMORY_UNIFIED || copy->from_x || copy->from_y ||
		  copy->to_x || copy->to_y || copy->bytes > copy->from_stride || copy->bytes > copy->to_stride))
		rc = CUDA_INVALID_VALUE;
	if (!rc && copy->bytes && copy->rows)
		fake_work_add(fake_stream_work(fake_stream(d, stream)), FAKE_COPY_ROWS, 0)->u.rows = *copy;
	fake_leave();
	return rc;
}

void fake_queue_gather(void *stream, const struct fake_gather *g)
{
	struct fake_stream *s = stream;
	struct fake_record *r = fake_work_add(fake_stream_work(s), FAKE_GATHER, 0);

	r->u.gather = *g;
	r->u.gather.in_graph = s->graph != NULL;
}

int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
		   unsigned block_z, unsigned shared, void *stream, void **params, void **extra)
{
	const struct cusim_kernel *k = NULL;
	struct fake_record *r;
	int rc;
	struct fake_device *d = fake_enter(&rc);

	(void)extra;
	if (d && (!function || !grid_x || !grid_y || !grid_z || !fake_function_takes(function, shared, &k)))
		rc = CUDA_INVALID_VALUE;
	if (!rc) {
		r = fake_work_add(fake_stream_work(fake_stream(d, stream)), FAKE_LAUNCH, k->args_bytes);
		r->u.launch = (struct cusim_launch){ .kernel = k, .grid = { grid_x, grid_y, grid_z },
						     .block = { block_x, block_y, block_z }, .shared = shared };
		memcpy(r + 1, params[0], k->args_bytes);
	}
	fake_leave();
	return rc;
}
