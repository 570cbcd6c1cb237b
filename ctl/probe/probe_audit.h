/* SPDX-License-Identifier: MIT
 * probe_audit.h - every field of an answer held against what its object should have (probe_fields.def).
 * Threads: one at a time per object. Locks: none. */
#ifndef CTL_PROBE_AUDIT_H
#define CTL_PROBE_AUDIT_H

#include "engine/base/buf.h"

#include <jansson.h>

/* Zero-initialise. Each is {"object.field": what}, as first seen. */
struct probe_audit {
	json_t *missing, *wrong; /* required and not there; of another type */
	json_t *untrue;          /* counts that cannot be */
	json_t *known, *unknown; /* not OpenAI's: of a server of many, of nobody we know */
};
void probe_audit_fini(struct probe_audit *a);

/* Add what is found in a whole answer, in a chunk of a stream, in the object under `error`; no more than 64 of a kind
 * are kept. What is no object is no finding. */
void probe_audit_completion(struct probe_audit *a, json_t *completion);
void probe_audit_chunk(struct probe_audit *a, json_t *chunk);
void probe_audit_error(struct probe_audit *a, json_t *error);

/* "a.b, a.c", a few of them. */
void probe_audit_list(json_t *found, struct buf *out);

#endif
