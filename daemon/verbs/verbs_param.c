/* SPDX-License-Identifier: MIT
 * verbs_param.c - parameters: the numerics (live), and the configuration's keys.
 * Threads: control. Locks: none. */
#include "daemon/kernels/choices.h"
#include "daemon/daemon.h"
#include "daemon/kernels/kernels.h"
#include "daemon/verbs/verbs.h"
#include "engine/base/log.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <string.h>

static json_t *param_json(const char *name, const char *value, const char *choices, const char *when,
			  const char *text)
{
	return json_pack("{s:s, s:o, s:s, s:s, s:s}", "name", name, "value",
			 varlink_string(value, strlen(value)), "choices",
			 choices, "when", when, "text", text);
}

static json_t *param_numeric(const struct numerics *n, const struct numerics_row *row)
{
	char value[32];

	return param_json(row->name, numerics_get(n, row, value), row->choices, "live", row->text);
}

static json_t *param_conf(struct daemon *d, int key)
{
	const struct conf_row *row = &conf_table[key];
	const char *value = conf_text(&d->conf, (enum conf_key)key), *choices = "";
	char range[64];

	if (row->high > 0) {
		snprintf(range, sizeof range, row->high == 0777 ? "mode %llo %llo" : "int %lld %lld",
			 row->low, row->high);
		choices = range;
	}
	if (key == CONF_log_level) {
		value = log_level_name(log_get_level());
		choices = "err|warn|notice|info|debug";
	}
	return param_json(row->key, value, choices, row->when == CONF_LIVE ? "live" : "restart", row->text);
}

/* CONF_COUNT when unknown. */
static int param_find_conf(const char *name)
{
	int i = 0;

	while (i < CONF_COUNT && strcmp(conf_table[i].key, name) != 0)
		i++;
	return i;
}

static int param_unknown(const char *name, struct buf *why)
{
	return buf_why(why, RC_NOT_FOUND, "no parameter named '%.96s'", name);
}

/* NULL when unknown. */
static json_t *param_one(struct daemon *d, const char *name)
{
	const struct numerics_row *row = numerics_find(name, strlen(name));
	struct numerics n;
	int key;

	if (row) {
		engine_numerics(d->engine, &n);
		return param_numeric(&n, row);
	}
	key = param_find_conf(name);
	return key < CONF_COUNT ? param_conf(d, key) : NULL;
}

int verb_param_list(struct call *c, json_t **ret_reply, struct buf *why)
{
	struct daemon *d = c->daemon;
	struct numerics n;
	json_t *list;
	int r = daemon_need_engine(d, why);

	if (r)
		return r;
	list = json_array();
	engine_numerics(d->engine, &n);
	for (int i = 0; i < numerics_count; i++)
		json_array_append_new(list, param_numeric(&n, &numerics_table[i]));
	for (int i = 0; i < CONF_COUNT; i++)
		json_array_append_new(list, param_conf(d, i));
	*ret_reply = json_pack("{s:o}", "parameters", list);
	return 0;
}

int verb_param_get(struct call *c, json_t **ret_reply, struct buf *why)
{
	const char *name = call_string(c, "name", "");
	int r = daemon_need_engine(c->daemon, why);
	json_t *p = r ? NULL : param_one(c->daemon, name);

	if (!p)
		return r ? r : param_unknown(name, why);
	*ret_reply = json_pack("{s:o}", "parameter", p);
	return 0;
}

/* Would this assignment succeed? Numerics are tried on a copy, which takes them all. */
static int param_try(struct numerics *n, struct conf *scratch, const char *name, const char *value,
		     struct buf *why)
{
	int key;

	if (numerics_find(name, strlen(name)))
		return numerics_set(n, name, value, why);
	key = param_find_conf(name);
	if (key == CONF_COUNT)
		return param_unknown(name, why);
	if (conf_table[key].when != CONF_LIVE)
		return buf_why(why, RC_INVALID,
			       "%s: takes effect at a restart only; set it in the configuration file", name);
	return conf_set(scratch, (enum conf_key)key, value, why) ? RC_INVALID : 0;
}

static int param_try_all(struct daemon *d, json_t *values, struct buf *why)
{
	struct numerics n;
	struct conf scratch;
	const char *name;
	json_t *value;
	int r = 0;

	conf_init(&scratch);
	engine_numerics(d->engine, &n);
	json_object_foreach(values, name, value) {
		r = param_try(&n, &scratch, name, json_string_value(value), why);
		if (r)
			break;
	}
	r = r ? r : engine_can_speculate(d->engine, (int)conf_int(&scratch, CONF_speculate), why);
	conf_fini(&scratch);
	return r;
}

/* A key of the configuration, tried before; numerics were set all at once. */
static int param_apply(struct daemon *d, const char *name, const char *value, struct buf *why)
{
	enum log_level level;
	int key = param_find_conf(name), r;

	if (key == CONF_COUNT)
		return 0;
	if (key == CONF_log_level) {
		must_zero(log_parse_level(value, &level));
		log_set_level(level);
		return 0;
	}
	r = conf_set_live(&d->conf, (enum conf_key)key, value, why);
	if (r == 0 && key == CONF_speculate)
		must_zero(engine_speculate(d->engine, (int)conf_int(&d->conf, CONF_speculate), NULL));
	if (r == 0 && key == CONF_max_gap)
		engine_max_gap(d->engine, (int)conf_int(&d->conf, CONF_max_gap));
	return r;
}

static json_t *param_reply(struct daemon *d, json_t *list, json_t *changes)
{
	const struct kset *ks = d->kernels->active->kset;
	struct engine_status s;

	engine_status(d->engine, &s);
	return json_pack("{s:o, s:I, s:s, s:I, s:o}", "parameters", list, "epoch", (json_int_t)s.epoch, "kernels",
			 kset_name(ks), "kernels_generation", (json_int_t)kset_generation(ks), "changes", changes);
}

int verb_param_set(struct call *c, json_t **ret_reply, struct buf *why)
{
	struct daemon *d = c->daemon;
	json_t *values = json_object_get(c->params, "values"), *value, *list, *changes;
	const char *name;
	int r = daemon_need_engine(d, why);

	r = r ? r : param_try_all(d, values, why);
	r = r ? r : choices_set(d, values, call_flag(c, "keep_cache"), &changes, why);
	if (r)
		return r;
	list = json_array();
	json_object_foreach(values, name, value) {
		r = r ? r : param_apply(d, name, json_string_value(value), why);
		json_array_append_new(list, param_one(d, name));
	}
	if (r) {
		json_decref(changes);
		json_decref(list);
		return r;
	}
	*ret_reply = param_reply(d, list, changes);
	return 0;
}
