/* SPDX-License-Identifier: MIT
 * verbs.h - the handlers of ctl/verbs.def, verb_<id>(): one file a subject, daemon/verbs/verbs_*.c.
 * Threads: control. Locks: none. */
#ifndef DAEMON_VERBS_H
#define DAEMON_VERBS_H

#include "daemon/control/call.h"

#define VERB(id, words, method, level, lasts, args, text) call_f verb_##id;
#include "ctl/verbs.def"
#undef VERB

/* verbs_probe.c: {probe: {name: value}} of these probes: what the configuration's [probe.NAME] says, then the call's
 * `quick` and `options`, which win. */
int verbs_probe_options(struct call *c, json_t *names, json_t *options, struct buf *why);

#endif
