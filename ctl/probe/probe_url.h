/* SPDX-License-Identifier: MIT
 * probe_url.h - probes against a server by its URL, run in this process: no daemon is needed.
 * Threads: one. Locks: none. */
#ifndef CTL_PROBE_URL_H
#define CTL_PROBE_URL_H

#include "ctl/probe/probe.h"

struct probe_url {
	const char *url;
	const char *key;        /* NULL: none */
	const char *model;      /* NULL: the first that the server lists */
	json_t *names;          /* as said, "all" among them; NULL: every probe */
	bool quick;
	json_t *options;        /* {name: text} for every named probe that has it; NULL: none */
	void (*progress)(void *arg, const char *probe, int done, int total);
	void *arg;
};

/* *ret_reply is what io.dsv4.Probes.Run replies with. RC_INVALID and RC_NOT_FOUND for what was said wrongly, -errno
 * when the server cannot be reached; `why` does not show the key. */
int probe_url_run(const struct probe_url *u, json_t **ret_reply, struct buf *why);

#endif
