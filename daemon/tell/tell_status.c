/* SPDX-License-Identifier: MIT
 * tell_status.c - the state for people, of GET /v1/status: put together from what the control verbs say.
 * Threads: control. Locks: none. */
#include "daemon/daemon.h"
#include "daemon/kernels/kernels.h"
#include "daemon/tell/tell.h"
#include "daemon/verbs/verbs.h"
#include "engine/base/must.h"

#include <string.h>

#define TELL_ID_DIGITS 8 /* of a request's id: enough to know it again, too few to ask for it */

static void tell_set(json_t *o, const char *key, json_t *value)
{
	must(value && json_object_set_new(o, key, value) == 0);
}

/* ---- what must not be told ---- */

static void tell_forget(json_t *o, const char *const *keys)
{
	for (; *keys; keys++)
		json_object_del(o, *keys);
}

static void tell_less_of_status(json_t *reply)
{
	static const char *const paths[] = { "model_dir", "control", "config", "level", "pid", NULL };

	tell_forget(reply, paths);
}

static void tell_less_of_plugins(json_t *reply)
{
	static const char *const paths[] = { "file", "sha256", "complaint", NULL };
	json_t *p;
	size_t i;

	json_array_foreach(json_object_get(reply, "plugins"), i, p)
		tell_forget(p, paths);
}

/* "chatcmpl-be84c4bf": with a whole id another key's answer might be asked for. */
static json_t *tell_short_id(const char *id)
{
	const char *digits = strrchr(id, '-');
	size_t n = digits ? (size_t)(digits + 1 - id) + TELL_ID_DIGITS : TELL_ID_DIGITS;

	return json_stringn(id, n < strlen(id) ? n : strlen(id));
}

static void tell_less_of_requests(json_t *reply)
{
	json_t *r;
	size_t i;

	json_array_foreach(json_object_get(reply, "requests"), i, r) {
		const char *label = json_string_value(json_object_get(r, "label"));

		tell_set(r, "id", tell_short_id(json_string_value(json_object_get(r, "id"))));
		if (!strncmp(label, "http:", 5)) /* a key's name follows */
			tell_set(r, "label", json_string("http"));
	}
}

static void tell_less_of_probes(json_t *reply)
{
	json_t *r;
	size_t i;

	json_array_foreach(json_object_get(reply, "runs"), i, r) {
		json_object_del(json_object_get(r, "result"), "requests");
		if (strcmp(json_string_value(json_object_get(r, "by")), "schedule") != 0)
			tell_set(r, "by", json_string("operator")); /* who exactly is nobody's business there */
	}
}

static void tell_less_of_shadow(json_t *reply)
{
	json_t *op;
	size_t i;

	json_array_foreach(json_object_get(reply, "ops"), i, op) {
		json_object_del(op, "layers");
		json_object_del(op, "worst_request");
	}
}

/* ---- the parts ---- */

static const struct tell_part {
	const char *name;
	call_f *verb;
	int max;                      /* the verb's parameter; 0: it has none */
	void (*less)(json_t *reply);  /* or NULL */
} tell_parts[] = {
	{ "daemon", verb_status, 0, tell_less_of_status },
	{ "requests", verb_request_list, 20, tell_less_of_requests },
	{ "cache", verb_cache_stats, 0, NULL },
	{ "plugins", verb_plugin_list, 0, tell_less_of_plugins },
	{ "probes", verb_probe_history, 20, tell_less_of_probes },
	{ "shadow", verb_shadow_report, 0, tell_less_of_shadow },
};

/* What a monitor would be told; null where that is an error, as for a shadow when there is none. */
static json_t *tell_part(struct daemon *d, const struct tell_part *p)
{
	struct call c = { .daemon = d, .params = json_object(), .peer = { .level = VERB_MONITOR } };
	json_t *reply = NULL;
	int r;

	if (p->max)
		tell_set(c.params, "max", json_integer(p->max));
	r = p->verb(&c, &reply, NULL);
	must(r <= 0); /* none of them answers later */
	json_decref(c.params);
	if (r)
		return json_null();
	if (p->less)
		p->less(reply);
	return reply;
}

/* The numerics, and which of them are not what the model was trained with. */
static json_t *tell_parameters(struct daemon *d)
{
	struct numerics now, native;
	json_t *list = json_array();
	char value[32], usual[32];

	engine_numerics(d->engine, &now);
	numerics_init(&native, NUMERICS_NATIVE, engine_config(d->engine)->index_topk);
	for (int i = 0; i < numerics_count; i++) {
		const struct numerics_row *row = &numerics_table[i];

		numerics_get(&now, row, value);
		numerics_get(&native, row, usual);
		json_array_append_new(list,
				      json_pack("{s:s, s:s, s:s, s:s}", "name", row->name, "value", value, "native",
						usual, "text", row->text));
	}
	return list;
}

json_t *tell_status(struct daemon *d)
{
	json_t *o = json_object();

	if (daemon_need_engine(d, NULL)) {
		json_decref(o);
		return NULL;
	}
	for (size_t i = 0; i < sizeof tell_parts / sizeof *tell_parts; i++)
		tell_set(o, tell_parts[i].name, tell_part(d, &tell_parts[i]));
	tell_set(o, "kernels", kernels_set_json(d, d->kernels->active));
	tell_set(o, "parameters", tell_parameters(d));
	return o;
}
