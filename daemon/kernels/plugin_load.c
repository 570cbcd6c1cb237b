/* SPDX-License-Identifier: MIT
 * plugin_load.c - from a file to a warm plugin, and back: read, copied, tried, mapped, opened, warmed; cooled.
 * Threads: load_run() and cool_run() with what they call on ops, the rest on control. Locks: none. */
#include "daemon/daemon.h"
#include "daemon/kernels/exactness.h"
#include "daemon/kernels/plugins.h"
#include "daemon/state.h"
#include "daemon/kernels/trial.h"
#include "daemon/kernels/trial_passed.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOAD_SEEDS 1000000007 /* few digits, to be typed */

/* One load. Control fills it, ops works on all but `plugin`, control takes what came of it. */
struct plugin_load {
	struct ops_job job;
	struct daemon *daemon;
	struct plugin *plugin;     /* control's: the one to warm, or one in the list without facts yet */
	bool again;                /* it was loaded before */
	const char *dir, *copies;  /* the configuration's, the state's; do not change */
	char *path, *sha256;       /* sha256 NULL: any */
	const struct state *state;
	bool trusting;             /* as of plugin_told, after a run that ended in order */
	bool remembered;           /* the trial */
	int stage_ms;              /* as of trial_options */
	uint64_t seed;             /* of the trial's check: other values and numbers of tokens in every load */
	struct plugin_file *file;
	struct plugin_map *map;
	plugin_done_f *done;
	void *arg;
	long long started;
	int rc;
	struct buf why;
};

/* ---- loading, on the ops thread ---- */

/* What plugins say while they are opened, warmed or closed. */
static void load_log(const struct provider *p, int level, const char *text)
{
	enum log_level l = level < LOG_LV_ERR ? LOG_LV_ERR : level > LOG_LV_DEBUG ? LOG_LV_DEBUG :
			   (enum log_level)level;

	log_event(l, "plugin_says", "name=%s text=%s", p->plugin->name, LOGQ(text));
}

static int load_map(struct plugin_load *l, struct buf *why)
{
	char *copy;
	int r = plugin_file_copy(l->file, l->copies, &copy, why);

	if (r)
		return r;
	r = plugin_map_new(copy, l->file, load_log, &l->map, why);
	if (r)
		return r;
	for (int i = 0; i < ranks_n(l->daemon->ranks); i++)
		plugin_map_on(l->map, ranks_device(l->daemon->ranks, i));
	l->map->provider.shipped = exactness_shipped(l->file->sha256);
	r = plugin_map_open(l->map, why);
	r = r ? r : plugin_map_warm(l->map, why);
	if (r)
		plugin_map_free(&l->map, NULL);
	return r;
}

static int load_cancelled(struct plugin_load *l, struct buf *why)
{
	return atomic_load(&l->job.cancel) ? buf_why(why, RC_CANCELLED, "the load was cancelled") : 0;
}

static void load_trial_key(const struct plugin_load *l, struct buf *out)
{
	trial_passed_key(l->file->sha256, *l->file->facts.gpu, l->daemon->device, out);
}

/* Whatever it was refused for, the next start does not take it on trust. */
static void load_forget(const struct plugin_load *l)
{
	struct buf why = { 0 }, key = { 0 };

	load_trial_key(l, &key);
	if (trial_passed_forget(l->state, buf_str(&key), &why))
		log_event(LOG_LV_ERR, "trial_not_forgotten", "file=%s sha256=%s why=%s", LOGQ(l->path), l->file->sha256,
			  LOGQ(buf_str(&why)));
	buf_fini(&why);
	buf_fini(&key);
}

/* At a start that follows an orderly end, a file that was built with this program need not show again what it showed
 * here before, of a GPU on one of the kind. Any other load is tried anew, with other values: somebody waits for the
 * word. */
static int load_try(struct plugin_load *l, struct buf *why)
{
	/* Tiny shapes: whether it is right on the model's own is for `plugin check`, which may take minutes. */
	const struct trial_options trial = { .stage_ms = l->stage_ms, .seed = l->seed, .cancel = &l->job.cancel,
					     .device = device_name(l->daemon->device) };
	bool shipped = exactness_shipped(l->file->sha256) && !disproved_find(l->file->sha256);
	struct buf left = { 0 }, key = { 0 };
	int r;

	load_trial_key(l, &key);
	l->remembered = shipped && l->trusting && trial_passed(l->state, buf_str(&key));
	r = l->remembered ? 0 : trial_run(l->file, l->copies, &trial, why);
	if (!r && shipped && !l->remembered && trial_passed_keep(l->state, buf_str(&key), &left))
		log_event(LOG_LV_WARN, "trial_not_kept", "why=%s", LOGQ(buf_str(&left)));
	buf_fini(&left);
	buf_fini(&key);
	return r;
}

