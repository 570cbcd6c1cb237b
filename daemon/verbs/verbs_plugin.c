/* SPDX-License-Identifier: MIT
 * verbs_plugin.c - io.dsv4.Plugins: load, list, inspect, state, discard. (Check is in verbs_check.c.)
 * Threads: control; inspect_run() on ops. Locks: none. */
#include "daemon/daemon.h"
#include "daemon/kernels/kernels.h"
#include "daemon/kernels/plugins.h"
#include "daemon/verbs/verbs.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- a call that waits until a plugin has changed ---- */

struct plugin_wait {
	struct call *call;         /* NULL once the peer is gone */
	atomic_bool *cancel;       /* or NULL */
};

static void plugin_wait_gone(struct call *c)
{
	struct plugin_wait *w = c->arg;

	w->call = NULL;
	if (w->cancel)
		atomic_store(w->cancel, true);
	call_fail(&c, RC_CANCELLED, NULL);
}

static struct plugin_wait *plugin_wait_new(struct call *c)
{
	struct plugin_wait *w = mem_new(sizeof *w);

	w->call = c;
	c->arg = w;
	c->gone = plugin_wait_gone;
	return w;
}

static json_t *plugin_wait_reply(const struct plugin *p)
{
	return json_pack("{s:o}", "plugin", plugin_json(p));
}

static void plugin_wait_loaded(void *arg, struct plugin *p, int rc, const char *why)
{
	struct plugin_wait *w = arg;

	if (w->call && rc)
		call_fail(&w->call, rc, why);
	else if (w->call)
		call_reply(&w->call, plugin_wait_reply(p));
	free(w);
}

/* What closing complained of is in the row; cold it is all the same. */
static void plugin_wait_cooled(void *arg, struct plugin *p, int rc, const char *why)
{
	struct plugin_wait *w = arg;

	(void)rc;
	(void)why;
	if (w->call)
		call_reply(&w->call, plugin_wait_reply(p));
	free(w);
}

/* What began must end in w being freed: here when it could not begin. */
static int plugin_wait_begun(struct plugin_wait *w, int rc)
{
	if (rc == 0)
		return CALL_LATER;
	w->call->gone = NULL;
	free(w);
	return rc;
}

static int load_digest(const char *s, struct buf *why)
{
	if (s && (strlen(s) != SHA256_HEX - 1 || strspn(s, "0123456789abcdefABCDEF") != SHA256_HEX - 1))
		return buf_why(why, RC_INVALID, "sha256: \"%.96s\" is not %d hexadecimal digits", s, SHA256_HEX - 1);
	return 0;
}

int verb_plugin_load(struct call *c, json_t **ret_reply, struct buf *why)
{
	struct plugin_wait *w;
	int r = daemon_need_engine(c->daemon, why);

	(void)ret_reply;
	r = r ? r : load_digest(call_string(c, "sha256", NULL), why);
	if (r)
		return r;
	w = plugin_wait_new(c);
	r = plugin_load(c->daemon, call_string(c, "file", ""), call_string(c, "sha256", NULL),
			&(struct plugin_told){ .done = plugin_wait_loaded, .arg = w, .ret_cancel = &w->cancel }, why);
	return plugin_wait_begun(w, r);
}

/* ---- list ---- */

/* ref as a row: always there. */
static json_t *list_ref(void)
{
	const struct dsv4_plugin *ref = provider_ref.plugin;
	struct plugin *p = mem_new(sizeof *p);
	char name[] = "ref", path[] = "";
	json_t *row;

	*p = (struct plugin){ .name = name, .path = path, .intent = INTENT_WARM, .temp = TEMP_COLD };
	p->facts.n_op = (int)ref->n_op;
	strncpy(p->facts.version, ref->version, sizeof p->facts.version - 1);
	for (int i = 0; i < p->facts.n_op; i++) {
		p->facts.op[i].op = ref->op[i].op;
		strncpy(p->facts.op[i].tag, ref->op[i].tag, sizeof p->facts.op[i].tag - 1);
	}
	row = plugin_json(p);
	free(p);
	json_object_set_new(row, "builtin", json_true());
	json_object_set_new(row, "exact", json_string("shared"));
	json_object_set_new(row, "temperature", json_string("busy"));
	json_object_set_new(row, "users", json_integer(atomic_load(&provider_ref.users)));
	return row;
}

