/* SPDX-License-Identifier: MIT
 * device_code.c - loaded kernels: the GPU half of the table that plugins get.
 * Threads: ops loads and unloads, who drives a queue launches on it. Lock: of the list of modules, a leaf. */
#include "engine/device/queue_priv.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#define DEVICE_LOG 2048          /* bytes of the compiler's words */
#define DEVICE_MAX_ARGS 4096

struct dsv4_kernel {
	struct dsv4_kernel *next;
	struct dsv4_module *module;
	void *function;
};

struct dsv4_module {
	struct list link;
	const struct dsv4_host *host; /* whose */
	void *module;
	struct dsv4_kernel *kernels;
};

static struct device *device_of_gpu(const struct dsv4_gpu *g)
{
	return list_entry((struct dsv4_gpu *)(uintptr_t)g, struct device, gpu);
}

static void device_log(struct device *d, const struct dsv4_host *host, int rc, const char *what, const char *more)
{
	struct buf words = { 0 };

	buf_printf(&words, "%s: %s: ", d->name, what);
	cuda_error_put(d->cu, rc, &words);
	if (*more)
		buf_printf(&words, ": %s", more);
	if (host->log)
		host->log(host, LOG_ERR, buf_str(&words));
	buf_fini(&words);
}

/* ---- loading ---- */

static int device_module(const struct dsv4_host *host, const void *image, struct dsv4_module **ret_m)
{
	struct device *d = device_of_gpu(host->gpu);
	char *log = mem_new(DEVICE_LOG);
	const int option[] = { CUDA_JIT_ERROR_LOG, CUDA_JIT_ERROR_SIZE };
	void *value[] = { log, (void *)(uintptr_t)(DEVICE_LOG - 1) };
	struct dsv4_module *m;
	void *module = NULL;
	int rc;

	device_enter(d);
	rc = d->cu->module_load(&module, image, 2, option, value);
	if (rc)
		device_log(d, host, rc, "code is not loaded", log);
	free(log);
	if (rc)
		return rc == CUDA_NO_BINARY || rc == CUDA_UNSUPPORTED_PTX ? -ENOEXEC : rc == CUDA_NO_MEMORY ? -ENOMEM :
			-EINVAL;
	m = mem_new(sizeof *m);
	m->host = host;
	m->module = module;
	must_zero(pthread_mutex_lock(&d->code_mutex));
	list_put(&d->modules, &m->link);
	must_zero(pthread_mutex_unlock(&d->code_mutex));
	*ret_m = m;
	return 0;
}

static int device_kernel(const struct dsv4_host *host, struct dsv4_module *m, const char *name, uint32_t shared,
	struct dsv4_kernel **ret_k)
{
	struct device *d = device_of_gpu(host->gpu);
	struct dsv4_kernel *k;
	void *function = NULL;
	int rc;

	device_enter(d);
	rc = d->cu->function(&function, m->module, name);
	if (rc == CUDA_OK && shared > 0)
		rc = d->cu->function_set(function, CUDA_FUNCTION_SHARED, (int)shared);
	if (rc) {
		device_log(d, host, rc, "no kernel", name);
		return rc == CUDA_NOT_FOUND ? -ENOENT : -EINVAL;
	}
	k = mem_new(sizeof *k);
	*k = (struct dsv4_kernel){ m->kernels, m, function };
	m->kernels = k;
	*ret_k = k;
	return 0;
}

static void device_module_free(struct device *d, struct dsv4_module *m)
{
	while (m->kernels) {
		struct dsv4_kernel *k = m->kernels;

		m->kernels = k->next;
		free(k);
	}
	(void)d->cu->module_unload(m->module);
	free(m);
}

void device_unload(struct device *d, const struct dsv4_host *host)
{
	struct list gone, *at, *next;

	if (!device_is_gpu(d))
		return;
	list_init(&gone);
	must_zero(pthread_mutex_lock(&d->code_mutex));
	for (at = d->modules.next; at != &d->modules; at = next) {
		next = at->next;
		if (host && list_entry(at, struct dsv4_module, link)->host != host)
			continue;
		list_del(at);
		list_put(&gone, at);
	}
	must_zero(pthread_mutex_unlock(&d->code_mutex));
	if (d->context)
		device_enter(d);
	while (!list_empty(&gone)) {
		struct dsv4_module *m = list_entry(gone.next, struct dsv4_module, link);

		list_del(&m->link);
		device_module_free(d, m);
	}
}

/* ---- running ---- */

static struct queue *device_queue(struct dsv4_exec *x)
{
	return (struct queue *)(void *)x;
}

static int device_launch(struct dsv4_exec *x, struct dsv4_kernel *k, const struct dsv4_launch *l)
{
	struct queue *q = device_queue(x);
	void *params[] = { (void *)(uintptr_t)l->args };
	int rc;

	if (l->args_bytes > DEVICE_MAX_ARGS)
		return -EIO;
	if (!l->grid[0] || !l->grid[1] || !l->grid[2])
		return 0;
	queue_begin(q);
	rc = q->device->cu->launch(k->function, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
				   l->block[2], l->shared, q->stream, params, NULL);
	if (rc == CUDA_OK)
		return 0;
	device_log(q->device, k->module->host, rc, "a launch was refused", "");
	queue_result(q, rc, "a launch");
	return -EIO;
}

static const void *device_upload(struct dsv4_exec *x, const void *p, size_t bytes)
{
	struct queue *q = device_queue(x);
	void *staged = queue_stage(q, NULL, bytes), *there = queue_arena_take(q, &q->scratch, bytes, NULL);

	if (!staged || !there)
		return NULL;
	memcpy(staged, p, bytes);
	queue_put(q, there, staged, bytes);
	return there;
}

void *device_scratch(struct dsv4_exec *x, size_t bytes)
{
	struct queue *q = device_queue(x);

	device_enter(q->device);
	return queue_arena_take(q, &q->scratch, bytes, NULL);
}

/* ---- life ---- */

void device_code_init(struct device *d)
{
	d->gpu = (struct dsv4_gpu){ .size = sizeof d->gpu, .module = device_module, .kernel = device_kernel,
				    .launch = device_launch, .upload = device_upload };
	list_init(&d->modules);
	must_zero(pthread_mutex_init(&d->code_mutex, NULL));
}

void device_code_fini(struct device *d)
{
	device_unload(d, NULL);
	must_zero(pthread_mutex_destroy(&d->code_mutex));
}

const struct dsv4_gpu *device_gpu(const struct device *d)
{
	return device_is_gpu(d) ? &d->gpu : NULL;
}
