/* SPDX-License-Identifier: MIT
 * check_gpu.c - the daemon's GPU as the check library uses it: work memory, and a queue of its own.
 * Threads: one at a time. Locks: none. */
#include "daemon/kernels/check_gpu.h"
#include "engine/base/rc.h"

static void *check_gpu_alloc(void *arg, size_t bytes)
{
	struct check_gpu *g = arg;

	return device_alloc(g->device, bytes, 1);
}

static void check_gpu_free(void *arg, void *p)
{
	struct check_gpu *g = arg;

	device_free(g->device, p);
}

static int check_gpu_wait(void *arg, char *why, size_t size)
{
	struct check_gpu *g = arg;

	return queue_op_done(g->queue, why, size);
}

int check_gpu_open(struct check_gpu *g, struct device *d, const struct dsv4_plugin *p,
		   const struct check_device **ret_check, struct buf *why)
{
	*g = (struct check_gpu){ .device = d };
	*ret_check = NULL;
	if (!*p->gpu)
		return 0;
	g->queue = queue_new(d, why);
	if (!g->queue)
		return RC_DEVICE;
	g->check = (struct check_device){ .memory = { g, check_gpu_alloc, check_gpu_free }, .gpu = device_gpu(d),
					  .exec = queue_exec(g->queue), .wait = check_gpu_wait, .arg = g };
	*ret_check = &g->check;
	return 0;
}

void check_gpu_close(struct check_gpu *g)
{
	queue_free(&g->queue);
}