int verb_plugin_list(struct call *c, json_t **ret_reply, struct buf *why)
{
	json_t *list = json_array();

	(void)why;
	json_array_append_new(list, list_ref());
	list_each(p, &c->daemon->plugins->list, struct plugin, node)
		json_array_append_new(list, plugin_json(p));
	*ret_reply = json_pack("{s:o}", "plugins", list);
	return 0;
}

/* ---- intent ---- */

static int intent_warm(struct call *c, struct plugin *p, json_t **ret_reply, struct buf *why)
{
	struct plugin_wait *w;

	if (p->temp == TEMP_COOLING)
		return plugin_refuse(why, PLUGIN_REFUSED_cooling, "%s is being closed; try again", p->name);
	if (p->temp != TEMP_COLD) {
		*ret_reply = plugin_wait_reply(p);
		return 0;
	}
	w = plugin_wait_new(c);
	return plugin_wait_begun(w, plugin_warm(c->daemon, p, &(struct plugin_told){
		.done = plugin_wait_loaded, .arg = w, .ret_cancel = &w->cancel }, why));
}

/* Unused, or soon: what is still to be swept or closed is waited for. */
static bool intent_cools(struct daemon *d, const struct plugin *p)
{
	return !p->cooled && (p->temp == TEMP_COOLING ||
			      (plugin_mapped(p) && !kernels_holds(d, &p->map->provider)));
}

static int intent_wait_cold(struct call *c, struct plugin *p)
{
	p->cooled = plugin_wait_cooled;
	p->cooled_arg = plugin_wait_new(c);
	plugins_settle(c->daemon);
	return CALL_LATER;
}

static int intent_cold(struct call *c, struct plugin *p, json_t **ret_reply)
{
	struct daemon *d = c->daemon;

	if (plugin_mapped(p))
		kernels_let_go(d, &p->map->provider);
	if (intent_cools(d, p))
		return intent_wait_cold(c, p);
	*ret_reply = plugin_wait_reply(p);
	return 0;
}

static enum plugin_intent intent_of(const char *word)
{
	enum plugin_intent i = INTENT_AUTO;

	while (strcmp(plugin_intent_name(i), word) != 0)
		i++;
	return i;
}

int verb_plugin_state(struct call *c, json_t **ret_reply, struct buf *why)
{
	const char *name = call_string(c, "name", "");
	struct plugin *p;
	enum plugin_intent old;
	int r = plugins_need(c->daemon, name, &p, why);

	if (r)
		return r;
	old = p->intent;
	p->intent = intent_of(call_string(c, "state", ""));
	p->idle_since = 0;
	if (p->intent == INTENT_COLD)
		return intent_cold(c, p, ret_reply);
	if (p->intent == INTENT_WARM)
		r = intent_warm(c, p, ret_reply, why);
	else
		*ret_reply = plugin_wait_reply(p);
	if (r < 0)
		p->intent = old;
	return r;
}

/* ---- discard ---- */

static int discard_busy(struct daemon *d, const struct plugin *p, struct buf *why)
{
	const struct kernels_set *s = d->kernels->previous;
	bool previous = false;

	for (int i = 0; s && p->map && i < s->n_ov; i++)
		previous |= s->ov[i].provider == &p->map->provider;
	return buf_why(why, RC_BUSY, "%s is %s%s", p->name, plugin_temperature_name(plugin_temperature(p)),
		       previous ? ": the previous kernel set has it; `plugin state NAME cold` lets go of that" : "");
}

