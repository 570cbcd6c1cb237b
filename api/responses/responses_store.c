/* SPDX-License-Identifier: MIT
 * responses_store.c - responses that later requests go on from: kept with their records in the request ring.
 * Threads: the connection's libmicrohttpd thread. Locks: none of its own. */
#include "api/responses/responses_store.h"
#include "api/http/body.h"
#include "api/responses/responses_request.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdio.h>
#include <string.h>

void responses_store_keep(struct engine *e, const char *id, json_t *response)
{
	struct buf text = { 0 };

	body_print(&text, json_incref(response));
	(void)engine_keep(e, id, &text);
}

/* Whoever asked for a response may read it: the engine knows the label. Both *ret are the
 * caller's; messages may be NULL. */
static int responses_store_find(const struct exchange *x, const char *id, json_t **ret_response, json_t **ret_messages,
	const char *param, struct error *err)
{
	struct buf text = { 0 }, messages = { 0 };
	json_t *kept = NULL;
	int rc = engine_kept(x->engine, id, x->label, &text, &messages);

	if (!rc) {
		kept = json_loadb(text.data, text.len, JSON_ALLOW_NUL, NULL); /* a model may say anything */
		must(kept);
	}
	if (rc) {
		rc = error_set(err, RC_NOT_FOUND, param, "%s%sno response \"%.64s\" is kept", param, *param ? ": " :
			"", id);
	} else {
		*ret_response = json_incref(kept);
		if (ret_messages)
			*ret_messages = json_loadb(messages.data, messages.len, JSON_ALLOW_NUL, NULL);
	}
	json_decref(kept);
	buf_fini(&text);
	buf_fini(&messages);
	return rc;
}

int responses_store_get(const struct exchange *x, const char *id, json_t **ret_response, struct error *err)
{
	return responses_store_find(x, id, ret_response, NULL, "", err);
}

/* Instructions are a request's own: takes them out of the message in front, where other instructions may follow. */
static void responses_store_strip(json_t *messages, const char *instructions)
{
	json_t *front = json_array_get(messages, 0);
	const char *text = json_string_value(json_object_get(front, "content"));
	size_t n = instructions ? strlen(instructions) : 0;

	if (!n || !text || strncmp(text, instructions, n))
		return;
	if (!text[n])
		must_zero(json_array_remove(messages, 0));
	else
		must_zero(json_object_set_new(front, "content", json_string(text + n + strlen("\n\n"))));
}

int responses_store_asked(const struct exchange *x, const char *id, json_t **ret_messages, struct error *err)
{
	json_t *response = NULL;
	int rc = responses_store_find(x, id, &response, ret_messages, "", err);

	if (!rc)
		responses_store_strip(*ret_messages, json_string_value(json_object_get(response, "instructions")));
	json_decref(response);
	return rc;
}

int responses_store_earlier(const struct exchange *x, const char *id, struct history *h, struct error *err)
{
	static const char param[] = "previous_response_id";
	struct field_at at = { NULL, "" };
	json_t *messages = NULL;
	int rc = responses_store_find(x, id, &at.object, &messages, param, err);

	if (rc)
		return rc;
	must(messages);
	snprintf(at.path, sizeof at.path, "%s.", param);
	responses_store_strip(messages, json_string_value(json_object_get(at.object, "instructions")));
	history_earlier(h, messages);
	rc = responses_input_items(&at, "output", json_object_get(at.object, "output"), HISTORY_EARLIER, h, err);
	json_decref(messages);
	json_decref(at.object);
	return rc;
}
