/* SPDX-License-Identifier: MIT
 * probe.c - the table of probes: options, results, one run.
 * Threads: one at a time per run. Locks: none. */
#include "ctl/probe.h"
#include "ctl/probe_run.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PROBE_LIST_MAX 16
#define PROBE_INT_MAX 100000000
#define PROBE_REAL_MAX 1000000

static const struct probe_row {
	const char *name, *text;
	probe_f *run;
} probe_rows[] = {
#define PROBE(name, text) { #name, text, probe_##name },
#include "ctl/probe.def"
};

static const struct probe_option {
	const char *probe, *name;
	char type;
	const char *def, *text;
} probe_options[] = {
#define OPTION(probe, name, type, def, text) { #probe, #name, type, def, text },
#include "ctl/probe.def"
};

static const char *const probe_verdicts[] = { "pass", "warn", "fail", "inconclusive" };

const char *probe_verdict_name(enum probe_verdict v)
{
	return probe_verdicts[v];
}

static const struct probe_row *probe_find(const char *name)
{
	for (size_t i = 0; i < mem_countof(probe_rows); i++)
		if (!strcmp(probe_rows[i].name, name))
			return &probe_rows[i];
	return NULL;
}

bool probe_exists(const char *name)
{
	return probe_find(name) != NULL;
}

static const struct probe_option *probe_option_find(const char *probe, const char *name)
{
	for (size_t i = 0; i < mem_countof(probe_options); i++)
		if (!strcmp(probe_options[i].probe, probe) && !strcmp(probe_options[i].name, name))
			return &probe_options[i];
	return NULL;
}

static json_t *probe_parse_int(const char *text, long max)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(text, &end, 10);
	return end == text || *end || errno || v < 0 || v > max ? NULL : json_integer(v);
}

static json_t *probe_parse_list(const char *text)
{
	json_t *list = json_array();
	char *copy = mem_strdup(text), *save = NULL;

	for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		json_t *v = json_array_size(list) < PROBE_LIST_MAX ? probe_parse_int(w, PROBE_INT_MAX) : NULL;

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

static json_t *probe_parse(char type, const char *text)
{
	char *end;
	double v;

	switch (type) {
	case 'i':
		return probe_parse_int(text, PROBE_INT_MAX);
	case 'b':
		return probe_parse_int(text, 1);
	case 'l':
		return probe_parse_list(text);
	default:
		must(type == 'r');
		v = strtod(text, &end);
		return end == text || *end || !(v >= 0 && v <= PROBE_REAL_MAX) ? NULL : json_real(v);
	}
}

/* What the type takes, with its limits. */
static void probe_option_limits(char type, struct buf *out)
{
	switch (type) {
	case 'i':
		buf_printf(out, "a whole number from 0 to %d", PROBE_INT_MAX);
		break;
	case 'b':
		buf_adds(out, "0 or 1");
		break;
	case 'l':
		buf_printf(out, "1 to %d whole numbers from 0 to %d with commas between", PROBE_LIST_MAX,
			   PROBE_INT_MAX);
		break;
	default:
		buf_printf(out, "a number from 0 to %d", PROBE_REAL_MAX);
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
	v = probe_parse(o->type, value);
	if (v) {
		json_object_set_new(options, option, v);
		return 0;
	}
	probe_option_limits(o->type, &limits);
	buf_why(why, RC_INVALID, "option %s of probe %s: \"%.96s\" is not %s", option, probe, value,
		buf_str(&limits));
	buf_fini(&limits);
	return RC_INVALID;
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

static int probe_fill_options(const char *name, json_t *given, json_t *options, struct buf *why)
{
	const char *key;
	json_t *value;
	int rc = 0;

	for (size_t i = 0; i < mem_countof(probe_options); i++)
		if (!strcmp(probe_options[i].probe, name))
			must_zero(probe_option_set(name, probe_options[i].name, probe_options[i].def, options, NULL));
	json_object_foreach(given, key, value)
		if (rc == 0)
			rc = probe_option_json(name, key, value, options, why);
	return rc;
}

int probe_run(const char *name, json_t *options, const struct probe_peer *peer, struct probe_result *ret_r,
	      struct buf *why)
{
	const struct probe_row *row = probe_find(name);
	struct probe_run run = { .name = name, .peer = peer, .result = ret_r, .total = 1 };
	int rc;

	if (!row)
		return buf_why(why, RC_NOT_FOUND, "no probe named \"%.96s\"", name);
	run.options = json_object();
	rc = probe_fill_options(name, options, run.options, why);
	if (rc == 0) {
		*ret_r = (struct probe_result){ .figures = json_object(), .requests = json_array() };
		row->run(&run);
	}
	json_decref(run.options);
	return rc;
}

void probe_result_fini(struct probe_result *r)
{
	json_decref(r->figures);
	json_decref(r->requests);
	buf_fini(&r->why);
	*r = (struct probe_result){ 0 };
}

json_t *probe_result_json(const char *name, const struct probe_result *r, double seconds)
{
	return json_pack("{s:s, s:s, s:s, s:O, s:O, s:f}", "name", name, "verdict", probe_verdict_name(r->verdict), "why",
			 buf_str(&r->why), "figures", r->figures, "requests", r->requests, "seconds", seconds);
}

json_t *probe_list(void)
{
	json_t *list = json_array();

	for (size_t i = 0; i < mem_countof(probe_rows); i++) {
		json_t *options = json_array();

		for (size_t k = 0; k < mem_countof(probe_options); k++)
			if (!strcmp(probe_options[k].probe, probe_rows[i].name))
				json_array_append_new(options, json_pack("{s:s, s:s, s:s}", "name", probe_options[k].name,
									 "default", probe_options[k].def, "text",
									 probe_options[k].text));
		json_array_append_new(list, json_pack("{s:s, s:s, s:o}", "name", probe_rows[i].name, "text",
						      probe_rows[i].text, "options", options));
	}
	return list;
}
