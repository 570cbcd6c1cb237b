/* SPDX-License-Identifier: MIT
 * reload.c - reads the configuration again: all or nothing, live keys at once, the others named.
 * Threads: control. Locks: none. */
#include "daemon/kernels/choices.h"
#include "daemon/kernels/start.h"
#include "daemon/serve.h"
#include "engine/base/log.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool reload_same(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

/* A key counts as changed when the file says something else than at the last load: what an operator set live
 * stays until the file's own value changes. */
static void reload_keys(struct daemon *d, struct conf *next, json_t *changed, json_t *restart)
{
	for (int i = 0; i < CONF_COUNT; i++) {
		bool live = conf_table[i].when == CONF_LIVE;
		char *old = d->conf.value[i];

		if (reload_same(old, next->value[i]))
			continue;
		json_array_append_new(live ? changed : restart, json_string(conf_table[i].key));
		if (!live)
			continue;
		d->conf.value[i] = next->value[i];
		next->value[i] = old;
		free(d->conf.live[i]);
		d->conf.live[i] = NULL;
	}
}

/* {name: value} of the numerics that the file says something else of than at the last load. */
static json_t *reload_values(struct daemon *d, const struct conf *next)
{
	json_t *values = json_object();
	struct numerics def;

	numerics_init(&def, NUMERICS_NATIVE, d->engine ? engine_config(d->engine)->index_topk : 1);
	for (int i = 0; i < numerics_count; i++) {
		const struct numerics_row *row = &numerics_table[i];
		char text[32];

		if (!reload_same(d->conf.numeric[i], next->numeric[i]))
			json_object_set_new(values, row->name,
					    json_string(next->numeric[i] ? next->numeric[i] :
							numerics_get(&def, row, text)));
	}
	return values;
}

static int reload_numerics(struct daemon *d, struct conf *next, json_t *changed, struct buf *why)
{
	json_t *values = reload_values(d, next), *kernels = NULL;
	int r = d->engine && json_object_size(values) ? choices_set(d, values, false, &kernels, why) : 0;

	for (int i = 0; i < numerics_count && !r; i++) {
		char *old = d->conf.numeric[i];

		if (!json_object_get(values, numerics_table[i].name))
			continue;
		json_array_append_new(changed, json_string(numerics_table[i].name));
		d->conf.numeric[i] = next->numeric[i];
		next->numeric[i] = old;
	}
	json_decref(values);
	json_decref(kernels);
	return r;
}

static bool reload_options_same(const struct conf *a, const struct conf *b)
{
	if (a->n_option != b->n_option)
		return false;
	for (int i = 0; i < a->n_option; i++)
		if (strcmp(a->option[i].probe, b->option[i].probe) || strcmp(a->option[i].key,
									     b->option[i].key) ||
		    strcmp(a->option[i].value, b->option[i].value))
			return false;
	return true;
}

static void reload_options(struct daemon *d, struct conf *next, json_t *changed)
{
	struct conf_option old[CONF_MAX_OPTIONS];
	int n = d->conf.n_option;

	if (reload_options_same(&d->conf, next))
		return;
	json_array_append_new(changed, json_string("probe options"));
	memcpy(old, d->conf.option, sizeof old);
	memcpy(d->conf.option, next->option, sizeof old);
	memcpy(next->option, old, sizeof old);
	d->conf.n_option = next->n_option;
	next->n_option = n;
}

static void reload_log(json_t *changed, json_t *restart)
{
	char *a = json_dumps(changed, JSON_COMPACT), *b = json_dumps(restart, JSON_COMPACT);

	log_event(LOG_LV_NOTICE, "reloaded", "changed=%s restart=%s", LOGQ(a ? a : ""), LOGQ(b ? b : ""));
	free(a);
	free(b);
}

/* The keys, and those that somebody holds a copy of are passed on. */
static void reload_live(struct daemon *d, struct conf *next, json_t *changed, json_t *restart)
{
	const char *was = d->conf.value[CONF_log_level];
	enum log_level level;

	reload_keys(d, next, changed, restart);
	if (d->conf.value[CONF_log_level] != was) {
		must_zero(log_parse_level(conf_text(&d->conf, CONF_log_level), &level));
		log_set_level(level);
	}
	if (!d->engine)
		return;
	must_zero(engine_speculate(d->engine, (int)conf_int(&d->conf, CONF_speculate), NULL));
	engine_max_gap(d->engine, (int)conf_int(&d->conf, CONF_max_gap));
}

static int reload_read(struct daemon *d, json_t **ret_told, struct buf *why)
{
	struct http_next *files;
	json_t *changed, *restart, *keys;
	struct conf next;
	int r = daemon_configure(d->flags, &next, why);

	/* What the next start would refuse is refused now. */
	if (!r &&
	    ((r = serve_check(&next, why)) || (r = start_check(&next, why)) || (r = serve_reload(d, &files, why))))
		conf_fini(&next);
	if (r)
		return r;
	changed = json_array();
	restart = json_array();
	/* Numerics first: what follows cannot fail, and they can, by a limit of the model. */
	r = d->engine ? engine_can_speculate(d->engine, (int)conf_int(&next, CONF_speculate), why) : 0;
	r = r ? r : reload_numerics(d, &next, changed, why);
	keys = serve_reload_end(d, &files, r == 0);
	if (!r) {
		reload_live(d, &next, changed, restart);
		reload_options(d, &next, changed);
		reload_log(changed, restart);
		*ret_told = json_pack("{s:o, s:o, s:o*}", "changed", changed, "restart", restart, "keys", keys);
		must(*ret_told);
	} else {
		json_decref(changed);
		json_decref(restart);
	}
	conf_fini(&next);
	return r;
}

int daemon_reload(struct daemon *d, json_t **ret_told, struct buf *why)
{
	int r;

	manager_reloading(&d->manager);
	r = reload_read(d, ret_told, why);
	if (d->manager.ready)
		manager_ready(&d->manager); /* refused or not: it is over, and what was in force still is */
	return r;
}
