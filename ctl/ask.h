/* SPDX-License-Identifier: MIT
 * ask.h - one short question to the daemon, for commands that put several together.
 * Threads: one. Locks: none. */
#ifndef CTL_ASK_H
#define CTL_ASK_H

#include "ctl/ctl.h"

/* The reply's parameters of this verb of the table, a new reference; NULL: there is none, and why says why. `params` is
 * borrowed and may be NULL. Opens c->client when it is not, and closes it when it was lost;
 * c->silent then says that the time was up. */
json_t *ask(struct ctl *c, const char *id, json_t *params, struct buf *why);
/* The verb of the table; a programming error when there is none. */
const struct verb *ask_verb(const char *id);

#endif
