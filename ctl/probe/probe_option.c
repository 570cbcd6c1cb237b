/* SPDX-License-Identifier: MIT
 * probe_option.c - the options that probes have: read, filled in, listed.
 * Threads: any. Locks: none. */
#include "ctl/probe/probe_option.h"
#include "ctl/probe/probe.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PROBE_LIST_MAX 16
#define PROBE_INT_MAX 100000000
#define PROBE_REAL_MAX 1000000 /* bounds that probe.def names */

static const struct probe_option {
	const char *probe, *name;
	char type;
	const char *def, *quick; /* quick "": as def */
	double least, most;
	const char *text;
} probe_options[] = {
#define OPTION(probe, name, type, def, quick, least, most, text) { #probe, #name, type, def, quick, least, most, text },
#include "ctl/probe/probe.def"
};

/* An option of its own, or one that all have. */
static bool probe_option_is_of(const char *probe, const struct probe_option *o)
{
	return !strcmp(o->probe, probe) || !strcmp(o->probe, PROBE_ALL);
}

static const struct probe_option *probe_option_find(const char *probe, const char *name)
{
	for (size_t i = 0; i < mem_countof(probe_options); i++)
		if (probe_option_is_of(probe, &probe_options[i]) && !strcmp(probe_options[i].name, name))
			return &probe_options[i];
	return NULL;
}

static json_t *probe_option_int(const struct probe_option *o, const char *text)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(text, &end, 10);
	return end == text || *end || errno || v < (long)o->least || v > (long)o->most ? NULL : json_integer(v);
}

static json_t *probe_option_numbers(const struct probe_option *o, const char *text)
{
	json_t *list = json_array();
	char *copy = mem_strdup(text), *save = NULL;

	for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		json_t *v = json_array_size(list) < PROBE_LIST_MAX ? probe_option_int(o, w) : NULL;

		if (!v || json_array_append_new(list, v) < 0) {
			json_decref(list);
			list = NULL;
			break;
		}
	}
	free(copy);
	if (list && json_array_size(list) == 0) {
		json_decref(list);
		return NULL;
	}
	return list;
}

static json_t *probe_option_parse(const struct probe_option *o, const char *text)
{
	char *end;
	double v;

	switch (o->type) {
	case 'i':
	case 'b':
		return probe_option_int(o, text);
	case 'l':
		return probe_option_numbers(o, text);
	default:
		must(o->type == 'r');
		v = strtod(text, &end);
		return end == text || *end || !(v >= o->least && v <= o->most) ? NULL : json_real(v);
	}
}

/* What the type takes, with its limits. */
static void probe_option_limits(const struct probe_option *o, struct buf *out)
{
	switch (o->type) {
	case 'i':
		buf_printf(out, "a whole number from %.0f to %.0f", o->least, o->most);
		break;
	case 'b':
		buf_adds(out, "0 or 1");
		break;
	case 'l':
		buf_printf(out, "1 to %d whole numbers from %.0f to %.0f with commas between", PROBE_LIST_MAX,
			   o->least, o->most);
		break;
	default:
		buf_printf(out, "a number from %.0f to %.0f", o->least, o->most);
	}
}

int probe_option_set(const char *probe, const char *option, const char *value, json_t *options, struct buf *why)
{
	const struct probe_option *o;
	struct buf limits = { 0 };
	json_t *v;

	if (!probe_exists(probe))
		return buf_why(why, RC_NOT_FOUND, "no probe named \"%.96s\"", probe);
	o = probe_option_find(probe, option);
	if (!o)
		return buf_why(why, RC_INVALID, "probe %s has no option \"%.96s\"", probe, option);
	v = probe_option_parse(o, value);
	if (v) {
		json_object_set_new(options, option, v);
		return 0;
	}
	probe_option_limits(o, &limits);
	buf_why(why, RC_INVALID, "option %s of probe %s: \"%.96s\" is not %s", option, probe, value,
		buf_str(&limits));
	buf_fini(&limits);
	return RC_INVALID;
}

int probe_option_give(json_t *names, const char *option, const char *value, json_t *options, struct buf *why)
{
	bool taken = false;
	json_t *name;
	size_t i;
	int r = 0;

	json_array_foreach(names, i, name) {
		const char *s = json_string_value(name);

		r = probe_option_set(s, option, value, json_object_get(options, s), why);
		taken |= r == 0;
	}
	return taken ? 0 : r;
}

/* A JSON value for an option: text goes through its parser, numbers are printed first, so one rule serves both. */
static int probe_option_json(const char *probe, const char *name, json_t *value, json_t *options, struct buf *why)
{
	struct buf text = { 0 };
	int rc;

	if (json_is_string(value))
		buf_adds(&text, json_string_value(value));
	else if (json_is_integer(value))
		buf_printf(&text, "%lld", (long long)json_integer_value(value));
	else if (json_is_real(value))
		buf_printf(&text, "%.17g", json_real_value(value));
	else if (json_is_boolean(value))
		buf_adds(&text, json_is_true(value) ? "1" : "0");
	for (size_t i = 0; json_is_array(value) && i < json_array_size(value) && i <= PROBE_LIST_MAX; i++)
		buf_printf(&text, "%s%lld", i ? "," : "", (long long)json_integer_value(json_array_get(value, i)));
	rc = probe_option_set(probe, name, buf_str(&text), options, why);
	buf_fini(&text);
	return rc;
}

/* What stands where nothing else was said. */
static void probe_option_defaults(const char *name, bool quick, json_t *options)
{
	for (size_t i = 0; i < mem_countof(probe_options); i++) {
		const struct probe_option *o = &probe_options[i];

		if (probe_option_is_of(name, o))
			must_zero(probe_option_set(name, o->name, quick && *o->quick ? o->quick : o->def, options,
						   NULL));
	}
}

int probe_option_fill(const char *name, json_t *given, json_t *options, struct buf *why)
{
	json_t *value = json_object_get(given, PROBE_QUICK);
	const char *key;
	int rc = value ? probe_option_json(name, PROBE_QUICK, value, options, why) : 0;

	if (rc)
		return rc;
	probe_option_defaults(name, json_integer_value(json_object_get(options, PROBE_QUICK)), options);
	json_object_foreach(given, key, value)
		if (rc == 0)
			rc = probe_option_json(name, key, value, options, why);
	return rc;
}

json_t *probe_option_list(const char *probe)
{
	json_t *options = json_array();

	for (size_t i = 0; i < mem_countof(probe_options); i++) {
		const struct probe_option *o = &probe_options[i];

		if (probe_option_is_of(probe, o))
			json_array_append_new(options,
					      json_pack("{s:s, s:s, s:s, s:s}", "name", o->name, "default", o->def,
							"quick", *o->quick ? o->quick : o->def, "text", o->text));
	}
	return options;
}
