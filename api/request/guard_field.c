/* SPDX-License-Identifier: MIT
 * guard_field.c - what a body says of the repetition guard, in every protocol.
 * Threads: any. Locks: none. */
#include "api/request/guard_field.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <stddef.h>
#include <string.h>

static const struct guard_field_limit {
	const char *name;
	size_t at;
	int usual;
} guard_field_limits[] = {
	{ "maxrun", offsetof(struct gen_guard, maxrun), GEN_GUARD_MAXRUN },
	{ "maxline", offsetof(struct gen_guard, maxline), GEN_GUARD_MAXLINE },
	{ "period", offsetof(struct gen_guard, period), GEN_GUARD_PERIOD },
};

static bool guard_field_known(const char *key)
{
	for (size_t i = 0; i < mem_countof(guard_field_limits); i++)
		if (!strcmp(key, guard_field_limits[i].name))
			return true;
	return false;
}

static void guard_field_on(struct gen_guard *g)
{
	g->say = GEN_GUARD_ON;
	for (size_t i = 0; i < mem_countof(guard_field_limits); i++)
		*(int *)((char *)g + guard_field_limits[i].at) = guard_field_limits[i].usual;
}

static int guard_field_read(const struct field_at *o, struct gen_guard *io, struct error *err)
{
	const char *key;
	json_t *v;

	json_object_foreach(o->object, key, v)
		if (!guard_field_known(key))
			return field_refuse(o, key, err, RC_INVALID, "none of maxrun, maxline, period");
	for (size_t i = 0; i < mem_countof(guard_field_limits); i++) {
		int *limit = (int *)((char *)io + guard_field_limits[i].at);
		json_int_t n = *limit;

		if (field_int(o, guard_field_limits[i].name, 0, GUARD_FIELD_MAX, &n, err))
			return err->rc;
		if (n == 1) /* what comes once is no loop */
			return field_refuse(o, guard_field_limits[i].name, err, RC_INVALID,
					    "must be 0, for none, or 2 or more");
		*limit = (int)n;
	}
	return 0;
}

int guard_field(const struct field_at *b, struct gen_guard *io, struct error *err)
{
	json_t *v = field_any(b, "repetition_guard");
	struct field_at o;
	int rc;

	if (!v)
		return 0;
	if (json_is_false(v)) {
		io->say = GEN_GUARD_OFF;
		return 0;
	}
	if (!json_is_true(v) && !json_is_object(v))
		return field_wrong_type(b, "repetition_guard", v, "true, false or an object", err);
	guard_field_on(io);
	if (json_is_true(v))
		return 0;
	rc = field_object(b, "repetition_guard", &o, err);
	return rc ? rc : guard_field_read(&o, io, err);
}

void guard_default(struct gen_guard *io, bool on, const struct gen_sampling *s)
{
	if (io->say == GEN_GUARD_UNSAID && on && !s->ignore_eos)
		guard_field_on(io);
}
