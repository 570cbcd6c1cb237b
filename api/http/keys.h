/* SPDX-License-Identifier: MIT
 * keys.h - who may call: a file of salted hashes with names and limits, read again while calls run.
 * Threads: any. Lock: keys. */
#ifndef API_KEYS_H
#define API_KEYS_H

#include "api/http/error.h"

#include <stdbool.h>

/* One key a line; blank lines and lines that begin with # are skipped:
 *   NAME sha256$SALT$DIGEST [requests_per_minute=N] [concurrent=N]
 * `dsv4ctl key new` makes such lines. */
#define KEYS_MAX 1024

struct keys;
struct keys_use;

/* What an admitted call holds until it is over; start from {0}. */
struct keys_pass {
	struct keys *keys;
	struct keys_use *use;
	int concurrent;  /* its key's limit when it came; 0: none */
	int running;     /* what it counts for: one, or the answers that it asks for */
	bool answered;
};

/* RC_CONFIG with "file:line: " in why, also when others than owner and group may read the file or others than
 * the owner write it; -errno. */
int keys_read(const char *path, struct keys **ret_k, struct buf *why);
void keys_free(struct keys **k);
int keys_count(struct keys *k);
/* From now on k has next's keys; what runs and ran under a name goes on counting, also when the name was in no file for
 * a while: to delete a key and add it again is no way around its limits. Frees next. */
struct keys_change {
	int added, removed, changed, now; /* by name; changed: another hash or other limits; now: in all */
};
void keys_replace(struct keys *k, struct keys **next, double now, struct keys_change *ret_change);

/* Admits a call at `now` (clock_s()) that shows up to n keys, some of them NULL; the first that is known
 * counts. RC_AUTH; RC_LIMIT with err->retry_after when its limits are reached. Every key of the file is
 * always compared. */
int keys_enter(struct keys *k, const char *const *shown, int n, double now, struct keys_pass *ret_pass,
	       struct error *err);
/* The call counts for n answers, not one. RC_LIMIT when there is no room for so many now, RC_INVALID when the key may
 * never have them; it then counts as before. Nothing for a pass that is {0}. */
int keys_answers(struct keys_pass *p, int n, struct error *err);
/* Its answer is made: it no longer counts as running, so that a client which has read the answer may ask again at once.
 * Again does nothing. */
void keys_answered(struct keys_pass *p);
/* Gives back what was counted; nothing for a pass that is {0}. */
void keys_leave(struct keys_pass *p);
/* The name of its key, NULL for a pass that is {0}. */
const char *keys_name(const struct keys_pass *p);

#endif
