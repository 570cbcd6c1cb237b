/* SPDX-License-Identifier: MIT
 * start.c - the kernels that a run begins with: [plugins] load and [kernels] use, or what a crash leads to.
 * Threads: control; plugins are loaded on ops, one after the other. Locks: none.
 *
 * First what `load` names; a plugin that is refused there is an error in the log and nothing more. Then the plugins
 * of the plan that are not there yet. Then the plan's set. When last-good fails, the configuration's plan follows.
 * A set that crashes again and again is given up: last-good may be what crashes.
 *
 * `use = auto` makes a plan of each plugin of `prefer` in turn that is there, until one can be had. On a GPU it goes on
 * to the end of `prefer_gpu` and lays each over those before: the first computes all, the others some of it faster. */
#include "daemon/kernels/start.h"
#include "daemon/daemon.h"
#include "daemon/kernels/kernels.h"
#include "daemon/kernels/last_good.h"
#include "daemon/kernels/plugins.h"
#include "daemon/state.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define START_PROVEN_MS 60000

struct start {
	struct daemon *daemon;
	void (*done)(struct daemon *d, int rc, const char *why);
	json_t *load;              /* [{file, sha256}], what is still to be loaded */
	json_t *use;               /* [SPEC] */
	enum start_from from;      /* the plan */
	bool planned;              /* `load` is the plan's, no more the configuration's list */
	json_t *prefer;            /* what `use = auto` has not tried yet */
	json_t *trying;            /* the one that is tried, or NULL */
	bool layers;               /* a GPU: those that could be had are laid one over the other */
	struct plugin **laid;      /* they, wanted: the first shall not cool while the last is tried */
	int n_laid;
};

static const char *const start_froms[] = { "configuration", "last_good", "ref" };

const char *start_from_name(enum start_from f)
{
	return start_froms[f];
}

/* ---- plans ---- */

static enum start_from start_rung(struct daemon *d)
{
	int unclean = state_unclean(d->state);

	if (unclean == 0 || unclean == 3)
		return START_CONFIGURATION;
	if (unclean > 3)
		return START_REF;
	return json_is_object(d->kernels->good) ? START_LAST_GOOD : START_CONFIGURATION;
}

json_t *start_words(const char *text)
{
	char *copy = mem_strdup(text), *save = NULL;
	json_t *words = json_array();

	for (char *s = strtok_r(copy, " \t", &save); s; s = strtok_r(NULL, " \t", &save))
		json_array_append_new(words, json_string(s));
	free(copy);
	return words;
}

/* Once, however often it is named. */
static void start_add(struct start *s, const char *file, const char *sha256)
{
	json_t *one = json_pack("{s:s, s:s*}", "file", file, "sha256", sha256), *other;
	size_t i;

	json_array_foreach(s->load, i, other)
		if (json_equal(one, other)) {
			json_decref(one);
			return;
		}
	json_array_append_new(s->load, one);
}

static void start_add_words(struct start *s, const char *text)
{
	json_t *words = start_words(text), *w;
	size_t i;

	json_array_foreach(words, i, w)
		start_add(s, json_string_value(w), NULL);
	json_decref(words);
}

static void start_plan_good(struct start *s)
{
	json_t *good = s->daemon->kernels->good, *p;
	size_t i;

	json_array_foreach(json_object_get(good, "plugins"), i, p) {
		struct plugin *have = plugins_find(s->daemon, json_string_value(json_object_get(p, "name")));
		const char *sha256 = json_string_value(json_object_get(p, "sha256"));

		if (!have || strcmp(have->sha256, sha256) != 0)
			start_add(s, json_string_value(json_object_get(p, "file")), sha256);
	}
	s->use = json_incref(json_object_get(good, "overlays"));
}

static bool start_there(struct daemon *d, const char *plugin)
{
	struct buf path = { 0 };
	bool there;

	buf_printf(&path, "%s/%s.so", conf_text(&d->conf, CONF_dir), plugin);
	there = access(buf_str(&path), F_OK) == 0;
	buf_fini(&path);
	return there;
}

/* The next of `prefer` that is there; NULL: there is none left. */
static const char *start_prefer_next(struct start *s)
{
	const char *name;

	json_decref(s->trying);
	while ((s->trying = json_incref(json_array_get(s->prefer, 0))) != NULL) {
		json_array_remove(s->prefer, 0);
		name = json_string_value(s->trying);
		if (plugins_find(s->daemon, name) || start_there(s->daemon, name))
			return name;
		json_decref(s->trying);
	}
	return NULL;
}

