/* SPDX-License-Identifier: MIT
 * probe.c - the table of probes: names, figures, results, one run.
 * Threads: one at a time per run. Locks: none. */
#include "ctl/probe/probe.h"
#include "ctl/probe/probe_option.h"
#include "ctl/probe/probe_run.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <string.h>

static const struct probe_row {
	const char *name, *text;
	probe_f *run;
} probe_rows[] = {
#define PROBE(name, text) { #name, text, probe_##name },
#include "ctl/probe/probe.def"
};

static const struct probe_declared {
	const char *probe, *name, *text;
} probe_figures[] = {
#define FIGURE(probe, name, text) { #probe, name, text },
#include "ctl/probe/probe.def"
};

static const char *const probe_verdicts[] = { "pass", "warn", "fail", "inconclusive" };

const char *probe_verdict_name(enum probe_verdict v)
{
	return probe_verdicts[v];
}

enum probe_verdict probe_worse(enum probe_verdict a, enum probe_verdict b)
{
	/* In the order of enum probe_verdict. */
	static const int weight[] = { 0, 2, 3, 1 };

	return weight[b] > weight[a] ? b : a;
}

static const struct probe_row *probe_find(const char *name)
{
	for (size_t i = 0; i < mem_countof(probe_rows); i++)
		if (!strcmp(probe_rows[i].name, name))
			return &probe_rows[i];
	return NULL;
}

const char *probe_name(int i)
{
	return i >= 0 && (size_t)i < mem_countof(probe_rows) ? probe_rows[i].name : NULL;
}

bool probe_exists(const char *name)
{
	return probe_find(name) != NULL;
}

bool probe_figure_declared(const char *probe, const char *figure, bool *ret_many)
{
	for (size_t i = 0; i < mem_countof(probe_figures); i++) {
		const char *name = probe_figures[i].name;
		size_t n = strcspn(name, "*");

		if (strcmp(probe_figures[i].probe, probe) != 0 || strncmp(name, figure, n) != 0 ||
		    (!name[n] && figure[n]))
			continue;
		*ret_many = name[n] == '*';
		return true;
	}
	return false;
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
	rc = probe_option_fill(name, options, run.options, why);
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
	return json_pack("{s:s, s:s, s:s, s:O, s:O, s:f}", "name", name, "verdict", probe_verdict_name(r->verdict),
			 "why", buf_str(&r->why), "figures", r->figures, "requests", r->requests, "seconds", seconds);
}

static json_t *probe_list_figures(const char *probe)
{
	json_t *figures = json_array();

	for (size_t i = 0; i < mem_countof(probe_figures); i++)
		if (!strcmp(probe_figures[i].probe, probe))
			json_array_append_new(figures, json_pack("{s:s, s:s}", "name", probe_figures[i].name, "text",
								 probe_figures[i].text));
	return figures;
}

json_t *probe_list(void)
{
	json_t *list = json_array();

	for (size_t i = 0; i < mem_countof(probe_rows); i++) {
		const struct probe_row *p = &probe_rows[i];

		json_array_append_new(list,
				      json_pack("{s:s, s:s, s:o, s:o}", "name", p->name, "text", p->text, "options",
						probe_option_list(p->name), "figures",
						probe_list_figures(p->name)));
	}
	return list;
}

/* Once each: a name said twice, or besides "all", is one run. */
static void probe_name_add(json_t *names, const char *name)
{
	json_t *v;
	size_t i;

	json_array_foreach(names, i, v)
		if (!strcmp(json_string_value(v), name))
			return;
	json_array_append_new(names, json_string(name));
}

int probe_names(json_t *said, json_t **ret_names, struct buf *why)
{
	json_t *names = json_array(), *v;
	size_t i;

	json_array_foreach(said, i, v) {
		const char *name = json_string_value(v);
		bool all = name && !strcmp(name, PROBE_ALL);

		if (!name || (!all && !probe_exists(name))) {
			json_decref(names);
			return buf_why(why, RC_NOT_FOUND, "no probe named '%.96s'", name ? name : "");
		}
		for (size_t k = 0; k < mem_countof(probe_rows); k++)
			if (all || !strcmp(probe_rows[k].name, name))
				probe_name_add(names, probe_rows[k].name);
	}
	for (i = 0; i < mem_countof(probe_rows) && !said; i++)
		probe_name_add(names, probe_rows[i].name);
	*ret_names = names;
	return 0;
}
