/* SPDX-License-Identifier: MIT
 * warming.c - a call that waits until every plugin it names is warm, and then does its work at once.
 * Threads: control; warming_wait_run() on ops. Locks: none. */
#include "daemon/verbs/warming.h"
#include "daemon/daemon.h"
#include "daemon/kernels/plugins.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <stdlib.h>
#include <string.h>

/* ---- attempts ---- */

static void warming_release(struct warming *w)
{
	for (int i = 0; i < w->n_held; i++)
		w->held[i]->wanted--;
	w->n_held = 0;
	plugins_settle(w->daemon);
}

/* Once a set is made it holds its plugins, and a job that has taken over holds the set. */
static int warming_attempt(struct warming *w, json_t **ret_reply, struct buf *why)
{
	int r = w->attempt(w, ret_reply, why);

	if (r != CALL_LATER)
		warming_release(w);
	return r;
}

/* When a plugin has been warmed, or what was in the way of it is over. */
static void warming_go_on(struct warming *w, int rc, const char *failed)
{
	json_t *reply = NULL;
	struct buf why = { 0 };

	if (w->call && rc == 0) {
		rc = warming_attempt(w, &reply, &why);
		if (rc == CALL_LATER || rc == WARMING_TAKEN) {
			buf_fini(&why);
			return;
		}
		failed = why.len ? buf_str(&why) : rc_text(rc);
	}
	warming_release(w);
	if (w->call && rc)
		call_fail(&w->call, rc, failed);
	else if (w->call)
		call_reply(&w->call, reply);
	buf_fini(&why);
	w->end(w);
}

static void warming_gone(struct call *c)
{
	struct warming *w = c->arg;

	w->call = NULL;
	call_fail(&c, RC_CANCELLED, NULL);
}

int warming_begin(struct warming *w, json_t **ret_reply, struct buf *why)
{
	struct call *c = w->call;
	int r;

	c->arg = w;
	c->gone = warming_gone;
	r = warming_attempt(w, ret_reply, why);
	if (r == CALL_LATER || r == WARMING_TAKEN)
		return CALL_LATER;
	c->gone = NULL;
	w->end(w);
	return r;
}

/* ---- plugins ---- */

static void warming_warmed(void *arg, struct plugin *p, int rc, const char *why)
{
	(void)p;
	warming_go_on(arg, rc, why);
}

static void warming_wait_run(struct ops_job *job)
{
	(void)job;
}

static void warming_wait_done(struct ops_job *job)
{
	warming_go_on(list_entry(job, struct warming, wait), 0, NULL);
}

static int warming_hold(struct warming *w, struct plugin *p, struct buf *why)
{
	for (int i = 0; i < w->n_held; i++)
		if (w->held[i] == p)
			return 0;
	if (w->n_held == (int)mem_countof(w->held))
		return buf_why(why, RC_TOO_LARGE, "more than %d plugins", (int)mem_countof(w->held));
	w->held[w->n_held++] = p;
	p->wanted++;
	return 0;
}

int warming_plugin(struct warming *w, const char *name, struct buf *why)
{
	struct plugin *p;
	int r = plugins_usable(w->daemon, name, &p, why);

	if (r == 0 && p)
		r = warming_hold(w, p, why);
	if (r || !p || plugin_mapped(p))
		return r;
	if (p->temp == TEMP_COLD) {
		r = plugin_warm(w->daemon, p, &(struct plugin_told){ .done = warming_warmed, .arg = w }, why);
	} else {
		w->wait = (struct ops_job){ .run = warming_wait_run, .done = warming_wait_done };
		r = ops_submit(w->daemon->ops, &w->wait, why);
	}
	return r ? r : CALL_LATER;
}

/* One look at all of them: with w warms what they name, without sees that their form is right. */
static int warming_pass(struct warming *w, const char *text, struct buf *why)
{
	char *all = mem_strdup(text), *save = NULL;
	int r = 0;

	for (char *s = strtok_r(all, ",", &save); s && !r; s = strtok_r(NULL, ",", &save)) {
		const char *name;

		r = kernels_spec_plugin(s, &name, why);
		r = r || !w ? r : warming_plugin(w, name, why);
	}
	free(all);
	return r;
}

static int warming_overlays(struct warming *w, const char *text, struct buf *why)
{
	int r = warming_pass(NULL, text, why);

	return r ? r : warming_pass(w, text, why);
}

int warming_set(struct warming *w, const char *text, struct buf *why)
{
	struct kernels_set *s = kernels_find(w->daemon, text);

	if (s) {
		kernels_drop(&s);
		return 0;
	}
	if (strchr(text, '='))
		return warming_overlays(w, text, why);
	return plugins_find(w->daemon, text) ? warming_plugin(w, text, why) : 0;
}
