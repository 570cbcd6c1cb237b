/* SPDX-License-Identifier: MIT
 * probe_option.h - the options that probes have: read, filled in, listed. For probe.c; others see probe.h.
 * Threads: any. Locks: none. */
#ifndef CTL_PROBE_OPTION_H
#define CTL_PROBE_OPTION_H

#include "engine/base/buf.h"

#include <jansson.h>

/* All that the probe has: what was given, and the defaults of the form that it chooses. RC_INVALID. */
int probe_option_fill(const char *probe, json_t *given, json_t *options, struct buf *why);
/* [{name, default, quick, text}]; new reference. */
json_t *probe_option_list(const char *probe);

#endif
