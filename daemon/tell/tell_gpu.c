/* SPDX-License-Identifier: MIT
 * tell_gpu.c - metrics of the GPUs that compute: their memory, experts by use, steps as graphs.
 * Threads: control. Locks: the devices', inside device_view(). */
#include "api/http/metrics.h"
#include "daemon/daemon.h"
#include "daemon/tell/tell.h"
#include "engine/base/mem.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Where in the view each of them is. */
static const struct tell_gpu_row {
	enum metric id;
	size_t at;
} tell_gpu_rows[] = {
	{ METRIC_gpu_total_bytes, offsetof(struct device_view, total) },
	{ METRIC_gpu_free_bytes, offsetof(struct device_view, free) },
	{ METRIC_gpu_weights_bytes, offsetof(struct device_view, weights) },
	{ METRIC_gpu_work_bytes, offsetof(struct device_view, work) },
	{ METRIC_gpu_pinned_bytes, offsetof(struct device_view, pinned) },
	{ METRIC_gpu_experts_host_bytes, offsetof(struct device_view, experts_host) },
	{ METRIC_gpu_expert_slots, offsetof(struct device_view, expert_slots) },
	{ METRIC_gpu_expert_slot_bytes, offsetof(struct device_view, expert_slot_bytes) },
	{ METRIC_gpu_expert_hits_total, offsetof(struct device_view, expert_hits) },
	{ METRIC_gpu_expert_misses_total, offsetof(struct device_view, expert_misses) },
	{ METRIC_gpu_graph_steps_total, offsetof(struct device_view, graph_steps) },
	{ METRIC_gpu_plain_steps_total, offsetof(struct device_view, plain_steps) },
	{ METRIC_gpu_graphs_total, offsetof(struct device_view, graphs) },
};

static double tell_gpu_value(const struct device_view *v, size_t at)
{
	uint64_t n;

	memcpy(&n, (const char *)v + at, sizeof n);
	return (double)n;
}

/* Metric by metric: the samples of one stand together on the page. */
static void tell_gpus(struct device *const *gpu, int n, struct metrics *m)
{
	struct device_view *v = mem_grow(NULL, (size_t)n, sizeof *v);

	for (int i = 0; i < n; i++) {
		device_view(gpu[i], &v[i]);
		metrics_put(m, METRIC_gpu_lost, device_broken(gpu[i]), METRICS_LABELS(device_name(gpu[i])));
	}
	for (size_t r = 0; r < mem_countof(tell_gpu_rows); r++)
		for (int i = 0; i < n; i++)
			metrics_put(m, tell_gpu_rows[r].id, tell_gpu_value(&v[i], tell_gpu_rows[r].at),
				    METRICS_LABELS(device_name(gpu[i])));
	free(v);
}

void tell_gpu(struct daemon *d, struct metrics *m)
{
	struct device *gpu[DEVICE_LIST_MAX];
	int n = d->ranks ? ranks_n(d->ranks) : 0;

	for (int i = 0; i < n; i++)
		gpu[i] = ranks_device(d->ranks, i);
	if (n && device_is_gpu(gpu[0]))
		tell_gpus(gpu, n, m);
}
