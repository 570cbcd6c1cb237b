/* SPDX-License-Identifier: MIT
 * provider.h - kernels in memory: a plugin's descriptor, the host table its functions get, and its users.
 * Threads: ops opens and closes, any counts users. Locks: none (atomics). */
#ifndef ENGINE_PROVIDER_H
#define ENGINE_PROVIDER_H

#include "engine/base/buf.h"
#include "engine/base/sha256.h"
#include "engine/device/device.h"
#include "engine/kernels/disproved.h"
#include "plugins/dsv4_plugin.h"

#include <stdatomic.h>
#include <stdbool.h>

struct provider;
typedef void provider_log_f(const struct provider *p, int level, const char *text);

struct provider {
	const struct dsv4_plugin *plugin;
	char sha256[SHA256_HEX];   /* of its file; "" when it has none */
	struct dsv4_host host;     /* what its functions get; host.state is what open() returned */
	bool shipped;              /* its file is one that this program was built with; set before it is shared */
	provider_log_f *log;       /* NULL: dropped */
	struct device *device;     /* whose GPU it computes on; NULL: the CPU */
	struct provider *more;     /* [n_more]: the same on more GPUs, each with a host table and a state of its own */
	int n_more;
	atomic_int users;          /* kernel sets that hold it; kset.c counts */
	atomic_long n_alloc, bytes; /* taken by host.alloc and not released */
};

/* The built-in reference kernels: always there, never closed. */
extern struct provider provider_ref;

/* p is memory of the caller; the descriptor must stay mapped until provider_close() has returned and users is
 * 0. */
void provider_init(struct provider *p, const struct dsv4_plugin *plugin, provider_log_f *log);
/* Frees what provider_on() took; p is closed. */
void provider_fini(struct provider *p);
/* Before it is opened: it computes on that GPU; called again, on that one, too. The first is rank 0's, and so on. */
void provider_on(struct provider *p, struct device *d);
/* What its functions get on the GPU of that rank; for one that computes on none, always the same. */
static inline const struct dsv4_host *provider_host(const struct provider *p, int rank)
{
	return rank && p->n_more ? &p->more[rank - 1].host : &p->host;
}
/* open() on every GPU. RC_PLUGIN with the plugin's -errno in why; then it is open on none. */
int provider_open(struct provider *p, struct buf *why);
/* warm() on every GPU; when it fails the caller closes. RC_PLUGIN. */
int provider_warm(struct provider *p, struct buf *why);
/* close(). RC_PLUGIN when memory was not released, which is then lost; why says how much. No set may use it. */
int provider_close(struct provider *p, struct buf *why);
/* Do its ops that are marked EXACT count as ref's? Those of this program and of the files that were built with it do,
 * which the project's own tests have held against ref; a stranger's mark is a claim that no check can prove, of every
 * number of tokens and every value. */
bool provider_exact(const struct provider *p);
/* An op of it that is marked EXACT computed other bits than ref, of which why tells: provider_exact() is false from now
 * on, of every mapping of this file. What has no file is known by its name. Nothing happens to ref. */
void provider_disprove(const struct provider *p, const char *why);
/* NULL, or the record of it. */
const struct disproved *provider_disproved(const struct provider *p);

#endif
