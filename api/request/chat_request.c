/* SPDX-License-Identifier: MIT
 * chat_request.c - the body of a chat completion to what the engine takes.
 * Threads: any, one at a time per object. Locks: none. */
#include "api/request/chat_request.h"
#include "api/request/chat_format.h"
#include "api/request/chat_messages.h"
#include "api/request/go_on.h"
#include "api/request/plain.h"
#include "api/request/recall_fill.h"
#include "api/request/thinking.h"
#include "api/request/tools.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <stddef.h>
#include <stdint.h>

static const struct plain_field chat_request_plain[] = {
#define PLAIN_OF struct settings
#define PLAIN_TABLE "api/request/chat_fields.def"
#include "api/request/plain_rows.h"
};

static int chat_request_own(const struct field_at *b, struct settings *r, struct error *err)
{
	int rc = plain_read(chat_request_plain, mem_countof(chat_request_plain), b, r, err);

	if (!rc && r->spec.sampling.top_logprobs && !r->spec.sampling.logprobs)
		rc = field_refuse(b, "top_logprobs", err, RC_INVALID, "needs logprobs to be true");
	return rc;
}

static int chat_request_fill(const struct engine *e, const struct field_at *b, struct settings *r,
	struct error *err)
{
	int rc;

	if ((rc = settings_parse(e, b, r, err)) || (rc = chat_request_own(b, r, err)) ||
	    (rc = chat_format_parse(b, &r->spec, &r->schema_path, err)) ||
	    (rc = thinking_parse(b, &r->spec, err)) || (rc = chat_messages_parse(b, &r->messages, err)) ||
	    (rc = tools_parse(b, r->messages, &r->spec, err)) || (rc = go_on_prepare(r->messages, &r->spec, err)))
		return rc;
	if (r->spec.thinking)
		recall_fill(e, r->spec.label, r->messages);
	r->spec.messages = r->messages;
	return 0;
}

int chat_request_parse(const struct engine *e, const char *label, json_t *body, struct settings *ret_r,
	struct error *err)
{
	struct field_at at = { body, "" };
	struct settings r;
	int rc;

	settings_init(e, &r);
	r.spec.label = label;
	r.spec.thinking = r.spec.parse = true;
	rc = chat_request_fill(e, &at, &r, err);
	if (rc) {
		settings_fini(&r);
		return rc;
	}
	*ret_r = r;
	return 0;
}

void chat_request_name_schema(const struct settings *r, struct error *err)
{
	if (r->schema_path)
		error_rename(err, "schema", r->schema_path);
}