/* Tried, then for good. */
static int load_believe(struct plugin_load *l, struct buf *why)
{
	int r = load_try(l, why);

	r = r ? r : load_cancelled(l, why);
	r = r ? r : load_map(l, why);
	if (r == RC_PLUGIN)
		load_forget(l);
	return r;
}

static void load_run(struct ops_job *job)
{
	struct plugin_load *l = list_entry(job, struct plugin_load, job);
	struct buf *why = &l->why;
	int r = load_cancelled(l, why);

	if (!r && !*l->copies)
		r = buf_why(why, RC_NOT_READY, "there is no usable state directory for the plugin's copies");
	r = r ? r : plugin_file_open(l->dir, l->path, geteuid(), &l->file, why);
	if (!r && l->sha256 && strcasecmp(l->sha256, l->file->sha256) != 0)
		r = plugin_refuse(why, PLUGIN_REFUSED_changed, "sha256 is %s, not %s", l->file->sha256, l->sha256);
	r = r ? r : plugin_facts_fit_ranks(&l->file->facts, l->daemon->ranks, why);
	l->rc = r ? r : load_believe(l, why);
}

/* ---- loading, on the control thread ---- */

static void load_supersede(struct daemon *d, struct plugin *p)
{
	list_each(old, &d->plugins->list, struct plugin, node)
		if (old != p && !strcmp(old->name, p->name) && !old->superseded) {
			p->intent = old->intent == INTENT_WARM ? INTENT_WARM : p->intent;
			old->superseded = true;
			plugin_complain(old, NULL);
		}
}

static void load_install(struct plugin_load *l)
{
	struct plugin *p = l->plugin;
	struct daemon *d = l->daemon;

	p->facts = l->file->facts;
	memcpy(p->sha256, l->file->sha256, sizeof p->sha256);
	free(p->name);
	p->name = mem_strdup(p->facts.name);
	p->map = l->map;
	l->map = NULL;
	p->temp = TEMP_WARM;
	p->generation = ++d->plugins->generations;
	p->idle_since = 0;
	plugin_complain(p, NULL);
	if (!l->again) {
		p->superseded = false;
		load_supersede(d, p);
	}
	log_event(LOG_LV_NOTICE, "plugin_warm", "name=%s version=%s generation=%llu file=%s sha256=%s trial=%s ms=%lld",
		  p->name, p->facts.version, (unsigned long long)p->generation, LOGQ(p->path), p->sha256,
		  l->remembered ? "remembered" : "passed", clock_ms() - l->started);
}

/* A file whose EXACT ops were believed, in this run or before, fails a trial with other values than it passed with. */
static void load_disprove(const struct plugin_load *l, const char *why)
{
	enum plugin_refusal found = plugin_refusal_find(why);

	if (l->file && exactness_shipped(l->file->sha256)
	    && (found == PLUGIN_REFUSED_wrong_result || found == PLUGIN_REFUSED_not_identical))
		(void)disproved_add(l->file->facts.name, l->file->sha256, why, true);
}

/* kcheck --quick --shape tiny --seed SEED FILE finds it again. A file that never was a plugin here leaves no row; what
 * has its name or path remembers why it was refused. */
static void load_refused(struct plugin_load *l)
{
	struct plugin *p = l->plugin;
	const char *why = l->why.len ? buf_str(&l->why) : rc_text(l->rc);

	log_event(LOG_LV_WARN, "plugin_refused", "file=%s why=%s seed=%llu", LOGQ(l->path), LOGQ(why),
		  (unsigned long long)l->seed);
	load_disprove(l, why);
	list_each(other, &l->daemon->plugins->list, struct plugin, node)
		if (!other->superseded && (!strcmp(other->path, l->path) ||
					   (l->file && !strcmp(other->name, l->file->facts.name))))
			plugin_complain(other, why);
	p->temp = TEMP_COLD;
	if (!l->again) {
		plugins_drop(p);
		l->plugin = NULL;
	}
}

static void load_free(struct plugin_load *l)
{
	plugin_file_free(&l->file);
	free(l->path);
	free(l->sha256);
	buf_fini(&l->why);
	free(l);
}

static void load_done(struct ops_job *job)
{
	struct plugin_load *l = list_entry(job, struct plugin_load, job);
	struct daemon *d = l->daemon;

	must(l->rc == 0 || !l->map);
	if (l->rc)
		load_refused(l);
	else
		load_install(l);
	l->done(l->arg, l->plugin, l->rc, l->why.len ? buf_str(&l->why) : rc_text(l->rc));
	plugins_settle(d);
	load_free(l);
}

