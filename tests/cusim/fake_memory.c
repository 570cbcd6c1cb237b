/* SPDX-License-Identifier: MIT
 * fake_memory.c - the stand-in driver's memory: the host's, with an owner and a kind.
 * Threads: any; every call takes the one lock.
 *
 * A host that looks into device memory dies, as it would with a GPU: it is mapped only while work runs. All memory is full
 * of 0xff at first. */
#include "tests/cusim/fake_priv.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORT __attribute__((visibility("default")))
#define FN(field, symbol, params) EXPORT int symbol params;
#include "engine/device/cuda_driver.def"
#undef FN

#define FAKE_PAGE 4096
#define FAKE_GAP 256            /* beyond an allocation, so that the next one is not what a kernel lands in */

struct fake_block {
	char *p;
	size_t bytes, mapped;
	enum fake_memory_kind kind;
	struct fake_device *device;
};
static struct fake_block *fake_blocks;  /* [fake_n_block] by address */
static size_t fake_n_block, fake_max_block;

/* ---- device memory is the device's ---- */

static void fake_memory_protect(int prot)
{
	for (size_t i = 0; i < fake_n_block; i++)
		if (fake_blocks[i].kind == FAKE_DEVICE)
			mprotect(fake_blocks[i].p, fake_blocks[i].mapped, prot);
}

static int fake_memory_shown;

void fake_memory_show(void)
{
	if (fake_memory_shown++ == 0)
		fake_memory_protect(PROT_READ | PROT_WRITE);
}

void fake_memory_hide(void)
{
	if (--fake_memory_shown == 0)
		fake_memory_protect(PROT_NONE);
}

/* ---- blocks ---- */

