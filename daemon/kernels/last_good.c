/* SPDX-License-Identifier: MIT
 * last_good.c - the last kernel set that ran many steps without a failure: kept over restarts, started with after a
 * crash.
 * Threads: control; write_run() on ops. Locks: none. */
#include "daemon/kernels/last_good.h"
#include "ctl/varlink.h"
#include "daemon/daemon.h"
#include "daemon/kernels/plugins.h"
#include "daemon/state.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LAST_GOOD_FILE "last-good.json"

struct last_good_write {
	struct ops_job job;
	struct daemon *daemon;
	struct state *state;
	json_t *good;              /* control's, but for the run */
	char *text;
	uint64_t generation;
	int rc;
	struct buf why;
};

const char *last_good_name(const struct daemon *d)
{
	const char *s = json_string_value(json_object_get(d->kernels->good, "name"));

	return s ? s : "";
}

/* ---- reading ---- */

static bool last_good_strings(json_t *array)
{
	json_t *v;
	size_t i;

	json_array_foreach(array, i, v)
		if (!json_is_string(v))
			return false;
	return json_is_array(array);
}

static bool last_good_form(json_t *good)
{
	json_t *plugins = json_object_get(good, "plugins"), *p;
	size_t i;

	json_array_foreach(plugins, i, p)
		if (!json_string_value(json_object_get(p, "name")) ||
		    !json_string_value(json_object_get(p, "file")) ||
		    !json_string_value(json_object_get(p, "sha256")))
			return false;
	return json_is_array(plugins) && json_string_value(json_object_get(good, "name")) &&
	       last_good_strings(json_object_get(good, "overlays"));
}

void last_good_read(struct daemon *d)
{
	struct buf text = { 0 }, why = { 0 };
	json_t *good = NULL;
	int r = state_read(d->state, LAST_GOOD_FILE, &text, &why);

	if (r == 0) {
		good = json_loadb(text.data ? text.data : "", text.len, 0, NULL);
		if (!last_good_form(good))
			r = buf_why(&why, RC_JSON, "%s is malformed", LAST_GOOD_FILE);
	}
	if (r == 0) {
		json_decref(d->kernels->good);
		d->kernels->good = json_incref(good);
	} else if (r != -ENOENT) {
		log_event(LOG_LV_ERR, "last_good_unreadable", "why=%s", LOGQ(buf_str(&why)));
	}
	json_decref(good);
	buf_fini(&text);
	buf_fini(&why);
}

/* ---- writing ---- */

/* Once per plugin, however many families it serves: each line is loaded, and tried in a child, at the next start. */
static void last_good_plugin(json_t *plugins, const struct plugin *p)
{
	json_t *have;
	size_t i;

	json_array_foreach(plugins, i, have)
		if (!strcmp(json_string_value(json_object_get(have, "name")), p->name) &&
		    !strcmp(json_string_value(json_object_get(have, "sha256")), p->sha256))
			return;
	json_array_append_new(plugins, json_pack("{s:s, s:o, s:s}", "name", p->name, "file",
						 varlink_string(p->path, strlen(p->path)), "sha256", p->sha256));
}

static json_t *last_good_describe(struct daemon *d, const struct kernels_set *s)
{
	json_t *overlays = json_array(), *plugins = json_array();

	for (int i = 0; i < s->n_ov; i++) {
		struct plugin *p = plugins_of(d, s->ov[i].provider);
		struct buf spec = { 0 };

		kernels_spec_print(&s->ov[i], &spec);
		json_array_append_new(overlays, json_string(buf_str(&spec)));
		buf_fini(&spec);
		if (p)
			last_good_plugin(plugins, p);
	}
	return json_pack("{s:s, s:o, s:o}", "name", kset_name(s->kset), "overlays", overlays, "plugins", plugins);
}

static void write_run(struct ops_job *job)
{
	struct last_good_write *w = list_entry(job, struct last_good_write, job);

	w->rc = state_write(w->state, LAST_GOOD_FILE, w->text, strlen(w->text), &w->why);
}

static void write_done(struct ops_job *job)
{
	struct last_good_write *w = list_entry(job, struct last_good_write, job);
	struct kernels *k = w->daemon->kernels;

	k->good_writing = false;
	k->good_tried = w->generation; /* also when it failed: not again every second */
	if (w->rc) {
		log_event(LOG_LV_ERR, "last_good_failed", "why=%s", LOGQ(buf_str(&w->why)));
	} else {
		json_decref(k->good);
		k->good = json_incref(w->good);
		k->good_generation = w->generation;
		log_event(LOG_LV_NOTICE, "last_good", "set=%s generation=%llu", LOGQ(last_good_name(w->daemon)),
			  (unsigned long long)w->generation);
	}
	json_decref(w->good);
	free(w->text);
	buf_fini(&w->why);
	free(w);
}

static void last_good_write(struct daemon *d)
{
	struct kernels_set *s = d->kernels->active;
	struct last_good_write *w = mem_new(sizeof *w);

	*w = (struct last_good_write){ .job = { .run = write_run, .done = write_done, .patient = true }, .daemon = d,
				       .state = d->state, .good = last_good_describe(d, s),
				       .generation = kset_generation(s->kset) };
	w->text = json_dumps(w->good, JSON_INDENT(1));
	must(w->text != NULL);
	if (ops_submit(d->ops, &w->job, NULL) == 0) {
		d->kernels->good_writing = true;
		return;
	}
	json_decref(w->good);
	free(w->text);
	free(w);
}

void last_good_tick(struct daemon *d)
{
	struct kernels *k = d->kernels;
	struct engine_status s;

	if (!d->engine || !k->active || k->good_writing || kset_generation(k->active->kset) == k->good_tried)
		return;
	engine_status(d->engine, &s);
	if (s.set_failures == 0 && s.set_steps >= (uint64_t)conf_int(&d->conf, CONF_good_steps))
		last_good_write(d);
}

/* ---- using ---- */

static struct kernels_set *last_good_alive(struct daemon *d)
{
	uint64_t generation = d->kernels->good_generation;

	list_each(s, &d->kernels->sets, struct kernels_set, node)
		if (kset_generation(s->kset) == generation && kset_try_pin(s->kset))
			return s;
	return NULL;
}

/* A plugin of the same name with other bytes is another plugin. */
static int last_good_same(struct daemon *d, struct buf *why)
{
	json_t *plugins = json_object_get(d->kernels->good, "plugins"), *v;
	size_t i;

	json_array_foreach(plugins, i, v) {
		const char *name = json_string_value(json_object_get(v, "name"));
		struct plugin *p = plugins_find(d, name);

		if (p && strcmp(p->sha256, json_string_value(json_object_get(v, "sha256"))) != 0)
			return plugin_refuse(why, PLUGIN_REFUSED_changed, "last-good had another %s", name);
	}
	return 0;
}

int last_good_resolve(struct daemon *d, struct kernels_set **ret_s, struct buf *why)
{
	json_t *overlays = json_object_get(d->kernels->good, "overlays"), *v;
	struct kset_overlay ov[KSET_MAX_OVERLAYS];
	size_t i;
	int n = 0, r = 0;

	if (!overlays)
		return buf_why(why, RC_NOT_FOUND, "no kernel set is last-good yet");
	*ret_s = last_good_alive(d);
	if (*ret_s)
		return 0;
	r = last_good_same(d, why);
	json_array_foreach(overlays, i, v)
		r = r ? r : kernels_spec_add(d, json_string_value(v), ov, &n, why);
	return r ? r : kernels_build(d, ov, n, ret_s, why);
}
