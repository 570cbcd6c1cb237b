/* SPDX-License-Identifier: MIT
 * nccl.c - NCCL's functions in a table, by dlopen only.
 * Threads: any, after the first nccl_library(). Locks: none (pthread_once). */
#include "engine/device/nccl.h"
#include "engine/base/rc.h"

#include <dlfcn.h>
#include <pthread.h>

#define NCCL_LIBRARY "libnccl.so.2"
#define NCCL_OLDEST 21800               /* 2.18: gathers in graphs that are updated, one communicator per thread */

static struct nccl_library nccl_table;
static struct buf nccl_why;             /* not empty: why there is none */

/* Stays loaded: it has threads of its own. */
static void nccl_load(void)
{
	void *lib = dlopen(NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
	int version = 0;

	if (!lib) {
		buf_printf(&nccl_why, "no NCCL: %s", dlerror());
		return;
	}
#define FN(type, field, symbol, params) \
	*(void **)&nccl_table.field = dlsym(lib, #symbol); \
	if (!nccl_table.field && !nccl_why.len) \
		buf_printf(&nccl_why, "NCCL is too old: " NCCL_LIBRARY " has no " #symbol);
#include "engine/device/nccl.def"
#undef FN
	if (!nccl_why.len && (nccl_table.version(&version) != NCCL_OK || version < NCCL_OLDEST))
		buf_printf(&nccl_why, "NCCL is too old: " NCCL_LIBRARY " is version %d; %d is needed", version,
			   NCCL_OLDEST);
}

int nccl_library(const struct nccl_library **ret_nccl, struct buf *why)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, nccl_load);
	if (nccl_why.len)
		return buf_why(why, RC_UNAVAILABLE, "%s", buf_str(&nccl_why));
	*ret_nccl = &nccl_table;
	return 0;
}
