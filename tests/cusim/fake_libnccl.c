/* SPDX-License-Identifier: MIT
 * fake_libnccl.c - NCCL for tests, over the stand-in driver. Becomes libnccl.so.2, found by LD_LIBRARY_PATH, never installed.
 * Threads: any. Locks: the driver's.
 *
 * A communicator is ended as NCCL does it: aborting and destroying wait for graphs that gather, destroying for all ranks.
 * CUSIM_NCCL_FAIL_AT=N: the Nth gather that a rank asks for is refused. CUSIM_NCCL_HANG=1: who connects waits for ever.
 * CUSIM_NCCL_MEMORY=BYTES: what it takes of each device. */
#include "engine/device/cuda_driver.h"
#include "engine/device/nccl.h"
#include "tests/cusim/cusim_meet.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define FN(type, field, symbol, params) EXPORT type symbol params;
#include "engine/device/nccl.def"
#undef FN
#define FN(field, symbol, params) int symbol params;
#include "engine/device/cuda_driver.def"
#undef FN

/* Results that nccl.h has no use for. */
enum { FAKE_CUDA_ERROR = 1, FAKE_SYSTEM_ERROR = 2, FAKE_INVALID_ARGUMENT = 4 };

struct fake_comm {
	struct cusim_meet *meet;
	int rank;
};

int ncclGetVersion(int *version)
{
	*version = 22809;
	return NCCL_OK;
}

const char *ncclGetErrorString(int rc)
{
	switch (rc) {
	case NCCL_OK:
		return "no error";
	case FAKE_CUDA_ERROR:
		return "unhandled cuda error";
	case FAKE_SYSTEM_ERROR:
		return "unhandled system error";
	case FAKE_INVALID_ARGUMENT:
		return "invalid argument";
	default:
		return "unknown result code";
	}
}

/* Kept until the process ends; and another device is the thread's from now on, as NCCL leaves it. */
static int fake_take_memory(const int *device, int n)
{
	const char *setting = getenv("CUSIM_NCCL_MEMORY");
	void *context;
	uint64_t p;
	int rc = 0;

	for (int i = 0; setting && i < n && rc == 0; i++) {
		rc = cuDevicePrimaryCtxRetain(&context, device[i]);
		rc = rc ? rc : cuCtxSetCurrent(context);
		rc = rc ? rc : cuMemAlloc_v2(&p, strtoul(setting, NULL, 10));
	}
	return rc;
}

int ncclCommInitAll(void **comm, int n, const int *device)
{
	struct cusim_meet *m;

	while (getenv("CUSIM_NCCL_HANG"))
		(void)pause();
	m = fake_take_memory(device, n) ? NULL : cusim_meet_new(n, device);
	if (!m)
		return FAKE_INVALID_ARGUMENT;
	for (int i = 0; i < n; i++) {
		struct fake_comm *c = calloc(1, sizeof *c);

		*c = (struct fake_comm){ m, i };
		comm[i] = c;
	}
	return NCCL_OK;
}

int ncclCommGetAsyncError(void *comm, int *rc)
{
	(void)comm;
	*rc = NCCL_OK;
	return NCCL_OK;
}

int ncclCommDestroy(void *comm)
{
	const struct fake_comm *c = comm;

	cusim_meet_leave(c->meet, c->rank, 1);
	free(comm);
	return NCCL_OK;
}

int ncclCommAbort(void *comm)
{
	const struct fake_comm *c = comm;

	cusim_meet_abort(c->meet, c->rank);
	cusim_meet_leave(c->meet, c->rank, 0);
	free(comm);
	return NCCL_OK;
}

/* Nothing here waits for the other ranks before it is queued, so that there is nothing to put off. */
int ncclGroupStart(void)
{
	return NCCL_OK;
}

int ncclGroupEnd(void)
{
	return NCCL_OK;
}

int ncclAllGather(const void *src, void *dst, size_t n, int type, void *comm, void *stream)
{
	static atomic_long asked;
	const char *fail = getenv("CUSIM_NCCL_FAIL_AT");
	const struct fake_comm *c = comm;

	if (type != NCCL_BYTE)
		return FAKE_INVALID_ARGUMENT;
	if (fail && atomic_fetch_add(&asked, 1) + 1 == strtol(fail, NULL, 10))
		return FAKE_SYSTEM_ERROR;
	return cusim_meet_gather(c->meet, c->rank, dst, src, n, stream) ? FAKE_CUDA_ERROR : NCCL_OK;
}
