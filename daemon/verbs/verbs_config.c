/* SPDX-License-Identifier: MIT
 * verbs_config.c - io.dsv4.Daemon.ConfigDiff: the configuration file as it is now, against what is in force.
 * Threads: control. Locks: none. */
#include "daemon/daemon.h"
#include "daemon/verbs/verbs.h"
#include "engine/base/log.h"
#include "engine/base/must.h"

#include <string.h>

/* One line of the answer. `loaded`: the file's word at the last load. */
struct config_value {
	const char *section, *key, *running, *file, *loaded;
	bool live;
};

static const char *config_text(const char *s)
{
	return s ? s : "";
}

/* A reload applies a live key when the file's own word has changed (reload.c). */
static const char *config_when(const struct config_value *v)
{
	if (!v->live)
		return "restart";
	return strcmp(config_text(v->file), config_text(v->loaded)) ? "reload" : "live";
}

static void config_add(json_t *list, const struct config_value *v)
{
	const char *running = config_text(v->running), *file = config_text(v->file);

	if (!strcmp(running, file))
		return;
	must_zero(json_array_append_new(list,
					json_pack("{s:s, s:s, s:o, s:o, s:s}", "section", v->section, "key", v->key,
		"running", varlink_string(running, strlen(running)), "file", varlink_string(file, strlen(file)),
		"when", config_when(v))));
}

static void config_keys(const struct daemon *d, const struct conf *next, json_t *list)
{
	for (int i = 0; i < CONF_COUNT; i++) {
		const struct conf_row *row = &conf_table[i];
		struct config_value v = { row->section, row->key, conf_text(&d->conf, (enum conf_key)i), next->value[i],
					  d->conf.value[i], row->when == CONF_LIVE };

		if (i == CONF_log_level)
			v.running = log_level_name(log_get_level());
		config_add(list, &v);
	}
}

/* What the file does not say is the model's or the format's own. */
static void config_numerics(const struct daemon *d, const struct conf *next, json_t *list)
{
	struct numerics now, def;
	char running[32], own[32];

	engine_numerics(d->engine, &now);
	numerics_init(&def, NUMERICS_NATIVE, engine_config(d->engine)->index_topk);
	for (int i = 0; i < numerics_count; i++) {
		const struct numerics_row *row = &numerics_table[i];
		const char *unsaid = numerics_get(&def, row, own);

		config_add(list, &(struct config_value){ "numerics", row->name, numerics_get(&now, row, running),
			next->numeric[i] ? next->numeric[i] : unsaid, d->conf.numeric[i] ? d->conf.numeric[i] : unsaid,
			true });
	}
}

/* [probe.NAME] keys that `a` has otherwise than `b`, or alone. */
static const char *config_option(const struct conf *c, const struct conf_option *o)
{
	for (int i = 0; i < c->n_option; i++)
		if (!strcmp(c->option[i].probe, o->probe) && !strcmp(c->option[i].key, o->key))
			return c->option[i].value;
	return NULL;
}

static void config_options(const struct conf *now, const struct conf *next, json_t *list)
{
	for (int i = 0; i < next->n_option; i++) {
		const struct conf_option *o = &next->option[i];

		config_add(list,
			   &(struct config_value){ o->probe, o->key, config_option(now, o), o->value,
						   config_option(now, o), true });
	}
	for (int i = 0; i < now->n_option; i++) {
		const struct conf_option *o = &now->option[i];

		if (!config_option(next, o))
			config_add(list, &(struct config_value){ o->probe, o->key, o->value, NULL, o->value, true });
	}
}

int verb_config_diff(struct call *c, json_t **ret_reply, struct buf *why)
{
	struct daemon *d = c->daemon;
	struct conf next;
	json_t *list;
	int r = daemon_configure(d->flags, &next, why);

	if (r)
		return r;
	list = json_array();
	config_keys(d, &next, list);
	if (d->engine)
		config_numerics(d, &next, list);
	config_options(&d->conf, &next, list);
	conf_fini(&next);
	*ret_reply = json_pack("{s:s, s:o}", "config", daemon_config_path(d->flags), "differences", list);
	must(*ret_reply);
	return 0;
}
