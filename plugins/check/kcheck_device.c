/* SPDX-License-Identifier: MIT
 * kcheck_device.c - the GPU that kcheck checks plugins for GPUs on.
 * Threads: main. Locks: none. */
#include "plugins/check/kcheck_device.h"
#include "engine/base/rc.h"

/* Each buffer is the driver's own: what reads past it shows under compute-sanitizer and tests/cusim, which see no
 * bounds inside what the engine's device cuts in pieces. */
static void *kcheck_device_alloc(void *arg, size_t bytes)
{
	struct kcheck_device *k = arg;
	uint64_t p = 0;

	return k->cu->mem_managed(&p, bytes ? bytes : 1, CUDA_ATTACH_GLOBAL) == CUDA_OK ? (void *)(uintptr_t)p : NULL;
}

static void kcheck_device_free(void *arg, void *p)
{
	struct kcheck_device *k = arg;

	(void)k->cu->mem_free((uintptr_t)p);
}

static int kcheck_device_wait(void *arg, char *why, size_t size)
{
	struct kcheck_device *k = arg;

	return queue_op_done(k->queue, why, size);
}

int kcheck_device_open(struct kcheck_device *k, const char *name, struct buf *why)
{
	int rc = device_open(name, &k->device, why);

	if (!rc && !device_is_gpu(k->device))
		return 0;
	if (!rc)
		rc = cuda_driver(&k->cu, why);
	if (!rc) {
		k->queue = queue_new(k->device, why);
		rc = k->queue ? 0 : RC_UNAVAILABLE;
	}
	if (rc)
		return rc;
	k->check = (struct check_device){ .memory = { k, kcheck_device_alloc, kcheck_device_free }, .arg = k,
					  .gpu = device_gpu(k->device), .exec = queue_exec(k->queue),
					  .wait = kcheck_device_wait };
	return 0;
}

void kcheck_device_close(struct kcheck_device *k)
{
	if (k->queue)
		queue_free(&k->queue);
	if (k->device)
		device_close(&k->device);
}
