/* SPDX-License-Identifier: MIT
 * help.h - what dsv4ctl says about itself, made from the verb table: help and shell completion.
 * Threads: one. Locks: none. */
#ifndef CTL_HELP_H
#define CTL_HELP_H

#include "ctl/verb.h"
#include "engine/base/buf.h"

/* All verbs that begin with these words (none: all), one line each. Returns how many. */
int help_verbs(int argc, char *const *argv, struct buf *out);
void help_general(struct buf *out);
/* A bash completion script. */
void help_completion_bash(struct buf *out);

#endif
