/* SPDX-License-Identifier: MIT
 * start.h - the kernels that a run begins with: [plugins] load and [kernels] use, or what a crash leads to.
 * Threads: control. Locks: none. */
#ifndef DAEMON_START_H
#define DAEMON_START_H

#include "engine/base/buf.h"

#include <jansson.h>

struct conf;
struct daemon;

enum start_from { START_CONFIGURATION, START_LAST_GOOD, START_REF };

/* io.dsv4.Daemon.Status, started_from. */
const char *start_from_name(enum start_from f);

/* Would `use` be had here, so far as the files say (none is run)? `auto` and ref always; of `prefer` and `prefer_gpu`
 * the form of the names. RC_CONFIG. start_check.c */
int start_check(const struct conf *c, struct buf *why);
/* Words with blanks between them, as an array. */
json_t *start_words(const char *text);
/* With the engine open, before anything is served. done() once: rc 0, or why it cannot be had as configured. Not called
 * when the daemon stops meanwhile.
 * After one or two runs in a row that did not end in order: last-good, if there is one. After three: the configuration.
 * After more: ref alone, and nothing is loaded. */
void start_kernels(struct daemon *d, void (*done)(struct daemon *d, int rc, const char *why));
/* Once a second: a set that has run good_steps steps without a failure, in a daemon a minute old, ends the row. */
void start_tick(struct daemon *d);

#endif