static void start_plan_auto(struct start *s)
{
	const char *name = start_prefer_next(s);

	s->use = json_array();
	for (int i = 0; i < s->n_laid; i++)
		json_array_append_new(s->use, json_sprintf("all=%s", s->laid[i]->name));
	if (!s->layers && name)
		json_array_append_new(s->use, json_sprintf("all=%s", name));
	if (name && !plugins_find(s->daemon, name))
		start_add(s, name, NULL);
	if (!name && json_array_size(s->use) == 0)
		log_event(LOG_LV_NOTICE, "kernels_auto", "set=ref why=%s", LOGQ("no faster plugin can be had"));
}

static void start_plan_configured(struct start *s)
{
	const char *use = conf_text(&s->daemon->conf, CONF_use);
	struct buf why = { 0 };
	json_t *w;
	size_t i;

	if (!strcmp(use, "auto")) {
		start_plan_auto(s);
		return;
	}
	s->use = strcmp(use, provider_ref.plugin->name) ? start_words(use) : json_array();
	json_array_foreach(s->use, i, w) {
		const char *name;

		if (kernels_spec_plugin(json_string_value(w), &name, &why) == 0 &&
		    strcmp(name, provider_ref.plugin->name) != 0 && !plugins_find(s->daemon, name))
			start_add(s, name, NULL);
	}
	buf_fini(&why);
}

/* ---- one step after the other ---- */

static void start_next(struct start *s);

static void start_free(struct start *s)
{
	json_decref(s->load);
	json_decref(s->use);
	json_decref(s->prefer);
	json_decref(s->trying);
	for (int i = 0; i < s->n_laid; i++)
		s->laid[i]->wanted--;
	free(s->laid);
	free(s);
}

static void start_end(struct start *s, int rc, const char *why)
{
	s->done(s->daemon, rc, why);
	start_free(s);
}

static void start_plan(struct start *s, enum start_from from)
{
	json_decref(s->use);
	json_array_clear(s->load);
	s->from = from;
	s->use = NULL;
	s->planned = true;
	if (from == START_LAST_GOOD)
		start_plan_good(s);
	else if (from == START_CONFIGURATION)
		start_plan_configured(s);
	start_next(s);
}

static void start_pass_over(struct start *s, const char *name, const char *why)
{
	log_event(LOG_LV_NOTICE, "kernels_passed_over", "plugin=%s why=%s", name, LOGQ(why));
	start_plan(s, START_CONFIGURATION);
}

static bool start_lossy(const struct plugin_facts *f)
{
	for (int i = 0; i < f->n_op; i++)
		if (f->op[i].numerics == DSV4_LOSSY)
			return true;
	return false;
}

/* What is tried can be had: the next is tried over it. Nobody has asked for other numbers than ref's. */
static void start_lay(struct start *s)
{
	struct plugin *p = plugins_find(s->daemon, json_string_value(s->trying));

	if (!p || start_lossy(&p->facts)) {
		start_pass_over(s, json_string_value(s->trying),
				p ? "it is lossy, and is used where it is asked for by name" :
				"its file is a plugin of another name");
		return;
	}
	p->wanted++;
	s->laid = mem_grow(s->laid, (size_t)s->n_laid + 1, sizeof *s->laid);
	s->laid[s->n_laid++] = p;
	start_plan(s, START_CONFIGURATION);
}

/* Together they cannot be had: without the last. */
static void start_lay_less(struct start *s, const char *why)
{
	struct plugin *last = s->laid[--s->n_laid];

	last->wanted--;
	start_pass_over(s, last->name, why);
}

static void start_failed(struct start *s, int rc, const char *why)
{
	if (s->from == START_CONFIGURATION && s->trying) {
		start_pass_over(s, json_string_value(s->trying), why);
		return;
	}
	if (s->from == START_CONFIGURATION && s->n_laid > 0) {
		start_lay_less(s, why);
		return;
	}
	if (s->from != START_LAST_GOOD) {
		start_end(s, rc, why);
		return;
	}
	log_event(LOG_LV_ERR, "last_good_failed", "set=%s why=%s", LOGQ(last_good_name(s->daemon)), LOGQ(why));
	start_plan(s, START_CONFIGURATION);
}

