/* SPDX-License-Identifier: MIT
 * probe_api.h - what the checks of the probe "api" share. Private to ctl/probe/probe_api*.c.
 * Threads: one at a time per run. Locks: none. */
#ifndef CTL_PROBE_API_H
#define CTL_PROBE_API_H

#include "ctl/probe/probe_audit.h"
#include "ctl/probe/probe_chat.h"
#include "ctl/probe/probe_run.h"

/* One run; `check` is the one under way. */
struct api {
	struct probe_run *run;
	struct probe_chat chat;
	struct probe_audit audit;
	const char *check;
	bool ok;               /* nothing was found by it yet */
	bool answered;         /* a whole answer came */
	bool reasoned;         /* with reasoning in a field of its own */
	bool gone;             /* nobody listens */
};

/* The check is not ok, and the verdict at least v; `why` has the text after the check's name. */
void probe_api_found(struct api *a, enum probe_verdict v, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

json_t *probe_api_body(struct api *a, const char *question, bool thinking, bool tools);
/* A whole answer, or NULL and a finding; takes over body. */
json_t *probe_api_whole(struct api *a, json_t *body);
/* A streamed one into ret_s, which the caller ends in any case; false and a finding when it did not come to its end.
 * Takes over body. */
bool probe_api_stream(struct api *a, json_t *body, struct probe_stream *ret_s);

/* Parts of an answer; "" and NULL when there is none such. */
json_t *probe_api_message(json_t *answer);
const char *probe_api_text(json_t *object, const char *name);
const char *probe_api_finish(json_t *answer);
const char *probe_api_reasoning(json_t *message);
/* Markup that a server should have read and taken out; NULL when there is none. */
const char *probe_api_markup(const char *content);

/* The check of tool calls, whole and streamed. */
void probe_api_tools(struct api *a);

#endif
