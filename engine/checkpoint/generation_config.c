/* SPDX-License-Identifier: MIT
 * generation_config.c - generation_config.json of a checkpoint: the model's sampling defaults (doc/format.md 1).
 * Threads: any. Locks: none. */
#include "engine/checkpoint/generation_config.h"
#include "engine/base/rc.h"
#include "engine/checkpoint/model_config_priv.h"

/* An optional number. */
static int generation_config_real(const json_t *o, const char *name, double max, float *v, struct buf *why)
{
	const json_t *x = json_object_get(o, name);
	char text[64];

	if (!x || json_is_null(x))
		return 0;
	if (!json_is_number(x) || !(json_number_value(x) >= 0 && json_number_value(x) <= max))
		return buf_why(why, RC_MODEL,
			       "generation_config.json: %s: expected a number from 0 to %g, found %s", name,
			       max, model_config_show(x, text));
	*v = (float)json_number_value(x);
	return 0;
}

int generation_config_parse(const char *json, size_t len, struct model_config *c, struct buf *why)
{
	float temperature = c->temperature, top_p = c->top_p;
	json_t *o, *sample;
	int rc = model_config_load("generation_config.json", json, len, &o, why);

	if (rc)
		return rc;
	sample = json_object_get(o, "do_sample");
	rc = generation_config_real(o, "temperature", 100, &temperature, why);
	rc = rc ? rc : generation_config_real(o, "top_p", 1, &top_p, why);
	if (rc == 0) {
		c->do_sample = sample ? json_is_true(sample) : c->do_sample;
		c->temperature = temperature;
		c->top_p = top_p;
	}
	json_decref(o);
	return rc;
}