static int start_use(struct start *s, struct buf *why)
{
	struct daemon *d = s->daemon;
	struct kset_overlay ov[KSET_MAX_OVERLAYS];
	struct kernels_set *set;
	json_t *w;
	size_t i;
	int n = 0, r = 0;

	json_array_foreach(s->use, i, w)
		r = r ? r : kernels_spec_add(d, json_string_value(w), ov, &n, why);
	r = r ? r : kset_overlays_reduce(ov, &n, why);
	if (r || n == 0)
		return r;
	r = kernels_build(d, ov, n, &set, why);
	return r ? r : kernels_activate(d, set, NULL, &(struct kernels_how){
		.name = s->from == START_LAST_GOOD ? "last-good" : s->trying || s->n_laid ? "auto" :
			"configuration" }, why);
}

/* What an unclean end has led to. */
static void start_log(struct start *s)
{
	struct daemon *d = s->daemon;
	const char *set = kset_name(d->kernels->active->kset);
	int n = state_unclean(d->state);

	if (n == 0)
		return;
	if (s->from == START_LAST_GOOD)
		log_event(LOG_LV_NOTICE, "started_from_last_good", "set=%s unclean_ends=%d why=%s", LOGQ(set), n,
			  LOGQ("the last run did not end in order"));
	else if (s->from == START_REF)
		log_event(LOG_LV_ERR, "started_from_ref", "set=%s unclean_ends=%d why=%s", LOGQ(set), n,
			  LOGQ("runs with last-good and with the configuration did not end in order"));
	else if (n > 2)
		log_event(LOG_LV_ERR, "started_from_configuration", "set=%s unclean_ends=%d why=%s", LOGQ(set), n,
			  LOGQ("three runs in a row did not end in order"));
	else if (!json_is_object(d->kernels->good))
		log_event(LOG_LV_WARN, "unclean_start", "set=%s unclean_ends=%d why=%s", LOGQ(set), n,
			  LOGQ("the last run did not end in order, and no kernel set is last-good"));
}

static void start_activate(struct start *s)
{
	struct buf why = { 0 };
	int r = start_use(s, &why);

	if (r) {
		start_failed(s, r, buf_str(&why));
		buf_fini(&why);
		return;
	}
	s->daemon->kernels->from = s->from;
	start_log(s);
	start_end(s, 0, "");
}

static void start_loaded(void *arg, struct plugin *p, int rc, const char *why)
{
	struct start *s = arg;

	(void)p;
	if (s->daemon->stopping)
		start_free(s);
	else if (rc && s->planned)
		start_failed(s, rc, why);
	else
		start_next(s);
}

static void start_next(struct start *s)
{
	struct daemon *d = s->daemon;
	struct buf why = { 0 };
	json_t *one = json_incref(json_array_get(s->load, 0));
	int r;

	manager_progress(&d->manager, "trying kernels");
	if (!one && !s->planned) {
		start_plan(s, start_rung(d));
		return;
	}
	if (!one && s->from == START_CONFIGURATION && s->trying && s->layers) {
		start_lay(s);
		return;
	}
	if (!one) {
		start_activate(s);
		return;
	}
	json_array_remove(s->load, 0);
	r = plugin_load(d, json_string_value(json_object_get(one, "file")),
			json_string_value(json_object_get(one, "sha256")),
			&(struct plugin_told){ .done = start_loaded, .arg = s, .trusting = true }, &why);
	if (r)
		start_loaded(s, NULL, r, buf_str(&why));
	json_decref(one);
	buf_fini(&why);
}

void start_kernels(struct daemon *d, void (*done)(struct daemon *d, int rc, const char *why))
{
	struct start *s = mem_new(sizeof *s);
	bool gpu = device_is_gpu(d->device);

	*s = (struct start){ .daemon = d, .done = done, .load = json_array(), .layers = gpu,
			     .prefer = start_words(conf_text(&d->conf, gpu ? CONF_prefer_gpu : CONF_prefer)) };
	if (start_rung(d) != START_REF) /* loading may be what ended them */
		start_add_words(s, conf_text(&d->conf, CONF_load));
	start_next(s);
}

void start_tick(struct daemon *d)
{
	struct buf why = { 0 };
	struct engine_status s;

	if (d->kernels->proven || !d->engine || clock_ms() - d->started < START_PROVEN_MS)
		return;
	engine_status(d->engine, &s);
	if (s.set_failures || s.set_steps < (uint64_t)conf_int(&d->conf, CONF_good_steps))
		return;
	d->kernels->proven = true;
	if (state_proven(d->state, &why))
		log_event(LOG_LV_ERR, "state_failed", "why=%s", LOGQ(buf_str(&why)));
	buf_fini(&why);
}
