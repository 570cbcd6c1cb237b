/* SPDX-License-Identifier: MIT
 * probe_history.c - what probes found: the latest runs, kept over restarts, and counts of this process.
 * Threads: any; probe_history_add() where blocking is fine. Lock: probe_history. */
#include "daemon/probes/probe_history.h"
#include "ctl/probe/probe.h"
#include "engine/base/lock.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/base/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HISTORY_MAX_WHY 4000     /* bytes of a run's reason */
#define HISTORY_MAX_REQUESTS 256 /* ids of a run */

struct probe_history {
	struct lock lock; /* guards all below */
	json_t *runs;     /* the newest last */
	json_t *counts;   /* {probe: {verdict: runs}} */
	bool failing;     /* it could not be written: said once, until it could */
};

struct probe_history *probe_history_new(void)
{
	struct probe_history *h = mem_new(sizeof *h);

	lock_init(&h->lock, "probe_history");
	h->runs = json_array();
	h->counts = json_object();
	return h;
}

void probe_history_free(struct probe_history **hp)
{
	struct probe_history *h = *hp;

	*hp = NULL;
	if (!h)
		return;
	json_decref(h->runs);
	json_decref(h->counts);
	lock_fini(&h->lock);
	free(h);
}

static const char *history_probe(json_t *run)
{
	return json_string_value(json_object_get(json_object_get(run, "result"), "name"));
}

static const char *history_verdict(json_t *run)
{
	return json_string_value(json_object_get(json_object_get(run, "result"), "verdict"));
}

/* ---- the form of a run: a file is believed in nothing ---- */

#define HISTORY_LAST_SECOND 253402300799.0 /* of the year 9999 */

static const struct history_field {
	const char *name;
	json_type type;
	bool in_result;
	double most; /* of a number, which is not negative; 0: any */
} history_fields[] = {
	{ "time", JSON_REAL, false, HISTORY_LAST_SECOND },
	{ "by", JSON_STRING, false, 0 },       { "kernels", JSON_STRING, false, 0 },
	{ "numerics", JSON_STRING, false, 0 }, { "epoch", JSON_INTEGER, false, 1e18 },
	{ "model", JSON_STRING, false, 0 },    { "model_id", JSON_STRING, false, 0 },
	{ "quick", JSON_TRUE, false, 0 },      { "changed", JSON_TRUE, false, 0 },
	{ "result", JSON_OBJECT, false, 0 },
	{ "name", JSON_STRING, true, 0 },      { "verdict", JSON_STRING, true, 0 },
	{ "why", JSON_STRING, true, 0 },       { "seconds", JSON_REAL, true, HISTORY_LAST_SECOND },
	{ "figures", JSON_OBJECT, true, 0 },   { "requests", JSON_ARRAY, true, 0 },
};

static bool history_has(json_t *o, const struct history_field *f)
{
	json_t *v = json_object_get(o, f->name);

	if (f->most > 0 && !(json_number_value(v) >= 0 && json_number_value(v) <= f->most))
		return false;
	return f->type == JSON_TRUE ? json_is_boolean(v) : f->type == JSON_REAL ? json_is_number(v) :
	       v && json_typeof(v) == f->type;
}

static bool history_is_verdict(const char *name)
{
	for (int v = PROBE_PASS; v <= PROBE_INCONCLUSIVE; v++)
		if (!strcmp(name, probe_verdict_name((enum probe_verdict)v)))
			return true;
	return false;
}

static bool history_is_run(json_t *run)
{
	json_t *result = json_object_get(run, "result"), *v;
	const char *name;
	size_t i;

	for (i = 0; i < mem_countof(history_fields); i++)
		if (!history_has(history_fields[i].in_result ? result : run, &history_fields[i]))
			return false;
	json_object_foreach(json_object_get(result, "figures"), name, v)
		if (!json_is_number(v))
			return false;
	json_array_foreach(json_object_get(result, "requests"), i, v)
		if (!json_is_string(v))
			return false;
	return json_object_size(run) + json_object_size(result) == mem_countof(history_fields) &&
	       history_is_verdict(history_verdict(run));
}

/* ---- limits ---- */

/* What a server says may be long, and is told in a verdict's reason. */
static void history_shorten(json_t *run)
{
	json_t *result = json_object_get(run, "result"), *ids = json_object_get(result, "requests");
	const char *why = json_string_value(json_object_get(result, "why"));
	struct buf text = { 0 };

	while (json_array_size(ids) > HISTORY_MAX_REQUESTS)
		json_array_remove(ids, json_array_size(ids) - 1);
	if (!why || strlen(why) <= HISTORY_MAX_WHY)
		return;
	buf_add(&text, why, utf8_valid(why, HISTORY_MAX_WHY));
	buf_adds(&text, " ...");
	json_object_set_new(result, "why", json_string(buf_str(&text)));
	buf_fini(&text);
}

