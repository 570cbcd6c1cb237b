/* SPDX-License-Identifier: MIT
 * provider.h - kernels in memory: a plugin's descriptor, the host table its functions get, and its users.
 * Threads: ops opens and closes, any counts users. Locks: none (atomics). */
#ifndef ENGINE_PROVIDER_H
#define ENGINE_PROVIDER_H

#include "engine/base/buf.h"
#include "engine/base/sha256.h"
#include "plugins/dsv4_plugin.h"

#include <stdatomic.h>

struct provider;
typedef void provider_log_f(const struct provider *p, int level, const char *text);

struct provider {
	const struct dsv4_plugin *plugin;
	char sha256[SHA256_HEX];   /* of its file; "" when it has none */
	struct dsv4_host host;     /* what its functions get; host.state is what open() returned */
	provider_log_f *log;       /* NULL: dropped */
	atomic_int users;          /* kernel sets that hold it; kset.c counts */
	atomic_long n_alloc, bytes; /* taken by host.alloc and not released */
};

/* The built-in reference kernels: always there, never closed. */
extern struct provider provider_ref;

/* p is memory of the caller; the descriptor must stay mapped until provider_close() has returned and users is
 * 0. */
void provider_init(struct provider *p, const struct dsv4_plugin *plugin, provider_log_f *log);
/* open(). RC_PLUGIN with the plugin's -errno in why. */
int provider_open(struct provider *p, struct buf *why);
/* warm(); when it fails the caller closes. RC_PLUGIN. */
int provider_warm(struct provider *p, struct buf *why);
/* close(). RC_PLUGIN when memory was not released, which is then lost; why says how much. No set may use it. */
int provider_close(struct provider *p, struct buf *why);

#endif
