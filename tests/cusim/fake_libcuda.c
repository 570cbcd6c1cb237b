/* SPDX-License-Identifier: MIT
 * fake_libcuda.c - a driver for tests: devices, contexts, code. Becomes libcuda.so.1, found by LD_LIBRARY_PATH, never
 * installed.
 * Threads: any; every call takes the one lock.
 *
 * CUSIM_DRIVER=13000, its version; CUSIM_DEVICES=2, CUSIM_SM=90 (or 90,80); of each CUSIM_MEMORY=BYTES,
 * CUSIM_MANAGED=BYTES that can be had of managed memory, CUSIM_PINNED=BYTES of the host's; CUSIM_LOSE_AT=N: the Nth
 * launch loses its device; CUSIM_NO_CAPTURE=N, CUSIM_NO_GRAPH=N: device N has no memory for graphs. README.md has
 * NCCL's and the simulator's own, too. What the simulator finds loses a device, too. */
#include "tests/cusim/fake_priv.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define FN(field, symbol, params) EXPORT int symbol params;
#include "engine/device/cuda_driver.def"
#undef FN

struct fake_module { int unused; };
struct fake_function {
	const struct cusim_kernel *kernel;
	struct fake_function *next;
	int shared;                 /* the most dynamic shared memory of a launch */
};

static pthread_mutex_t fake_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t fake_left = PTHREAD_COND_INITIALIZER;
static struct fake_device fake_devices[FAKE_MAX_DEVICES];
static int fake_n_device = -1;      /* before cuInit() */
static _Thread_local struct fake_device *fake_current;

static long fake_setting(const char *name, long otherwise)
{
	const char *text = getenv(name);

	return text && *text ? strtol(text, NULL, 10) : otherwise;
}

struct fake_device *fake_enter(int *ret_rc)
{
	pthread_mutex_lock(&fake_mutex);
	*ret_rc = fake_n_device < 0 ? FAKE_NOT_INITIALIZED : !fake_current ? FAKE_INVALID_CONTEXT : fake_current->failed;
	return *ret_rc ? NULL : fake_current;
}

void fake_leave(void)
{
	pthread_cond_broadcast(&fake_left);
	pthread_mutex_unlock(&fake_mutex);
}

void fake_wait(void)
{
	pthread_cond_broadcast(&fake_left);
	pthread_cond_wait(&fake_left, &fake_mutex);
}

int fake_device_number(const struct fake_device *d)
{
	return (int)(d - fake_devices);
}

struct fake_device *fake_device(int i)
{
	return i >= 0 && i < fake_n_device ? &fake_devices[i] : NULL;
}

/* ---- the driver ---- */

int cuInit(unsigned flags)
{
	long n = fake_setting("CUSIM_DEVICES", 1);

	(void)flags;
	pthread_mutex_lock(&fake_mutex);
	if (fake_n_device < 0 && n > 0) {
		fake_n_device = n < FAKE_MAX_DEVICES ? (int)n : FAKE_MAX_DEVICES;
		for (int i = 0; i < fake_n_device; i++) {
			struct fake_device *d = &fake_devices[i];

			d->total = (uint64_t)fake_setting("CUSIM_MEMORY", 8l << 30);
			d->managed = (uint64_t)fake_setting("CUSIM_MANAGED", (long)d->total);
			d->most_pinned = (uint64_t)fake_setting("CUSIM_PINNED", 64l << 30);
		}
	}
	pthread_mutex_unlock(&fake_mutex);
	return n > 0 ? CUDA_OK : CUDA_NO_DEVICE;
}

int cuDriverGetVersion(int *version)
{
	*version = (int)fake_setting("CUSIM_DRIVER", 13000);
	return CUDA_OK;
}

