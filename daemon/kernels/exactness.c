/* SPDX-License-Identifier: MIT
 * exactness.c - whose mark EXACT is believed: what was built with this program, and not what was found to lie.
 * Threads: control; exactness_golden() on ops; exactness_keep_run() on one of its own. Locks:
 * none (ops.h hands over). */
#include "daemon/kernels/exactness.h"
#include "ctl/varlink.h"
#include "daemon/state.h"
#include "engine/base/clock.h"
#include "engine/base/cpus.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "plugins/check/golden.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define EXACTNESS_FILE "disproved.json"

/* ---- what was built with this program ---- */

bool exactness_shipped(const char *sha256)
{
	static const char *const shipped[] = {
#define SHIPPED(sha) sha,
#include "plugins/shipped.h"
#undef SHIPPED
		NULL
	};

	for (int i = 0; shipped[i]; i++)
		if (strcmp(shipped[i], sha256) == 0)
			return true;
	return false;
}

/* ---- what an operator is shown ---- */

static bool exactness_claimed(const struct plugin_facts *f)
{
	for (int i = 0; i < f->n_op; i++)
		if (f->op[i].numerics == DSV4_EXACT)
			return true;
	return false;
}

const char *exactness_name(const struct plugin_facts *f, const char *sha256)
{
	if (!exactness_claimed(f))
		return "none";
	if (disproved_find(sha256))
		return "disproved";
	return exactness_shipped(sha256) ? "shared" : "apart";
}

const char *exactness_why(const char *sha256)
{
	const struct disproved *d = disproved_find(sha256);

	return d ? d->why : "";
}

/* ---- what ref computes ---- */

static void exactness_machine(const struct ranks *r)
{
	char *flags = cpus_flags();
	struct buf names = { 0 };

	cpus_features(flags, &names);
	for (int i = 0; i < ranks_n(r) && device_is_gpu(ranks_device(r, i)); i++) {
		struct device_view v;

		device_view(ranks_device(r, i), &v);
		buf_printf(&names, " sm_%d", v.sm);
	}
	cache_numbers_ranks(ranks_n(r));
	cache_numbers_machine(buf_str(&names));
	buf_fini(&names);
	free(flags);
}

int exactness_golden(const struct ranks *ranks, struct buf *why)
{
	long long start = clock_ns();
	uint8_t golden[32];
	int r = check_golden(golden);

	if (r)
		return buf_why(why, r, "cannot run the reference kernels: %s", rc_text(r));
	cache_numbers_arithmetic(golden);
	exactness_machine(ranks);
	log_event(LOG_LV_DEBUG, "golden", "ms=%.1f", (double)(clock_ns() - start) / 1e6);
	return 0;
}

/* ---- over restarts ---- */

