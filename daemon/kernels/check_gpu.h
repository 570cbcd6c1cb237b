/* SPDX-License-Identifier: MIT
 * check_gpu.h - the daemon's GPU as the check library uses it.
 * Threads: one at a time. Locks: none. */
#ifndef DAEMON_CHECK_GPU_H
#define DAEMON_CHECK_GPU_H

#include "engine/engine.h"
#include "plugins/check/check.h"

struct check_gpu {
	struct device *device;
	struct queue *queue;
	struct check_device check;
};

/* *ret_check is what check_options.device is to be for this plugin: NULL on the CPU. g does not move any more, and is
 * to be closed. RC_DEVICE, why says why. */
int check_gpu_open(struct check_gpu *g, struct device *d, const struct dsv4_plugin *p,
		   const struct check_device **ret_check, struct buf *why);
/* Zeroes are fine. */
void check_gpu_close(struct check_gpu *g);

#endif
