/* SPDX-License-Identifier: MIT
 * provider.c - kernels in memory: a plugin's descriptor, the host table its functions get, and its users.
 * Threads: ops opens and closes, any counts users. Locks: none (atomics). */
#include "engine/kernels/provider.h"
#include "engine/base/list.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/kernels/pool.h"
#include "plugins/ref/ref.h"

#include <stdlib.h>

#define PROVIDER_ALIGN 64

struct provider provider_ref = { .plugin = &ref_plugin, .host = POOL_HOST };

/* ---- memory: counted, so that what close() forgets can be told ---- */

static struct provider *provider_of(const struct dsv4_host *host)
{
	return list_entry((struct dsv4_host *)(uintptr_t)host, struct provider, host);
}

static void *provider_alloc(const struct dsv4_host *host, size_t bytes)
{
	struct provider *p = provider_of(host);
	char *block = bytes > SIZE_MAX - PROVIDER_ALIGN ? NULL : mem_try(bytes + PROVIDER_ALIGN, 1);

	if (!block)
		return NULL;
	*(size_t *)(void *)block = bytes;
	atomic_fetch_add(&p->n_alloc, 1);
	atomic_fetch_add(&p->bytes, (long)bytes);
	return block + PROVIDER_ALIGN;
}

static void provider_release(const struct dsv4_host *host, void *mem)
{
	struct provider *p = provider_of(host);
	char *block = (char *)mem - PROVIDER_ALIGN;

	if (!mem)
		return;
	atomic_fetch_sub(&p->n_alloc, 1);
	atomic_fetch_sub(&p->bytes, (long)*(size_t *)(void *)block);
	free(block);
}

static void provider_log(const struct dsv4_host *host, int level, const char *text)
{
	struct provider *p = provider_of(host);

	if (p->log)
		p->log(p, level, text);
}

/* ---- life ---- */

void provider_init(struct provider *p, const struct dsv4_plugin *plugin, provider_log_f *log)
{
	*p = (struct provider){ .plugin = plugin, .host = POOL_HOST, .log = log };
	p->host.alloc = provider_alloc;
	p->host.release = provider_release;
	p->host.log = provider_log;
}

/* No kernel of the CPU runs on a queue. */
static void provider_no_loop(struct dsv4_exec *x, int64_t n, int64_t grain, dsv4_slice_f *fn, void *arg)
{
	(void)x, (void)n, (void)grain, (void)fn, (void)arg;
	must(false);
}

static int provider_no_threads(struct dsv4_exec *x)
{
	(void)x;
	return 1;
}

static void provider_place(struct provider *p, struct device *d)
{
	p->device = d;
	p->host.gpu = device_gpu(d);
	p->host.scratch = device_scratch;
	p->host.parallel_for = provider_no_loop;
	p->host.n_threads = provider_no_threads;
}

void provider_on(struct provider *p, struct device *d)
{
	struct provider *more;

	if (!p->device) {
		provider_place(p, d);
		return;
	}
	more = p->more = mem_grow(p->more, (size_t)(p->n_more + 1), sizeof *p->more);
	provider_init(&more[p->n_more], p->plugin, p->log);
	provider_place(&more[p->n_more++], d);
}

void provider_fini(struct provider *p)
{
	free(p->more);
	p->more = NULL;
	p->n_more = 0;
}

static struct provider *provider_at(struct provider *p, int rank)
{
	return rank ? &p->more[rank - 1] : p;
}

static void provider_close_first(struct provider *p, int n)
{
	for (int i = 0; i < n; i++) {
		struct provider *at = provider_at(p, i);

		if (p->plugin->close)
			p->plugin->close(&at->host);
		at->host.state = NULL;
		if (at->device)
			device_unload(at->device, &at->host);
	}
	/* What was not released counts as one. */
	for (int i = 0; i < p->n_more; i++) {
		atomic_fetch_add(&p->n_alloc, atomic_exchange(&p->more[i].n_alloc, 0));
		atomic_fetch_add(&p->bytes, atomic_exchange(&p->more[i].bytes, 0));
	}
}

/* What failed on which GPU, where there are several. */
static int provider_failed(const struct provider *p, int rank, const char *call, int rc, struct buf *why)
{
	const struct device *d = rank ? p->more[rank - 1].device : p->device;

	return buf_why(why, RC_PLUGIN, "%s() returned %d (%s)%s%s", call, rc, rc_text(rc), p->n_more ? " on " : "",
		       p->n_more ? device_name(d) : "");
}

int provider_open(struct provider *p, struct buf *why)
{
	for (int i = 0; p->plugin->open && i <= p->n_more; i++) {
		struct dsv4_host *host = &provider_at(p, i)->host;
		int rc = p->plugin->open(host, &host->state);

		if (rc) {
			if (provider_at(p, i)->device)
				device_unload(provider_at(p, i)->device, host);
			provider_close_first(p, i);
			return provider_failed(p, i, "open", rc, why);
		}
	}
	return 0;
}

int provider_warm(struct provider *p, struct buf *why)
{
	for (int i = 0; p->plugin->warm && i <= p->n_more; i++) {
		int rc = p->plugin->warm(&provider_at(p, i)->host);

		if (rc)
			return provider_failed(p, i, "warm", rc, why);
	}
	return 0;
}

int provider_close(struct provider *p, struct buf *why)
{
	must(p != &provider_ref && atomic_load(&p->users) == 0);
	provider_close_first(p, 1 + p->n_more);
	if (atomic_load(&p->n_alloc) == 0)
		return 0;
	return buf_why(why, RC_PLUGIN, "close() left %ld bytes in %ld pieces", atomic_load(&p->bytes),
		       atomic_load(&p->n_alloc));
}

/* ---- the mark EXACT ---- */

static const char *provider_key(const struct provider *p)
{
	return *p->sha256 ? p->sha256 : p->plugin->name;
}

const struct disproved *provider_disproved(const struct provider *p)
{
	return p == &provider_ref ? NULL : disproved_find(provider_key(p));
}

static bool provider_ours(const struct provider *p)
{
	return p->shipped || !*p->sha256;
}

bool provider_exact(const struct provider *p)
{
	return provider_ours(p) && !provider_disproved(p);
}

void provider_disprove(const struct provider *p, const char *why)
{
	if (p != &provider_ref)
		(void)disproved_add(p->plugin->name, provider_key(p), why, provider_ours(p));
}