/* Every mapping of the name, or none. */
static int discard_check(struct daemon *d, const char *name, struct plugin **ret_last, struct buf *why)
{
	*ret_last = NULL;
	list_each(p, &d->plugins->list, struct plugin, node) {
		if (strcmp(p->name, name) != 0 || p->forget)
			continue;
		*ret_last = p;
		if (p->temp == TEMP_INIT || p->wanted || (p->map && kernels_holds(d, &p->map->provider)))
			return discard_busy(d, p, why);
	}
	return *ret_last ? 0 : plugins_need(d, name, ret_last, why);
}

int verb_plugin_discard(struct call *c, json_t **ret_reply, struct buf *why)
{
	const char *name = call_string(c, "name", "");
	struct daemon *d = c->daemon;
	struct plugin *last;
	int r = discard_check(d, name, &last, why);

	if (r)
		return r;
	list_each(p, &d->plugins->list, struct plugin, node)
		p->forget |= !strcmp(p->name, name);
	if (intent_cools(d, last))
		return intent_wait_cold(c, last);
	*ret_reply = plugin_wait_reply(last);
	plugins_settle(d);
	return 0;
}

/* ---- inspect ---- */

struct plugin_inspect {
	struct ops_job job;
	struct call *call;         /* control's alone; NULL once the peer is gone */
	const char *dir;
	struct ranks *ranks;       /* NULL while they are opened */
	char *path;
	struct plugin_file *file;
	int rc;
	struct buf why;
};

static void inspect_run(struct ops_job *job)
{
	struct plugin_inspect *j = list_entry(job, struct plugin_inspect, job);
	int r = plugin_file_open(j->dir, j->path, geteuid(), &j->file, &j->why);

	j->rc = r ? r : j->ranks ? plugin_facts_fit_ranks(&j->file->facts, j->ranks, &j->why) :
				     plugin_facts_fit(&j->file->facts, NULL, &j->why);
}

static json_t *inspect_reply(const struct plugin_inspect *j)
{
	json_t *o = json_pack("{s:o, s:b}", "file", varlink_string(j->path, strlen(j->path)), "accepted", j->rc == 0);
	const struct plugin_facts *f = j->file ? &j->file->facts : NULL;

	if (j->rc) {
		json_object_set_new(o, "refusal",
				    json_string(plugin_refusal_name(plugin_refusal_find(buf_str(&j->why)))));
		json_object_set_new(o, "why", varlink_string(j->why.data, j->why.len));
	}
	if (f)
		json_object_update_new(o, json_pack(
			"{s:s, s:I, s:s, s:s, s:i, s:i, s:s, s:s, s:s, s:o}", "sha256", j->file->sha256, "size",
			(json_int_t)j->file->size, "name", f->name, "version", f->version, "abi_major",
			f->abi_major, "abi_minor", f->abi_minor, "signature", f->signature, "cpu", f->cpu, "gpu",
			f->gpu, "ops", plugin_ops_json(f)));
	return o;
}

static void inspect_done(struct ops_job *job)
{
	struct plugin_inspect *j = list_entry(job, struct plugin_inspect, job);

	if (j->call && j->rc && j->rc != RC_PLUGIN)
		call_fail(&j->call, j->rc, buf_str(&j->why));
	else if (j->call)
		call_reply(&j->call, inspect_reply(j));
	plugin_file_free(&j->file);
	free(j->path);
	buf_fini(&j->why);
	free(j);
}

static void inspect_gone(struct call *c)
{
	struct plugin_inspect *j = c->arg;

	j->call = NULL;
	call_fail(&c, RC_CANCELLED, NULL);
}

int verb_plugin_inspect(struct call *c, json_t **ret_reply, struct buf *why)
{
	struct plugin_inspect *j = mem_new(sizeof *j);
	int r;

	(void)ret_reply;
	*j = (struct plugin_inspect){ .job = { .run = inspect_run, .done = inspect_done }, .call = c };
	j->dir = conf_text(&c->daemon->conf, CONF_dir);
	j->ranks = c->daemon->ranks;
	j->path = plugin_file_name(call_string(c, "file", ""));
	r = ops_submit(c->daemon->ops, &j->job, why);
	if (r) {
		free(j->path);
		free(j);
		return r;
	}
	c->arg = j;
	c->gone = inspect_gone;
	return CALL_LATER;
}