/* All runs as one text, a line each: the oldest leave until it fits. Under the lock. */
static void history_print(struct probe_history *h, struct buf *out)
{
	size_t n = json_array_size(h->runs), first = n, bytes = 0;
	char **line = mem_grow(NULL, n + 1, sizeof *line);

	while (first > 0 && n - first < PROBE_HISTORY_RUNS) {
		char *s = json_dumps(json_array_get(h->runs, first - 1), JSON_COMPACT);

		must(s != NULL);
		bytes += strlen(s) + 2;
		if (bytes > PROBE_HISTORY_BYTES) {
			free(s);
			break;
		}
		line[--first] = s;
	}
	buf_adds(out, "{\"version\": 1, \"runs\": [");
	for (size_t i = first; i < n; i++) {
		buf_printf(out, "%s\n%s", i > first ? "," : "", line[i]);
		free(line[i]);
	}
	buf_adds(out, "\n]}\n");
	free(line);
	for (; first > 0; first--)
		json_array_remove(h->runs, 0);
}

/* ---- over restarts ---- */

static int history_parse(struct probe_history *h, const struct buf *text, struct buf *why)
{
	json_t *all = json_loadb(text->data ? text->data : "", text->len, JSON_REJECT_DUPLICATES, NULL), *run;
	json_t *runs = json_object_get(all, "runs");
	bool sound = json_integer_value(json_object_get(all, "version")) == 1 && json_is_array(runs);
	size_t i;

	json_array_foreach(runs, i, run)
		sound = sound && history_is_run(run);
	if (sound && json_array_size(runs) <= PROBE_HISTORY_RUNS) {
		json_decref(h->runs);
		h->runs = json_incref(runs);
	} else {
		sound = false;
	}
	json_decref(all);
	return sound ? 0 : buf_why(why, RC_JSON, "it is no history of probes");
}

void probe_history_read(struct probe_history *h, const struct state *s)
{
	struct buf text = { 0 }, why = { 0 }, failed = { 0 };
	int r = s ? state_read(s, PROBE_HISTORY_FILE, &text, &why) : -ENOENT;

	lock_take(&h->lock);
	r = r ? r : history_parse(h, &text, &why);
	lock_drop(&h->lock);
	if (r && r != -ENOENT) {
		if (state_set_aside(s, PROBE_HISTORY_FILE, &failed))
			buf_printf(&why, "; %s", buf_str(&failed));
		log_event(LOG_LV_WARN, "probe_history_damaged", "file=%s why=%s", PROBE_HISTORY_FILE,
			  LOGQ(buf_str(&why)));
	}
	buf_fini(&text);
	buf_fini(&why);
	buf_fini(&failed);
}

static void history_write(struct probe_history *h, const struct state *s, const struct buf *text)
{
	struct buf why = { 0 };
	bool failing = s && state_write(s, PROBE_HISTORY_FILE, buf_str(text), text->len, &why), told;

	lock_take(&h->lock);
	told = h->failing;
	h->failing = failing;
	lock_drop(&h->lock);
	if (failing && !told)
		log_event(LOG_LV_ERR, "probe_history_not_kept", "why=%s", LOGQ(buf_str(&why)));
	buf_fini(&why);
}

/* ---- a new run ---- */

static void history_count(json_t *counts, json_t *run)
{
	const char *name = history_probe(run), *verdict = history_verdict(run);
	json_t *of = json_object_get(counts, name);

	if (!of) {
		of = json_object();
		for (int v = PROBE_PASS; v <= PROBE_INCONCLUSIVE; v++)
			json_object_set_new(of, probe_verdict_name((enum probe_verdict)v), json_integer(0));
		must_zero(json_object_set_new(counts, name, of));
	}
	must_zero(json_object_set_new(of, verdict, json_integer(json_integer_value(json_object_get(of, verdict)) + 1)));
}

void probe_history_add(struct probe_history *h, const struct state *s, json_t *run)
{
	json_t *copy = json_deep_copy(run); /* replies go on using theirs on another thread */
	struct buf text = { 0 };

	must(history_is_run(copy));
	history_shorten(copy);
	lock_take(&h->lock);
	history_count(h->counts, copy);
	must_zero(json_array_append_new(h->runs, copy));
	history_print(h, &text);
	lock_drop(&h->lock);
	history_write(h, s, &text);
	buf_fini(&text);
}

/* ---- telling ---- */

json_t *probe_history_list(struct probe_history *h, const char *probe, bool failed, size_t max)
{
	json_t *list = json_array();

	lock_take(&h->lock);
	for (size_t i = json_array_size(h->runs); i-- > 0 && json_array_size(list) < max;) {
		json_t *run = json_array_get(h->runs, i);

		if ((!probe || !strcmp(history_probe(run), probe)) &&
		    (!failed || !strcmp(history_verdict(run), probe_verdict_name(PROBE_FAIL))))
			json_array_append_new(list, json_deep_copy(run));
	}
	lock_drop(&h->lock);
	return list;
}

json_t *probe_history_last(struct probe_history *h)
{
	json_t *last = json_object(), *run;
	size_t i;

	lock_take(&h->lock);
	json_array_foreach(h->runs, i, run)
		json_object_set_new(last, history_probe(run), json_deep_copy(run));
	lock_drop(&h->lock);
	return last;
}

json_t *probe_history_counts(struct probe_history *h)
{
	json_t *counts;

	lock_take(&h->lock);
	counts = json_deep_copy(h->counts);
	lock_drop(&h->lock);
	return counts;
}

bool probe_history_unkept(struct probe_history *h)
{
	bool failing;

	lock_take(&h->lock);
	failing = h->failing;
	lock_drop(&h->lock);
	return failing;
}
