/* SPDX-License-Identifier: MIT
 * probe_audit.c - every field of an answer held against what its object should have (probe_fields.def).
 * Threads: one at a time per object. Locks: none. */
#include "ctl/probe/probe_audit.h"
#include "engine/base/mem.h"

#include <stdbool.h>
#include <string.h>

#define AUDIT_MAX 64    /* findings of a kind that are kept */
#define AUDIT_SHOWN 8   /* of them told */
#define AUDIT_NAME 40   /* bytes of a field's name that are told */

enum audit_need { AUDIT_REQUIRED, AUDIT_OPTIONAL, AUDIT_KNOWN };

static const struct audit_field {
	const char *object, *name, *types;
	enum audit_need need;
} audit_fields[] = {
#define FIELD(object, name, types, need) { #object, #name, types, AUDIT_##need },
#include "ctl/probe/probe_fields.def"
#undef FIELD
};

void probe_audit_fini(struct probe_audit *a)
{
	json_decref(a->missing);
	json_decref(a->wrong);
	json_decref(a->untrue);
	json_decref(a->known);
	json_decref(a->unknown);
	*a = (struct probe_audit){ 0 };
}

static void audit_found(json_t **list, const char *object, const char *name, const char *what)
{
	struct buf path = { 0 };

	if (!*list)
		*list = json_object();
	buf_printf(&path, "%s.%.*s", object, AUDIT_NAME, name);
	if (json_object_size(*list) < AUDIT_MAX && !json_object_get(*list, buf_str(&path)))
		json_object_set_new(*list, buf_str(&path), json_string(what)); /* a name cut inside a character is left
										* out */
	buf_fini(&path);
}

static const char *audit_type_name(json_t *v)
{
	static const char *const names[] = { "object", "array", "string", "integer", "real", "true", "false", "null" };

	return names[json_typeof(v)];
}

static bool audit_type_is(json_t *v, const char *types)
{
	/* In the order of jansson's json_type. */
	static const char *const letters[] = { "o", "a", "s", "in", "n", "b", "b", "z" };

	return types[strcspn(types, letters[json_typeof(v)])] != '\0';
}

static const struct audit_field *audit_find(const char *object, const char *name)
{
	for (size_t i = 0; i < mem_countof(audit_fields); i++)
		if (!strcmp(audit_fields[i].object, object) && !strcmp(audit_fields[i].name, name))
			return &audit_fields[i];
	return NULL;
}

static void audit_object(struct probe_audit *a, const char *object, json_t *o)
{
	const char *name;
	json_t *v;

	if (!json_is_object(o))
		return; /* what holds it says so */
	for (size_t i = 0; i < mem_countof(audit_fields); i++) {
		const struct audit_field *f = &audit_fields[i];

		if (f->need == AUDIT_REQUIRED && !strcmp(f->object, object) && !json_object_get(o, f->name))
			audit_found(&a->missing, object, f->name, "missing");
	}
	json_object_foreach(o, name, v) {
		const struct audit_field *f = audit_find(object, name);

		if (!f)
			audit_found(&a->unknown, object, name, audit_type_name(v));
		else if (!audit_type_is(v, f->types))
			audit_found(&a->wrong, object, name, audit_type_name(v));
		else if (f->need == AUDIT_KNOWN)
			audit_found(&a->known, object, name, audit_type_name(v));
	}
}

/* Counts are not negative, and the total is their sum. */
static void audit_usage(struct probe_audit *a, json_t *usage)
{
	json_t *prompt = json_object_get(usage, "prompt_tokens"),
		*completion = json_object_get(usage, "completion_tokens");
	json_t *total = json_object_get(usage, "total_tokens"), *v;
	json_int_t sum;
	const char *name;

	audit_object(a, "usage", usage);
	json_object_foreach(usage, name, v)
		if (json_is_integer(v) && json_integer_value(v) < 0)
			audit_found(&a->untrue, "usage", name, "negative");
	if (!json_is_integer(prompt) || !json_is_integer(completion) || !json_is_integer(total))
		return;
	if (__builtin_add_overflow(json_integer_value(prompt), json_integer_value(completion), &sum) ||
	    sum != json_integer_value(total))
		audit_found(&a->untrue, "usage", "total_tokens", "not the sum");
}

/* What the objects of a whole answer and those of a chunk are in the table of fields. */
struct audit_names {
	const char *top, *choice, *said, *call, *function;
	const char *key; /* of what a choice says */
};

static void audit_calls(struct probe_audit *a, const struct audit_names *is, json_t *calls)
{
	json_t *c;
	size_t i;

	json_array_foreach(calls, i, c) {
		if (!json_is_object(c))
			audit_found(&a->wrong, is->call, "", audit_type_name(c));
		audit_object(a, is->call, c);
		audit_object(a, is->function, json_object_get(c, "function"));
	}
}

static void audit_answer(struct probe_audit *a, const struct audit_names *is, json_t *answer)
{
	json_t *choice;
	size_t i;

	audit_object(a, is->top, answer);
	audit_usage(a, json_object_get(answer, "usage"));
	json_array_foreach(json_object_get(answer, "choices"), i, choice) {
		json_t *said = json_object_get(choice, is->key);

		audit_object(a, is->choice, choice);
		audit_object(a, is->said, said);
		audit_calls(a, is, json_object_get(said, "tool_calls"));
	}
}

void probe_audit_completion(struct probe_audit *a, json_t *completion)
{
	static const struct audit_names is = { "completion", "choice", "message", "call", "function", "message" };

	audit_answer(a, &is, completion);
}

void probe_audit_chunk(struct probe_audit *a, json_t *chunk)
{
	static const struct audit_names is = { "chunk", "chunk_choice", "delta", "delta_call", "delta_function",
					       "delta" };

	audit_answer(a, &is, chunk);
}

void probe_audit_error(struct probe_audit *a, json_t *error)
{
	audit_object(a, "error", error);
}

void probe_audit_list(json_t *found, struct buf *out)
{
	const char *path;
	json_t *what;
	size_t n = 0;

	json_object_foreach(found, path, what) {
		if (n++ == AUDIT_SHOWN)
			break;
		buf_printf(out, "%s%s (%s)", n > 1 ? ", " : "", path, json_string_value(what));
	}
	if (json_object_size(found) > AUDIT_SHOWN)
		buf_printf(out, " and %zu more", json_object_size(found) - AUDIT_SHOWN);
}
