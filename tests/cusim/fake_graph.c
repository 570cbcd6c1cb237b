/* SPDX-License-Identifier: MIT
 * fake_graph.c - the stand-in driver's graphs: what was captured, and copies of it that are launched.
 * CUSIM_NO_CAPTURE=DEVICE: that one has no memory to capture any; CUSIM_NO_GRAPH=DEVICE: to make one that can be launched.
 * Threads: any; every call takes the one lock. */
#include "tests/cusim/fake_priv.h"

#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define FN(field, symbol, params) EXPORT int symbol params;
#include "engine/device/cuda_driver.def"
#undef FN

/* Graphs hold the communicators that gather in them. */
static void fake_work_graph(const struct fake_work *w, int more)
{
	for (size_t at = 0; at < w->n;) {
		const struct fake_record *r = (const void *)(w->p + at);

		if (r->kind == FAKE_GATHER)
			fake_meet_graph(&r->u.gather, more);
		at += r->size;
	}
}

static bool fake_graph_refused(const struct fake_device *d, const char *setting)
{
	const char *which = getenv(setting);

	return which && fake_device_number(d) == strtol(which, NULL, 10);
}

int cuStreamBeginCapture_v2(void *stream, int mode)
{
	struct fake_stream *s = stream;
	int rc;
	const struct fake_device *d = fake_enter(&rc);

	if (d) {
		if (fake_graph_refused(d, "CUSIM_NO_CAPTURE")) {
			rc = CUDA_NO_MEMORY;
		} else if (!s || s->graph) {
			rc = CUDA_INVALID_VALUE;
		} else {
			s->graph = calloc(1, sizeof *s->graph);
			s->relaxed = mode == FAKE_RELAXED;
			s->spoilt = false;
		}
	}
	fake_leave();
	return rc;
}

int cuStreamEndCapture(void *stream, void **graph)
{
	struct fake_stream *s = stream;
	int rc;

	*graph = NULL;
	fake_enter(&rc);
	if (!rc && !s->graph)
		rc = CUDA_INVALID_VALUE;
	else if (!rc && s->spoilt)
		rc = CUDA_CAPTURE_INVALIDATED;
	if (rc)
		fake_work_free(s->graph);
	else
		fake_work_graph(*graph = s->graph, 1);
	s->graph = NULL;
	fake_leave();
	return rc;
}

int cuGraphGetNodes(void *graph, void **node, size_t *n)
{
	(void)node;
	*n = ((const struct fake_work *)graph)->n_record;
	return CUDA_OK;
}

/* A lost device's graphs can be freed. */
int cuGraphDestroy(void *graph)
{
	int rc;

	fake_enter(&rc);
	fake_work_graph(graph, -1);
	fake_work_free(graph);
	fake_leave();
	return rc;
}

int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags)
{
	int rc;
	const struct fake_device *d = fake_enter(&rc);

	(void)flags;
	if (d && fake_graph_refused(d, "CUSIM_NO_GRAPH")) {
		rc = CUDA_NO_MEMORY;
	} else if (d) {
		*exec = calloc(1, sizeof(struct fake_work));
		fake_work_append(*exec, graph);
		fake_work_graph(*exec, 1);
	}
	fake_leave();
	return rc;
}

/* Which function a node calls may not differ here: that is what tells one list of kernels from another. */
static bool fake_graph_alike(const struct fake_work *a, const struct fake_work *b)
{
	size_t at = 0;

	if (a->n_record != b->n_record || a->n != b->n)
		return false;
	while (at < a->n) {
		const struct fake_record *x = (const void *)(a->p + at), *y = (const void *)(b->p + at);

		if (x->kind != y->kind || x->size != y->size || (x->kind == FAKE_LAUNCH && x->u.launch.kernel != y->u.launch.kernel))
			return false;
		at += x->size;
	}
	return true;
}

int cuGraphExecUpdate_v2(void *exec, void *graph, struct cuda_graph_update *result)
{
	struct fake_work *w = exec, *from = graph;
	int rc;

	if (fake_enter(&rc)) {
		if (fake_graph_alike(w, from)) {
			fake_work_graph(w, -1);
			memcpy(w->p, from->p, w->n);
			fake_work_graph(w, 1);
			*result = (struct cuda_graph_update){ 0 };
		} else {
			*result = (struct cuda_graph_update){ .result = 1 };
			rc = CUDA_GRAPH_UPDATE_FAILED;
		}
	}
	fake_leave();
	return rc;
}

int cuGraphLaunch(void *exec, void *stream)
{
	int rc;
	struct fake_device *d = fake_enter(&rc);

	if (d) {
		struct fake_stream *s = fake_stream(d, stream);

		/* A driver would make it a node of a graph in the graph, which there is not here. */
		rc = fake_stream_spoil(s);
		if (!rc)
			fake_work_append(&s->queue, exec);
	}
	fake_leave();
	return rc;
}

int cuGraphExecDestroy(void *exec)
{
	return cuGraphDestroy(exec);
}
