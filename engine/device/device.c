/* SPDX-License-Identifier: MIT
 * device.c - devices: the CPU, and GPUs opened by name; what they have and how they fail.
 * Threads, locks: as device.h. */
#include "engine/device/device_priv.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/device/device_list.h"
#include "engine/device/queue.h"
#include "engine/device/ranks_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICE_MIN_SM 80
#define DEVICE_MARGIN 64 /* a part of the memory that the driver is left, for kernels and its own */

static struct device device_the_cpu = { .name = "cpu" };

struct device *device_cpu(void)
{
	return &device_the_cpu;
}

/* ---- names ---- */

static int device_parse(const char *name, struct device_list *ret_l, struct buf *why)
{
	int rc = device_list_parse(name, ret_l, why);

	if (rc == 0 && ret_l->n > 1)
		rc = buf_why(why, RC_UNSUPPORTED, "device %s: one GPU can be had here; name one, as cuda:%d", name,
			     ret_l->gpu[0]);
	return rc;
}

/* ---- errors ---- */

static _Thread_local void *device_current; /* the calling thread's context */

void device_enter(const struct device *d)
{
	if (device_current == d->context)
		return;
	device_current = d->context;
	(void)d->cu->context_set(d->context);
}

void device_leave(void)
{
	device_current = NULL;
}

/* After which nothing in the context runs any more, as the driver's manual has it. */
static bool device_sticky(int rc)
{
	switch (rc) {
	case CUDA_DEVICE_UNAVAILABLE:
	case CUDA_ECC_UNCORRECTABLE:
	case CUDA_NVLINK_UNCORRECTABLE:
	case CUDA_CONTAINED:
	case CUDA_ILLEGAL_ADDRESS:
	case CUDA_LAUNCH_TIMEOUT:
	case CUDA_CONTEXT_DESTROYED:
	case CUDA_ASSERT:
	case CUDA_TENSOR_MEMORY_LEAK:
	case CUDA_UNKNOWN:
		return true;
	default:
		return rc >= CUDA_HARDWARE_STACK && rc <= CUDA_LAUNCH_FAILED;
	}
}

int device_result(struct device *d, int rc, const char *what, struct buf *why)
{
	struct buf words = { 0 };

	if (rc == CUDA_OK)
		return 0;
	buf_printf(&words, "%s: %s: ", d->name, what);
	cuda_error_put(d->cu, rc, &words);
	if (device_sticky(rc))
		device_break(d, buf_str(&words));
	rc = buf_why(why, rc == CUDA_NO_MEMORY ? -ENOMEM : RC_DEVICE, "%s", buf_str(&words));
	buf_fini(&words);
	return rc;
}

void device_break(struct device *d, const char *why)
{
	atomic_store(&d->broken, true);
	if (d->ranks)
		ranks_break(d->ranks, d->rank, why);
}

int device_lost(const struct device *d, struct buf *why)
{
	struct buf words = { 0 };

	if (d->ranks && !ranks_blame(d->ranks, d->rank, &words))
		(void)buf_why(why, RC_DEVICE, "%s stops: %s", d->name, buf_str(&words));
	else
		(void)buf_why(why, RC_DEVICE, "%s is lost", d->name);
	buf_fini(&words);
	return RC_DEVICE;
}

bool device_broken(const struct device *d)
{
	return atomic_load(&d->broken);
}

/* ---- opening ---- */

static int device_attribute(const struct device *d, enum cuda_attribute a)
{
	int value = 0;

	return d->cu->device_attribute(&value, (int)a, d->id) == CUDA_OK ? value : 0;
}

static int device_lacks(const struct device *d, struct buf *why)
{
	if (d->gpu.sm < DEVICE_MIN_SM)
		return buf_why(why, RC_UNAVAILABLE, "%s (%s) has compute capability %d.%d; %d.%d is needed", d->name,
			       d->model, d->major, d->minor, DEVICE_MIN_SM / 10, DEVICE_MIN_SM % 10);
	if (!device_attribute(d, CUDA_CONCURRENT_MANAGED))
		return buf_why(why, RC_UNAVAILABLE, "%s (%s) does not share managed memory with a host that runs",
			       d->name, d->model);
	return 0;
}

static int device_find(struct device *d, struct buf *why)
{
	int n = 0, rc = d->cu->device_count(&n);

	if (rc == CUDA_OK && d->ordinal >= n)
		return buf_why(why, RC_UNAVAILABLE, "%s: the driver has %d GPU%s", d->name, n, n == 1 ? "" : "s");
	rc = rc ? rc : d->cu->device_get(&d->id, d->ordinal);
	rc = rc ? rc : d->cu->device_name(d->model, (int)sizeof d->model, d->id);
	if (rc) {
		(void)device_result(d, rc, "no GPU", why);
		return RC_UNAVAILABLE;
	}
	d->major = device_attribute(d, CUDA_MAJOR);
	d->minor = device_attribute(d, CUDA_MINOR);
	d->gpu.sm = d->major * 10 + d->minor;
	d->gpu.n_sm = device_attribute(d, CUDA_N_SM);
	d->gpu.shared_max = (size_t)device_attribute(d, CUDA_SHARED_OPTIN);
	return device_lacks(d, why);
}