static const char *exactness_string(json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

static int exactness_parse(const struct buf *text, struct buf *why)
{
	json_t *all = json_loadb(text->data ? text->data : "", text->len, 0, NULL), *one;
	int r = json_is_array(all) ? 0 : buf_why(why, RC_JSON, "%s is malformed", EXACTNESS_FILE);
	size_t i;

	json_array_foreach(all, i, one)
		if (*exactness_string(one, "sha256"))
			(void)disproved_add(exactness_string(one, "name"), exactness_string(one, "sha256"),
				exactness_string(one, "why"), json_is_true(json_object_get(one, "believed")));
	json_decref(all);
	return r;
}

void exactness_read(struct daemon *d)
{
	struct buf text = { 0 }, why = { 0 };
	int r = state_read(d->state, EXACTNESS_FILE, &text, &why);

	r = r ? r : exactness_parse(&text, &why);
	if (r && r != -ENOENT)
		log_event(LOG_LV_ERR, "exactness_unreadable", "why=%s", LOGQ(buf_str(&why)));
	d->exact_told = d->exact_kept = disproved_count();
	buf_fini(&text);
	buf_fini(&why);
}

/* The oldest first, so that the list is read in the order in which it grew: the identity depends on it. */
static char *exactness_text(void)
{
	json_t *all = json_array();
	char *text;

	for (const struct disproved *p = disproved_newest(); p; p = p->older)
		must_zero(json_array_insert_new(all, 0, json_pack("{s:o, s:s, s:b, s:o}", "name",
			varlink_string(p->name, strlen(p->name)), "sha256", p->key, "believed", p->believed, "why",
			varlink_string(p->why, strlen(p->why)))));
	text = json_dumps(all, JSON_INDENT(2));
	json_decref(all);
	must(text != NULL);
	return text;
}

/* ---- what was found since ---- */

struct exactness_keep {
	struct ops_note note;      /* its end */
	pthread_t thread; bool joined;
	struct daemon *daemon;
	struct state *state;
	struct cache *cache;
	char *text;
	int n, rc;
	bool clear;                /* the cache: one that was believed is among them */
	uint64_t removed;
	struct buf why;
};

/* On a thread of its own: behind what ops is at, which may wait for hours, a kill would lose it. Kept first: were the
 * blocks thrown away before and the daemon killed, the next run would make such anew. */
static void *exactness_keep_run(void *arg)
{
	struct exactness_keep *k = arg;

	k->rc = k->state ? state_write(k->state, EXACTNESS_FILE, k->text, strlen(k->text), &k->why)
			 : buf_why(&k->why, RC_NOT_READY, "there is no usable state directory");
	if (k->clear)
		k->removed = cache_clear(k->cache);
	ops_post(k->daemon->ops, &k->note);
	return NULL;
}

static void exactness_join(struct exactness_keep *k)
{
	if (!k->joined)
		must_zero(pthread_join(k->thread, NULL));
	k->joined = true;
}

static void exactness_keep_done(struct ops_note *n)
{
	struct exactness_keep *k = list_entry(n, struct exactness_keep, note);

	exactness_join(k);
	if (k->rc)
		log_event(LOG_LV_ERR, "exactness_not_kept", "why=%s", LOGQ(buf_str(&k->why)));
	if (k->clear)
		log_event(LOG_LV_NOTICE, "cache_cleared", "blocks=%llu why=%s", (unsigned long long)k->removed,
			  LOGQ("a plugin that shared ref's cache was disproved"));
	log_event(LOG_LV_DEBUG, "exactness_kept", "disproved=%d", k->n);
	k->daemon->exact_keeping = NULL;
	k->daemon->exact_kept = k->n;
	free(k->text);
	buf_fini(&k->why);
	free(k);
}

static bool exactness_believed(int known)
{
	for (const struct disproved *p = disproved_newest(); p && p->n > known; p = p->older)
		if (p->believed)
			return true;
	return false;
}

static void exactness_keep(struct daemon *d)
{
	struct exactness_keep *k = mem_new(sizeof *k);

	*k = (struct exactness_keep){ .note.fn = exactness_keep_done, .daemon = d,
				      .state = d->state, .cache = engine_cache(d->engine), .n = disproved_count(),
				      .clear = exactness_believed(d->exact_kept) };
	k->text = exactness_text(); /* counted before: one that comes in between is kept twice rather than not */
	if (pthread_create(&k->thread, NULL, exactness_keep_run, k)) { /* no room for one: at the next tick */
		free(k->text);
		free(k);
		return;
	}
	d->exact_keeping = k;
}

void exactness_tick(struct daemon *d)
{
	const struct disproved *newest = disproved_newest();
	int n = newest ? newest->n : 0;

	for (const struct disproved *p = newest; p && p->n > d->exact_told; p = p->older) {
		if (p->believed)
			engine_numbers_changed(d->engine);
		log_event(LOG_LV_ERR, "exact_disproved", "name=%s sha256=%s believed=%d why=%s", p->name, p->key,
			  p->believed, LOGQ(p->why));
	}
	d->exact_told = n;
	if (n > d->exact_kept && !d->exact_keeping && !d->stopping)
		exactness_keep(d);
}

void exactness_close(struct daemon *d)
{
	struct buf why = { 0 };
	char *text;

	if (d->exact_keeping)
		exactness_join(d->exact_keeping); /* it uses the cache; ops_close() lets it go */
	if (!d->state || disproved_count() <= d->exact_kept)
		return;
	text = exactness_text();
	if (state_write(d->state, EXACTNESS_FILE, text, strlen(text), &why))
		log_event(LOG_LV_ERR, "exactness_not_kept", "why=%s", LOGQ(buf_str(&why)));
	free(text);
	buf_fini(&why);
}
