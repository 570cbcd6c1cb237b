/* SPDX-License-Identifier: MIT
 * cuda_driver.c - the driver's functions in a table, by dlopen only.
 * Threads: any, after the first cuda_driver(). Locks: none (pthread_once). */
#include "engine/device/cuda_driver.h"
#include "engine/base/rc.h"

#include <dlfcn.h>
#include <pthread.h>

#define CUDA_DRIVER_LIBRARY "libcuda.so.1"

static struct cuda_driver cuda_driver_table;
static struct buf cuda_driver_why;      /* not empty: why there is none */

static void cuda_driver_say(int rc, const char *what)
{
	buf_printf(&cuda_driver_why, "%s: ", what);
	cuda_error_put(&cuda_driver_table, rc, &cuda_driver_why);
}

/* Stays loaded: what it has started in the process cannot be stopped. */
static void cuda_driver_load(void)
{
	void *lib = dlopen(CUDA_DRIVER_LIBRARY, RTLD_NOW | RTLD_LOCAL);
	int rc;

	if (!lib) {
		buf_printf(&cuda_driver_why, "no NVIDIA driver: %s", dlerror());
		return;
	}
#define FN(field, symbol, params) \
	*(void **)&cuda_driver_table.field = dlsym(lib, #symbol); \
	if (!cuda_driver_table.field && !cuda_driver_why.len) \
		buf_printf(&cuda_driver_why, "the NVIDIA driver is too old: " CUDA_DRIVER_LIBRARY " has no " #symbol);
#include "engine/device/cuda_driver.def"
#undef FN
	if (cuda_driver_why.len)
		return;
	rc = cuda_driver_table.init(0);
	if (rc)
		cuda_driver_say(rc, "the NVIDIA driver does not start");
}

int cuda_driver(const struct cuda_driver **ret_cu, struct buf *why)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, cuda_driver_load);
	if (cuda_driver_why.len)
		return buf_why(why, RC_UNAVAILABLE, "%s", buf_str(&cuda_driver_why));
	*ret_cu = &cuda_driver_table;
	return 0;
}

void cuda_error_put(const struct cuda_driver *cu, int rc, struct buf *out)
{
	const char *name = NULL, *text = NULL;

	if (cu->error_name(rc, &name) != CUDA_OK || !name)
		name = "CUDA error";
	if (cu->error_text(rc, &text) != CUDA_OK || !text)
		text = "unknown";
	buf_printf(out, "%s (%s)", name, text);
}