static struct plugin_load *load_new(struct daemon *d, struct plugin *p, const char *sha256)
{
	struct plugin_load *l = mem_new(sizeof *l);

	*l = (struct plugin_load){ .job = { .run = load_run, .done = load_done }, .daemon = d, .plugin = p,
				   .path = mem_strdup(p->path), .sha256 = sha256 ? mem_strdup(sha256) : NULL,
				   .started = clock_ms() };
	l->seed = (uint64_t)clock_ns() % LOAD_SEEDS + 1;
	l->dir = conf_text(&d->conf, CONF_dir);
	l->copies = state_plugins(d->state);
	l->state = d->state;
	l->stage_ms = (int)conf_int(&d->conf, CONF_trial_timeout) * 1000;
	return l;
}

static int load_submit(struct plugin_load *l, const struct plugin_told *t, struct buf *why)
{
	int r;

	l->trusting = t->trusting && state_unclean(l->daemon->state) == 0;
	l->done = t->done;
	l->arg = t->arg;
	if (t->ret_cancel)
		*t->ret_cancel = &l->job.cancel;
	r = ops_submit(l->daemon->ops, &l->job, why);
	if (r)
		load_free(l);
	return r;
}

char *plugin_file_name(const char *name)
{
	size_t n = strlen(name);
	struct buf b = { 0 };

	buf_adds(&b, name);
	if (!strchr(name, '/') && (n < 3 || strcmp(name + n - 3, ".so") != 0))
		buf_adds(&b, ".so");
	return buf_take(&b);
}

int plugin_load(struct daemon *d, const char *file, const char *sha256, const struct plugin_told *t, struct buf *why)
{
	struct plugin *p = mem_new(sizeof *p);
	int r;

	/* In the list from now on, as "init"; its name is the file's until its facts are read, and superseded
	 * keeps it from being found by it. */
	p->path = plugin_file_name(file);
	p->name = mem_strdup(p->path);
	p->superseded = true;
	list_put(&d->plugins->list, &p->node);
	r = load_submit(load_new(d, p, sha256), t, why);
	if (r)
		plugins_drop(p);
	return r;
}

int plugin_warm(struct daemon *d, struct plugin *p, const struct plugin_told *t, struct buf *why)
{
	struct plugin_load *l;
	int r;

	must(p->temp == TEMP_COLD);
	p->temp = TEMP_INIT;
	l = load_new(d, p, p->sha256);
	l->again = true;
	r = load_submit(l, t, why);
	if (r)
		p->temp = TEMP_COLD;
	return r;
}

/* ---- cooling ---- */

struct plugin_cool {
	struct ops_job job;
	struct daemon *daemon;
	struct plugin *plugin;     /* control's */
	struct plugin_map *map;    /* ops' */
	int rc;
	struct buf why;
};

static void cool_run(struct ops_job *job)
{
	struct plugin_cool *c = list_entry(job, struct plugin_cool, job);

	c->rc = plugin_map_free(&c->map, &c->why);
}

/* What closing left behind is told once, and stays in the list. */
static void cool_complain(struct plugin_cool *c)
{
	struct plugin *p = c->plugin;

	log_event(LOG_LV_WARN, "plugin_complaint", "name=%s generation=%llu why=%s", p->name,
		  (unsigned long long)p->generation, LOGQ(buf_str(&c->why)));
	plugin_complain(p, buf_str(&c->why));
	p->superseded |= p->forget;
	p->forget = false;
}

static void cool_done(struct ops_job *job)
{
	struct plugin_cool *c = list_entry(job, struct plugin_cool, job);
	struct plugin *p = c->plugin;
	plugin_done_f *cooled = p->cooled;

	p->temp = TEMP_COLD;
	p->cooled = NULL;
	log_event(LOG_LV_NOTICE, "plugin_cold", "name=%s generation=%llu", p->name,
		  (unsigned long long)p->generation);
	if (c->rc)
		cool_complain(c);
	if (cooled)
		cooled(p->cooled_arg, p, c->rc, buf_str(&c->why));
	plugins_settle(c->daemon);
	buf_fini(&c->why);
	free(c);
}

int plugin_cool(struct daemon *d, struct plugin *p)
{
	struct plugin_cool *c = mem_new(sizeof *c);
	int r;

	must(plugin_temperature(p) == TEMP_WARM);
	*c = (struct plugin_cool){ .job = { .run = cool_run, .done = cool_done, .patient = true }, .daemon = d,
				   .plugin = p, .map = p->map };
	r = ops_submit(d->ops, &c->job, NULL);
	if (r) {
		free(c);
		return r;
	}
	/* From here on ops may free the mapping at any time. */
	p->map = NULL;
	p->temp = TEMP_COOLING;
	return 0;
}
