/* SPDX-License-Identifier: MIT
 * conf_file.h - a configuration file's text: its sections and keys, [numerics] and [probe.NAME] among them.
 * Threads: control. Locks: none. */
#ifndef DAEMON_CONF_FILE_H
#define DAEMON_CONF_FILE_H

#include "daemon/conf.h"

#define CONF_FILE_MAX_BYTES (1u << 20)

/* Adds a file's settings. RC_CONFIG, -errno; why begins with "file:line: ". c may be half changed after an error. */
int conf_file_load(struct conf *c, const char *path, struct buf *why);
/* The same of a text [len], any bytes; name stands for the file in why. */
int conf_file_parse(struct conf *c, const char *name, const char *text, size_t len, struct buf *why);

#endif
