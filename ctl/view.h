/* SPDX-License-Identifier: MIT
 * view.h - replies as people read them: tables, fields, text (views.def).
 * Threads: one. Locks: none. */
#ifndef CTL_VIEW_H
#define CTL_VIEW_H

#include "ctl/verb.h"
#include "engine/base/buf.h"

#include <jansson.h>

/* Appends what a person should see of this reply. */
void view_reply(const struct verb *v, json_t *params, struct buf *out);
/* Replaces control characters (but newline and tab) so that no reply can drive the terminal. */
void view_sanitize(struct buf *b);

#endif