/* How many begin at or before p. */
static size_t fake_memory_upto(const void *p)
{
	size_t lo = 0, hi = fake_n_block;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if ((uintptr_t)fake_blocks[mid].p <= (uintptr_t)p)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static struct fake_block *fake_memory_find(const void *p)
{
	size_t i = fake_memory_upto(p);

	return i && (uintptr_t)p - (uintptr_t)fake_blocks[i - 1].p < fake_blocks[i - 1].bytes ? &fake_blocks[i - 1] : NULL;
}

enum fake_memory_kind fake_memory_kind(const void *p)
{
	const struct fake_block *b = fake_memory_find(p);

	return b ? b->kind : FAKE_PAGEABLE;
}

const struct fake_device *fake_memory_owner(const void *p)
{
	const struct fake_block *b = fake_memory_find(p);

	return b && b->kind == FAKE_DEVICE ? b->device : NULL;
}

static void fake_memory_enter(const struct fake_block *b)
{
	size_t i = fake_memory_upto(b->p);

	if (fake_n_block == fake_max_block) {
		fake_max_block = fake_max_block ? 2 * fake_max_block : 256;
		fake_blocks = realloc(fake_blocks, fake_max_block * sizeof *fake_blocks);
		if (!fake_blocks)
			abort();
	}
	memmove(fake_blocks + i + 1, fake_blocks + i, (fake_n_block - i) * sizeof *fake_blocks);
	fake_blocks[i] = *b;
	fake_n_block++;
	cusim_memory_add(b->p, b->bytes, b->kind != FAKE_DEVICE);
	if (b->kind == FAKE_DEVICE)
		cusim_memory_own(b->p, b->bytes, fake_device_number(b->device));
}

static void fake_memory_remove(struct fake_block *b)
{
	cusim_memory_drop(b->p);
	*(b->kind == FAKE_PINNED ? &b->device->pinned : &b->device->used) -= b->bytes;
	if (b->mapped)
		munmap(b->p, b->mapped);
	else
		free(b->p);
	memmove(b, b + 1, (size_t)(fake_blocks + fake_n_block - b - 1) * sizeof *b);
	fake_n_block--;
}

static char *fake_memory_map(size_t bytes, size_t *ret_mapped)
{
	size_t all = (bytes + FAKE_GAP + FAKE_PAGE - 1) / FAKE_PAGE * FAKE_PAGE;
	char *p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	memset(p, 0xff, bytes);
	*ret_mapped = all;
	return p;
}

/* Managed memory may be more than the device has: a driver moves pages. */
static bool fake_memory_short(const struct fake_device *d, enum fake_memory_kind kind, size_t bytes)
{
	uint64_t used = kind == FAKE_PINNED ? d->pinned : d->used;
	uint64_t most = kind == FAKE_PINNED ? d->most_pinned : kind == FAKE_MANAGED ? d->managed : d->total;

	return used > most || bytes > most - used;
}

/* Small pieces that the host may see come from malloc. */
static int fake_memory_new(enum fake_memory_kind kind, size_t bytes, void **ret_p)
{
	struct fake_block b = { .kind = kind, .bytes = bytes };
	int rc;

	b.device = fake_enter(&rc);
	if (!rc && !bytes)
		rc = CUDA_INVALID_VALUE;
	if (!rc && fake_queue_capturing(b.device))
		rc = FAKE_CAPTURE_UNSUPPORTED;
	if (!rc && fake_memory_short(b.device, kind, bytes))
		rc = CUDA_NO_MEMORY;
	if (rc)
		goto out;
	if (kind == FAKE_DEVICE || bytes > 65536) {
		b.p = fake_memory_map(bytes, &b.mapped);
	} else {
		b.p = aligned_alloc(256, (bytes + FAKE_GAP + 255) / 256 * 256);
		if (b.p)
			memset(b.p, 0xff, bytes);
	}
	if (!b.p) {
		rc = CUDA_NO_MEMORY;
		goto out;
	}
	if (kind == FAKE_DEVICE)
		mprotect(b.p, b.mapped, PROT_NONE);
	*(kind == FAKE_PINNED ? &b.device->pinned : &b.device->used) += bytes;
	fake_memory_enter(&b);
	*ret_p = b.p;
out:
	fake_leave();
	return rc;
}

/* A lost device's memory can be freed; any other waits for what is queued, as the driver does. */
static int fake_memory_free(const void *p, bool pinned)
{
	struct fake_block *b;
	int rc;
	struct fake_device *d = fake_enter(&rc);

	if (!p) {
		fake_leave();
		return CUDA_OK;
	}
	if (d)
		fake_queue_drain(d);
	b = fake_memory_find(p);
	if (!b || b->p != p || (b->kind == FAKE_PINNED) != pinned)
		rc = CUDA_INVALID_VALUE;
	else
		fake_memory_remove(b);
	fake_leave();
	return rc;
}

/* ---- the driver's functions ---- */

int cuMemGetInfo_v2(size_t *free, size_t *total)
{
	int rc;
	const struct fake_device *d = fake_enter(&rc);

	if (d) {
		*free = d->used < d->total ? d->total - d->used : 0;
		*total = d->total;
	}
	fake_leave();
	return rc;
}

int cuMemAlloc_v2(uint64_t *p, size_t bytes)
{
	void *at = NULL;
	int rc = fake_memory_new(FAKE_DEVICE, bytes, &at);

	*p = (uintptr_t)at;
	return rc;
}

int cuMemAllocManaged(uint64_t *p, size_t bytes, unsigned flags)
{
	void *at = NULL;
	int rc = flags == CUDA_ATTACH_GLOBAL ? fake_memory_new(FAKE_MANAGED, bytes, &at) : CUDA_INVALID_VALUE;

	*p = (uintptr_t)at;
	return rc;
}

int cuMemFree_v2(uint64_t p)
{
	return fake_memory_free((const void *)(uintptr_t)p, false);
}

int cuMemHostAlloc(void **p, size_t bytes, unsigned flags)
{
	(void)flags;
	return fake_memory_new(FAKE_PINNED, bytes, p);
}

int cuMemFreeHost(void *p)
{
	return fake_memory_free(p, true);
}

int cuMemAdvise(uint64_t p, size_t bytes, int advice, int device)
{
	int rc;

	(void)advice;
	if (fake_enter(&rc)) {
		const struct fake_block *b = fake_memory_find((const void *)(uintptr_t)p);

		if (!b || b->kind != FAKE_MANAGED || !fake_device(device) || p - (uintptr_t)b->p + bytes > b->bytes)
			rc = CUDA_INVALID_VALUE;
	}
	fake_leave();
	return rc;
}

int cuMemHostGetDevicePointer_v2(uint64_t *p, void *host, unsigned flags)
{
	int rc;

	(void)flags;
	if (fake_enter(&rc) && fake_memory_kind(host) != FAKE_PINNED)
		rc = CUDA_INVALID_VALUE;
	*p = rc ? 0 : (uintptr_t)host;
	fake_leave();
	return rc;
}
