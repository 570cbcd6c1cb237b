/* SPDX-License-Identifier: MIT
 * probe_history.h - what probes found: the latest runs, kept over restarts, and counts of this process.
 * Threads: any; probe_history_add() where blocking is fine. Lock: probe_history. */
#ifndef DAEMON_PROBE_HISTORY_H
#define DAEMON_PROBE_HISTORY_H

#include "daemon/state.h"

#include <jansson.h>
#include <stdbool.h>

#define PROBE_HISTORY_RUNS 256
#define PROBE_HISTORY_BYTES ((size_t)512 << 10) /* of all runs together, as text */
#define PROBE_HISTORY_FILE "probes.json"

struct probe_history;

struct probe_history *probe_history_new(void);
/* NULL is fine. */
void probe_history_free(struct probe_history **h);
/* Takes over what an earlier run kept. A file that is damaged is set aside, with a warning. */
void probe_history_read(struct probe_history *h, const struct state *s);
/* Adds a run (io.dsv4.Probes.Past; borrowed), forgets the oldest beyond the limits, and keeps all on disk: blocks.
 * Without a state directory (s NULL) in memory alone. */
void probe_history_add(struct probe_history *h, const struct state *s, json_t *run);

/* The replies are copies; new references. */
/* At most max runs, the newest first; those of one probe (NULL: any), those that failed or all. */
json_t *probe_history_list(struct probe_history *h, const char *probe, bool failed, size_t max);
/* {probe: its newest run} */
json_t *probe_history_last(struct probe_history *h);
/* The last attempt to keep it failed. */
bool probe_history_unkept(struct probe_history *h);
/* {probe: {verdict: runs}} since the start of the process: the history forgets, this does not. */
json_t *probe_history_counts(struct probe_history *h);

#endif