static const struct { int rc; const char *name, *text; } fake_errors[] = {
	{ CUDA_OK, "CUDA_SUCCESS", "no error" },
	{ CUDA_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument" },
	{ CUDA_NO_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory" },
	{ FAKE_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error" },
	{ CUDA_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected" },
	{ FAKE_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal" },
	{ CUDA_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid" },
	{ FAKE_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context" },
	{ FAKE_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle" },
	{ CUDA_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found" },
	{ CUDA_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered" },
	{ CUDA_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure" },
	{ FAKE_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing" },
	{ CUDA_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture" },
	{ CUDA_GRAPH_UPDATE_FAILED, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", "the graph update was not performed" },
};

static int fake_error(int rc, const char **name, const char **text)
{
	for (size_t i = 0; i < sizeof fake_errors / sizeof *fake_errors; i++)
		if (fake_errors[i].rc == rc) {
			*name = fake_errors[i].name;
			*text = fake_errors[i].text;
			return CUDA_OK;
		}
	return CUDA_INVALID_VALUE;
}

int cuGetErrorName(int rc, const char **name)
{
	const char *text;

	return fake_error(rc, name, &text);
}

int cuGetErrorString(int rc, const char **text)
{
	const char *name;

	return fake_error(rc, &name, text);
}

/* ---- devices and contexts ---- */

int cuDeviceGetCount(int *n)
{
	*n = fake_n_device;
	return fake_n_device < 0 ? FAKE_NOT_INITIALIZED : CUDA_OK;
}

int cuDeviceGet(int *device, int ordinal)
{
	if (!fake_device(ordinal))
		return FAKE_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_OK;
}

int cuDeviceGetName(char *name, int len, int device)
{
	if (!fake_device(device))
		return FAKE_INVALID_DEVICE;
	snprintf(name, (size_t)len, "cusim, no GPU");
	return CUDA_OK;
}

/* One number for all, or one after another. */
static int fake_sm(int device)
{
	const char *text = getenv("CUSIM_SM");
	int sm = 90;

	for (int i = 0; i <= device && text && *text; i++) {
		char *end;

		sm = (int)strtol(text, &end, 10);
		text = *end ? end + 1 : end;
	}
	return sm;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	int sm = fake_sm(device);

	if (!fake_device(device))
		return FAKE_INVALID_DEVICE;
	switch (attribute) {
	case CUDA_N_SM:
		*value = 4;
		break;
	case CUDA_MAJOR:
		*value = sm / 10;
		break;
	case CUDA_MINOR:
		*value = sm % 10;
		break;
	case CUDA_MANAGED:
	case CUDA_CONCURRENT_MANAGED:
		*value = 1;
		break;
	case CUDA_SHARED_OPTIN:
		*value = CUSIM_MAX_SHARED;
		break;
	default:
		*value = 0;
	}
	return CUDA_OK;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
	if (!fake_device(device))
		return FAKE_INVALID_DEVICE;
	pthread_mutex_lock(&fake_mutex);
	fake_devices[device].retained++;
	pthread_mutex_unlock(&fake_mutex);
	*context = fake_device(device);
	return CUDA_OK;
}

/* The last release ends a broken context: who retains it again has a sound one. */
int cuDevicePrimaryCtxRelease_v2(int device)
{
	int rc = CUDA_OK;

	if (!fake_device(device))
		return FAKE_INVALID_DEVICE;
	pthread_mutex_lock(&fake_mutex);
	if (fake_devices[device].retained == 0)
		rc = FAKE_INVALID_CONTEXT;
	else if (--fake_devices[device].retained == 0)
		fake_devices[device].failed = 0;
	pthread_mutex_unlock(&fake_mutex);
	return rc;
}

int cuCtxSetCurrent(void *context)
{
	fake_current = context;
	return CUDA_OK;
}

/* ---- code ---- */

/* What the file holds is not looked into: its kernels are in this library, compiled for the simulator. */
static bool fake_image(const void *image)
{
	static const unsigned char fatbin[] = { 0x50, 0xed, 0x55, 0xba };

	return !memcmp(image, fatbin, 4) || !memcmp(image, "\177ELF", 4) || !memcmp(image, "//", 2) ||
	       !memcmp(image, "cusim", 5);
}

int cuModuleLoadDataEx(void **module, const void *image, unsigned n_option, const int *option, void **value)
{
	int rc;

	(void)n_option;
	(void)option;
	(void)value;
	if (fake_enter(&rc) && !fake_image(image))
		rc = CUDA_INVALID_IMAGE;
	if (!rc)
		*module = calloc(1, sizeof(struct fake_module));
	fake_leave();
	return rc;
}

int cuModuleUnload(void *module)
{
	int rc;
	struct fake_device *d = fake_enter(&rc);

	if (d)
		fake_queue_drain(d);
	free(module);
	fake_leave();
	return rc;
}

/* Functions are the library's, for ever. */
static struct fake_function *fake_function(const char *name)
{
	static struct fake_function *all;
	static void *self;
	const struct cusim_kernel *k;
	Dl_info info;

	for (struct fake_function *f = all; f; f = f->next)
		if (!strcmp(f->kernel->name, name))
			return f;
	if (!self && dladdr((void *)&fake_devices, &info))
		self = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
	k = self ? dlsym(self, name) : NULL;
	if (!k || (const void *)k->call == NULL)
		return NULL;
	struct fake_function *f = calloc(1, sizeof *f);

	*f = (struct fake_function){ .kernel = k, .next = all, .shared = FAKE_SHARED_PLAIN };
	return all = f;
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
	int rc;

	(void)module;
	if (fake_enter(&rc)) {
		*function = fake_function(name);
		rc = *function ? CUDA_OK : CUDA_NOT_FOUND;
	}
	fake_leave();
	return rc;
}

int cuFuncSetAttribute(void *function, int attribute, int value)
{
	struct fake_function *f = function;

	if (attribute != CUDA_FUNCTION_SHARED || value < 0 || value > CUSIM_MAX_SHARED)
		return CUDA_INVALID_VALUE;
	if (value > f->shared)
		f->shared = value;
	return CUDA_OK;
}

int cuFuncGetAttribute(int *value, int attribute, void *function)
{
	const struct fake_function *f = function;

	*value = attribute == 0 ? (int)f->kernel->threads : attribute == CUDA_FUNCTION_SHARED ? f->shared : 0;
	return CUDA_OK;
}

bool fake_function_takes(const void *function, uint32_t shared, const struct cusim_kernel **ret_k)
{
	const struct fake_function *f = function;

	*ret_k = f->kernel;
	return shared <= (uint32_t)f->shared;
}
