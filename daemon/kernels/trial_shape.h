/* SPDX-License-Identifier: MIT
 * trial_shape.h - the parent's and the child's common words: shapes as text, and where the pipe is.
 * Threads: any. Locks: none. */
#ifndef DAEMON_TRIAL_SHAPE_H
#define DAEMON_TRIAL_SHAPE_H

#include "engine/base/buf.h"
#include "plugins/check/check.h"

#include <stdbool.h>

#define TRIAL_FLAG "--trial"
#define TRIAL_FD 3                 /* the child's end of the pipe: one JSON object per line */

/* "NAME hidden hc heads ...", the fields in the order of struct check_shape. */
void trial_shape_put(struct buf *b, const struct check_shape *s);
/* The name becomes the text's own. False when it is not of that form. */
bool trial_shape_get(char *text, struct check_shape *ret_s);

#endif
