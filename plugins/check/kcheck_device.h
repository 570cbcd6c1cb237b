/* SPDX-License-Identifier: MIT
 * kcheck_device.h - the GPU that kcheck checks plugins for GPUs on.
 * Threads: main. Locks: none. */
#ifndef CHECK_KCHECK_DEVICE_H
#define CHECK_KCHECK_DEVICE_H

#include "engine/device/cuda_driver.h"
#include "engine/device/device.h"
#include "engine/device/queue.h"
#include "plugins/check/check.h"

struct kcheck_device {
	struct device *device;
	struct queue *queue;
	const struct cuda_driver *cu;
	struct check_device check;
};

/* k does not move any more. RC_UNAVAILABLE, RC_INVALID; why says why. */
int kcheck_device_open(struct kcheck_device *k, const char *name, struct buf *why);
/* Zeroes are fine. */
void kcheck_device_close(struct kcheck_device *k);

#endif