int device_measure(struct device *d, struct buf *why)
{
	size_t free_bytes = 0, total = 0;
	int rc;

	device_enter(d);
	device_memory_trim(d);
	must(atomic_load(&d->taken) == 0);
	rc = d->cu->mem_info(&free_bytes, &total);
	if (rc) {
		(void)device_result(d, rc, "no memory", why);
		return RC_UNAVAILABLE;
	}
	d->total = total;
	d->at_open = free_bytes;
	d->usable = free_bytes - (free_bytes < total / DEVICE_MARGIN ? free_bytes : total / DEVICE_MARGIN);
	return 0;
}

static int device_start(struct device *d, struct buf *why)
{
	void *context;
	int rc = d->cu->context_retain(&context, d->id);

	if (rc) {
		(void)device_result(d, rc, "no context", why);
		return RC_UNAVAILABLE;
	}
	d->context = context;
	return device_measure(d, why);
}

int device_open(const char *name, struct device **ret_d, struct buf *why)
{
	struct device_list l;
	struct device *d;
	int rc = device_parse(name, &l, why);

	if (rc)
		return rc;
	if (l.n == 0) {
		*ret_d = device_cpu();
		return 0;
	}
	d = mem_new(sizeof *d);
	d->ordinal = l.gpu[0];
	snprintf(d->name, sizeof d->name, "cuda:%d", d->ordinal);
	device_memory_init(d);
	device_code_init(d);
	must_zero(pthread_mutex_init(&d->why_mutex, NULL));
	rc = cuda_driver(&d->cu, why);
	rc = rc ? rc : device_find(d, why);
	rc = rc ? rc : device_start(d, why);
	if (rc)
		device_close(&d);
	else
		*ret_d = d;
	return rc;
}

void device_close(struct device **pd)
{
	struct device *d = *pd;

	*pd = NULL;
	if (!d || d == device_cpu())
		return;
	queue_free(&d->loader);
	device_code_fini(d);
	device_weights_fini(d);
	device_memory_fini(d);
	if (d->context) {
		device_current = NULL; /* the next one opened may have the same address */
		(void)d->cu->context_set(NULL);
		(void)d->cu->context_release(d->id);
	}
	must_zero(pthread_mutex_destroy(&d->why_mutex));
	free(d);
}

/* ---- looking ---- */

const char *device_name(const struct device *d)
{
	return d->name;
}

bool device_is_gpu(const struct device *d)
{
	return d->cu != NULL;
}

/* "sm_80": any of capability 8.0 or later; "sm_90a": 9.0 alone, whose code runs nowhere else. */
static bool device_has_one(const struct device *d, const char *word, size_t len)
{
	int sm = 0, end = 0;

	if (sscanf(word, "sm_%4d%n", &sm, &end) != 1)
		return false;
	if ((size_t)end == len)
		return d->gpu.sm >= sm;
	return (size_t)end + 1 == len && word[end] == 'a' && d->gpu.sm == sm;
}

bool device_has(const struct device *d, const char *features, struct buf *ret_lacks)
{
	while (*features) {
		size_t len = strcspn(features, " ");

		if (!device_is_gpu(d) || !device_has_one(d, features, len)) {
			if (ret_lacks)
				buf_add(ret_lacks, features, len);
			return false;
		}
		features += len + (features[len] == ' ');
	}
	return true;
}

void device_count_experts(struct device *d, int slots, uint64_t hits, uint64_t misses)
{
	atomic_fetch_add(&d->expert_slots, slots);
	atomic_fetch_add(&d->expert_hits, hits);
	atomic_fetch_add(&d->expert_misses, misses);
}

void device_kind(const struct device *d, struct buf *out)
{
	int driver = 0;

	if (!device_is_gpu(d))
		return;
	(void)d->cu->version(&driver);
	buf_printf(out, "%s, sm_%d, driver %d", d->model, d->gpu.sm, driver);
}

void device_view(struct device *d, struct device_view *ret_v)
{
	size_t free_bytes = 0, total = 0;
	uint64_t left;

	*ret_v = (struct device_view){ .sm = d->gpu.sm };
	if (!device_is_gpu(d))
		return;
	device_enter(d);
	left = d->at_open - atomic_load(&d->taken); /* the driver does not count managed memory that
						     * lies with the host */
	if (!device_broken(d) && d->cu->mem_info(&free_bytes, &total) == CUDA_OK)
		ret_v->free = free_bytes < left ? free_bytes : left;
	snprintf(ret_v->model, sizeof ret_v->model, "%s", d->model);
	ret_v->total = d->total;
	ret_v->weights = d->weights.bytes;
	ret_v->experts_host = d->weights.host_bytes;
	ret_v->pinned = atomic_load(&d->pinned);
	must_zero(pthread_mutex_lock(&d->memory.mutex));
	ret_v->work = d->memory.bytes;
	must_zero(pthread_mutex_unlock(&d->memory.mutex));
	ret_v->expert_slots = (uint64_t)atomic_load(&d->expert_slots);
	ret_v->expert_slot_bytes = atomic_load(&d->plain);
	ret_v->expert_hits = atomic_load(&d->expert_hits);
	ret_v->expert_misses = atomic_load(&d->expert_misses);
	ret_v->graph_steps = atomic_load(&d->graph_steps);
	ret_v->graphs = atomic_load(&d->graphs);
	ret_v->plain_steps = atomic_load(&d->plain_steps);
	ret_v->graph_nodes = atomic_load(&d->graph_nodes);
	must_zero(pthread_mutex_lock(&d->why_mutex));
	memcpy(ret_v->graph_why, d->graph_why, sizeof ret_v->graph_why);
	must_zero(pthread_mutex_unlock(&d->why_mutex));
}
