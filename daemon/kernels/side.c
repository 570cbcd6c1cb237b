/* SPDX-License-Identifier: MIT
 * side.c - a kernel set with numerics as operators type them for an experiment: "SET[,PARAMETER=VALUE...]".
 * Threads: control. Locks: none. */
#include "daemon/kernels/side.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Is "NAME=VALUE" meant for the set? */
static bool side_is_overlay(const char *name, size_t len, const char *value)
{
	if (!kset_overlay_names(name, len))
		return false;
	return !numerics_find(name, len) || !*value || value[strspn(value, "0123456789")] != '\0';
}

/* One part. What follows a set's name is meant to be a parameter, and gets its error. */
static int side_part(struct side *s, char *part, struct buf *why)
{
	bool named = s->set.len && !strchr(buf_str(&s->set), '=');
	char *eq = strchr(part, '=');

	if (eq && (named || !side_is_overlay(part, (size_t)(eq - part), eq + 1))) {
		*eq = '\0';
		return numerics_set(&s->numerics, part, eq + 1, why);
	}
	if (!eq && numerics_find(part, strlen(part)))
		return buf_why(why, RC_INVALID, "%s: a parameter needs a value, as %s=VALUE", part, part);
	if (!eq && s->set.len)
		return buf_why(why, RC_INVALID, "\"%.96s\": expected PARAMETER=VALUE%s", part,
			       named ? "" : " or FAMILY[.PHASE]=PLUGIN");
	buf_printf(&s->set, "%s%s", s->set.len ? "," : "", part);
	return 0;
}

int side_read(struct side *s, const struct numerics *base, const char *text, struct buf *why)
{
	char *all = mem_strdup(text), *save = NULL;
	int r = 0;

	buf_clear(&s->set);
	s->numerics = *base;
	for (char *part = strtok_r(all, ",", &save); part && !r; part = strtok_r(NULL, ",", &save))
		r = side_part(s, part, why);
	free(all);
	if (!s->set.len)
		buf_adds(&s->set, "active");
	return r;
}

void side_print(const char *set, const struct numerics *n, const struct numerics *base, struct buf *out)
{
	buf_adds(out, set);
	for (int i = 0; i < numerics_count; i++) {
		char mine[32], other[32];

		numerics_get(n, &numerics_table[i], mine);
		if (strcmp(mine, numerics_get(base, &numerics_table[i], other)) != 0)
			buf_printf(out, ",%s=%s", numerics_table[i].name, mine);
	}
}

void side_fini(struct side *s)
{
	buf_fini(&s->set);
}
