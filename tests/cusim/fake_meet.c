/* SPDX-License-Identifier: MIT
 * fake_meet.c - gathers of the stand-in driver's devices: a stream stays at one until the streams of all ranks are there.
 * Threads: any; every call takes the one lock.
 *
 * What is found is a line on stderr, and the end of all the devices: ranks that gather different sizes, memory that is not
 * the device's, or that nobody wrote; one that gathers in a graph where another does not. */
#include "tests/cusim/cusim_meet.h"
#include "tests/cusim/fake_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
EXPORT struct cusim_meet *cusim_meet_new(int n, const int *device);
EXPORT int cusim_meet_gather(struct cusim_meet *m, int rank, void *dst, const void *src, size_t bytes, void *stream);
EXPORT void cusim_meet_abort(struct cusim_meet *m, int rank);
EXPORT void cusim_meet_leave(struct cusim_meet *m, int rank, int together);

struct fake_place {
	struct fake_device *device;
	bool here, over;            /* at its next gather; which has been done */
	bool aborted;
	int graphs;                 /* nodes of graphs */
	struct fake_gather gather;
};

struct cusim_meet {
	struct cusim_meet *next;
	int n, n_left;
	struct fake_place place[FAKE_MAX_DEVICES];
};
static struct cusim_meet *fake_meets;   /* queues may name one that is over */

/* ---- what is wrong ---- */

static bool fake_meet_wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static bool fake_meet_wrong(const char *fmt, ...)
{
	char text[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	fprintf(stderr, "nccl: %s\n", text);
	return false;
}

static bool fake_meet_memory(const struct fake_place *p, const void *at, size_t bytes, bool write)
{
	const struct fake_device *owner = fake_memory_owner(at);
	char who[32];

	snprintf(who, sizeof who, "nccl rank %d", p->gather.rank);
	if (owner && owner != p->device)
		return fake_meet_wrong("rank %d %s memory of device %d on device %d", p->gather.rank, write ? "writes" : "reads",
				       fake_device_number(owner), fake_device_number(p->device));
	return !cusim_memory_check(who, at, bytes, write);
}

static bool fake_meet_right(const struct cusim_meet *m, int rank)
{
	const struct fake_place *p = &m->place[rank];
	const struct fake_gather *g = &p->gather, *first = &m->place[0].gather;
	uintptr_t src = (uintptr_t)g->src, dst = (uintptr_t)g->dst;

	if (g->bytes != first->bytes)
		return fake_meet_wrong("rank %d gathers %zu bytes where rank 0 gathers %zu", rank, g->bytes, first->bytes);
	if (g->in_graph != first->in_graph)
		return fake_meet_wrong("rank %d gathers %s a graph where rank 0 does %s", rank, g->in_graph ? "in" : "outside of",
				       first->in_graph ? "so" : "not");
	if (src < dst + g->bytes * (size_t)m->n && dst < src + g->bytes)
		return fake_meet_wrong("rank %d gathers onto what it gathers from", rank);
	return fake_meet_memory(p, g->src, g->bytes, false) && fake_meet_memory(p, g->dst, g->bytes * (size_t)m->n, true);
}

/* ---- gathering ---- */

static void fake_meet_do(struct cusim_meet *m)
{
	bool right = true;

	for (int i = 0; i < m->n; i++)
		right &= fake_meet_right(m, i);
	for (int i = 0; i < m->n; i++) {
		struct fake_place *p = &m->place[i];

		p->over = true;
		if (!right)
			p->device->failed = CUDA_ILLEGAL_ADDRESS;
		for (int k = 0; k < m->n && right; k++)
			memcpy((char *)p->gather.dst + p->gather.bytes * (size_t)k, m->place[k].gather.src, p->gather.bytes);
	}
}

bool fake_meet_come(const struct fake_gather *g)
{
	struct cusim_meet *m = g->meet;
	struct fake_place *p = &m->place[g->rank];
	bool all = true;

	if (p->aborted)
		return true;
	if (!p->here)
		p->gather = *g;
	p->here = true;
	for (int i = 0; i < m->n; i++)
		all &= m->place[i].here && !m->place[i].over && !m->place[i].device->failed && !m->place[i].aborted;
	if (all)
		fake_meet_do(m);
	if (!p->over)
		return false;
	p->here = p->over = false;
	return true;
}

void fake_meet_graph(const struct fake_gather *g, int more)
{
	g->meet->place[g->rank].graphs += more;
}

/* ---- what NCCL's stand-in calls ---- */

struct cusim_meet *cusim_meet_new(int n, const int *device)
{
	struct cusim_meet *m = calloc(1, sizeof *m);
	bool wrong = !m || n < 1 || n > FAKE_MAX_DEVICES;
	int rc;

	fake_enter(&rc);
	for (int i = 0; i < n && !wrong; i++) {
		m->place[i].device = fake_device(device[i]);
		wrong = !m->place[i].device;
		for (int k = 0; k < i; k++)
			wrong |= device[k] == device[i];
	}
	if (wrong) {
		free(m);
		m = NULL;
	} else {
		m->n = n;
		m->next = fake_meets;
		fake_meets = m;
	}
	fake_leave();
	return m;
}

int cusim_meet_gather(struct cusim_meet *m, int rank, void *dst, const void *src, size_t bytes, void *stream)
{
	const struct fake_gather g = { .meet = m, .rank = rank, .dst = dst, .src = src, .bytes = bytes };
	int rc;

	(void)fake_enter(&rc);
	rc = ((struct fake_stream *)stream)->device == m->place[rank].device ? m->place[rank].device->failed : CUDA_INVALID_VALUE;
	if (!rc)
		fake_queue_gather(stream, &g);
	fake_leave();
	return rc;
}

void cusim_meet_abort(struct cusim_meet *m, int rank)
{
	int rc;

	(void)fake_enter(&rc);
	m->place[rank].aborted = true;
	fake_leave();
}

void cusim_meet_leave(struct cusim_meet *m, int rank, int together)
{
	int rc;

	(void)fake_enter(&rc);
	while (m->place[rank].graphs > 0)
		fake_wait();
	m->n_left++;
	while (together && m->n_left < m->n)
		fake_wait();
	fake_leave();
}
