/* SPDX-License-Identifier: MIT
 * verbs.h - the handlers of ctl/verbs.def, verb_<id>(): one file per interface, daemon/verbs_*.c.
 * Threads: control. Locks: none. */
#ifndef DAEMON_VERBS_H
#define DAEMON_VERBS_H

#include "daemon/call.h"

#define VERB(id, words, method, level, args, text) call_f verb_##id;
#include "ctl/verbs.def"
#undef VERB

#endif
