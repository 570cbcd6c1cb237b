/* SPDX-License-Identifier: MIT
 * queue_graph.c - decode steps as graphs: captured each time, since their numbers differ, and launched by an executable
 * one that is kept as long as the list of kernels is the same.
 * Threads: one at a time per queue. Locks: the view's, a leaf.
 *
 * Steps of one set differ in how many sequences they have and in which of them complete a group of the compressors, so
 * that a few graphs take turns: each is known by its key and the number of its nodes. */
#include "engine/device/queue_priv.h"
#include "engine/base/must.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void queue_graph_say(struct queue *q, const char *why)
{
	struct device *d = q->device;

	must_zero(pthread_mutex_lock(&d->why_mutex));
	snprintf(d->graph_why, sizeof d->graph_why, "%s", why);
	must_zero(pthread_mutex_unlock(&d->why_mutex));
	if (*why)
		atomic_fetch_add(&d->plain_steps, 1);
}

void queue_no_graph(struct queue *q, const char *why)
{
	if (queue_is_gpu(q))
		queue_graph_say(q, why);
}

/* Allocations are allowed meanwhile (relaxed): a captured launch touches nothing before the graph runs. */
int queue_graph(struct queue *q, uint64_t key)
{
	int rc;

	if (!queue_is_gpu(q))
		return 0;
	must(!q->capturing && !q->made);
	if (q->refused == key) {
		atomic_fetch_add(&q->device->plain_steps, 1);
		return 0;
	}
	device_enter(q->device);
	rc = q->device->cu->capture_begin(q->stream, CUDA_CAPTURE_RELAXED);
	if (rc == CUDA_NO_MEMORY)
		return -ENOMEM;
	queue_result(q, rc, "the capture of a graph");
	q->capturing = rc == CUDA_OK;
	q->key = key;
	return 0;
}

static struct queue_graph *queue_graph_find(struct queue *q, size_t n_node)
{
	struct queue_graph *oldest = &q->graph[0];

	for (int i = 0; i < QUEUE_GRAPHS; i++) {
		if (q->graph[i].exec && q->graph[i].key == q->key && q->graph[i].n_node == n_node)
			return &q->graph[i];
		if (q->graph[i].used < oldest->used)
			oldest = &q->graph[i];
	}
	return oldest;
}

static void queue_graph_drop(struct queue *q, struct queue_graph *g)
{
	if (g->exec)
		(void)q->device->cu->graph_exec_destroy(g->exec);
	*g = (struct queue_graph){ 0 };
}

/* The graph as something to launch: one that is kept, with these numbers, or a new one. The driver's result. */
static int queue_graph_make(struct queue *q, void *graph)
{
	const struct cuda_driver *cu = q->device->cu;
	struct cuda_graph_update differs = { 0 };
	struct queue_graph *g;
	size_t n = 0;
	int rc = cu->graph_nodes(graph, NULL, &n);

	if (rc || n == 0)
		return rc;
	g = queue_graph_find(q, n);
	if (!g->exec || g->key != q->key || g->n_node != n || cu->graph_update(g->exec, graph, &differs) != CUDA_OK) {
		queue_graph_drop(q, g);
		rc = cu->graph_instantiate(&g->exec, graph, 0);
		if (rc) {
			g->exec = NULL;
			return rc;
		}
		g->key = q->key;
		g->n_node = n;
		atomic_fetch_add(&q->device->graphs, 1);
	}
	g->used = ++q->tick;
	q->exec = g->exec;
	atomic_store(&q->device->graph_nodes, (int)n);
	return CUDA_OK;
}

int queue_ready(struct queue *q)
{
	void *graph = NULL;
	int rc;

	if (!q->capturing)
		return 0;
	q->capturing = false;
	device_enter(q->device);
	rc = q->device->cu->capture_end(q->stream, &graph);
	if (rc == CUDA_OK && graph && !q->failed)
		rc = queue_graph_make(q, graph);
	if (graph)
		(void)q->device->cu->graph_destroy(graph);
	if (rc == CUDA_NO_MEMORY)
		return -ENOMEM;
	queue_result(q, rc, "the capture of a graph");
	q->made = !q->failed;
	return 0;
}

void queue_graph_end(struct queue *q, const char *early)
{
	if (!q->capturing && !q->made)
		return;
	if (queue_ready(q))
		queue_result(q, CUDA_NO_MEMORY, "a graph");
	if (q->exec && !q->failed)
		queue_result(q, q->device->cu->graph_launch(q->exec, q->stream), "the launch of a graph");
	q->exec = NULL;
	q->made = false;
	if (q->failed && q->device->ranks)
		device_break(q->device, buf_str(&q->why)); /* the others' graphs would wait for what this one gathers */
	if (q->failed)
		return;
	if (early) {
		q->refused = q->key;
		queue_graph_say(q, early);
	} else {
		atomic_fetch_add(&q->device->graph_steps, 1);
		queue_graph_say(q, "");
	}
}

void queue_drop(struct queue *q)
{
	void *graph = NULL;

	q->made = false;
	q->exec = NULL;
	if (!q->capturing)
		return;
	q->capturing = false;
	device_enter(q->device);
	(void)q->device->cu->capture_end(q->stream, &graph);
	if (graph)
		(void)q->device->cu->graph_destroy(graph);
}

void queue_graph_fini(struct queue *q)
{
	for (int i = 0; i < QUEUE_GRAPHS; i++)
		queue_graph_drop(q, &q->graph[i]);
}
