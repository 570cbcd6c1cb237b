/* SPDX-License-Identifier: MIT
 * tell_gpu.c - metrics of the GPU that computes: its memory, experts by use, steps as graphs.
 * Threads: control. Locks: the device's, inside device_view(). */
#include "api/http/metrics.h"
#include "daemon/daemon.h"
#include "daemon/tell/tell.h"
#include "engine/base/mem.h"

static void tell_device(struct device *d, const struct device_view *v, struct metrics *m)
{
	const struct {
		enum metric id;
		uint64_t value;
	} row[] = {
		{ METRIC_gpu_lost, device_broken(d) },
		{ METRIC_gpu_total_bytes, v->total },
		{ METRIC_gpu_free_bytes, v->free },
		{ METRIC_gpu_weights_bytes, v->weights },
		{ METRIC_gpu_work_bytes, v->work },
		{ METRIC_gpu_pinned_bytes, v->pinned },
		{ METRIC_gpu_experts_host_bytes, v->experts_host },
		{ METRIC_gpu_expert_slots, v->expert_slots },
		{ METRIC_gpu_expert_slot_bytes, v->expert_slot_bytes },
		{ METRIC_gpu_expert_hits_total, v->expert_hits },
		{ METRIC_gpu_expert_misses_total, v->expert_misses },
		{ METRIC_gpu_graph_steps_total, v->graph_steps },
		{ METRIC_gpu_plain_steps_total, v->plain_steps },
		{ METRIC_gpu_graphs_total, v->graphs },
	};

	for (size_t i = 0; i < mem_countof(row); i++)
		metrics_put(m, row[i].id, (double)row[i].value, METRICS_LABELS(device_name(d)));
}

void tell_gpu(struct daemon *d, struct metrics *m)
{
	struct device_view v;

	if (!d->device || !device_is_gpu(d->device))
		return;
	device_view(d->device, &v);
	tell_device(d->device, &v, m);
}
