/* SPDX-License-Identifier: MIT
 * key.c - `dsv4ctl key new`: makes an API key and its line for the key file; needs no daemon.
 * Threads: one. Locks: none. */
#include "ctl/key.h"
#include "engine/base/keyhash.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <stdlib.h>
#include <string.h>

#define KEY_MAX_LIMIT 1000000

static const struct {
	const char *option, *field;
} key_limits[] = { { "--requests-per-minute", "requests_per_minute" }, { "--concurrent", "concurrent" } };

/* One "--limit N" or "--limit=N" at word[*i]. */
static int key_limit(int n, char *const *word, int *i, struct buf *line, struct buf *why)
{
	for (size_t k = 0; k < mem_countof(key_limits); k++) {
		size_t len = strlen(key_limits[k].option);
		const char *value;
		char *end;
		long limit;

		if (strncmp(word[*i], key_limits[k].option, len) || (word[*i][len] && word[*i][len] != '='))
			continue;
		value = word[*i][len] ? word[*i] + len + 1 : *i + 1 < n ? word[++*i] : "";
		limit = *value >= '0' && *value <= '9' ? strtol(value, &end, 10) : 0;
		if (limit < 1 || limit > KEY_MAX_LIMIT || *end)
			return buf_why(why, RC_INVALID, "%s: '%s' is not within 1 to %d", key_limits[k].option, value,
				       KEY_MAX_LIMIT);
		if (strstr(buf_str(line), key_limits[k].field))
			return buf_why(why, RC_INVALID, "%s: given twice", key_limits[k].option);
		buf_printf(line, " %s=%ld", key_limits[k].field, limit);
		return 0;
	}
	return buf_why(why, RC_INVALID, "key new: unexpected '%s'", word[*i]);
}

int key_new(int n, char *const *word, struct buf *ret_line, struct buf *ret_key, struct buf *why)
{
	char key[KEYHASH_NEW];
	const char *name = NULL;
	struct buf limits = { 0 };
	struct keyhash h;
	int r = 0;

	for (int i = 0; i < n && !r; i++) {
		if (name || word[i][0] == '-')
			r = key_limit(n, word, &i, &limits, why);
		else
			name = word[i];
	}
	if (!r && (!name || !keyhash_name_ok(name)))
		r = buf_why(why, RC_INVALID, "key new: the NAME has 1 to %d letters, digits, dots, dashes "
			    "and underscores", KEYHASH_NAME);
	if (!r) {
		keyhash_new_key(key);
		keyhash_make(&h, key);
		buf_adds(ret_key, key);
		buf_printf(ret_line, "%s ", name);
		keyhash_print(&h, ret_line);
		buf_adds(ret_line, buf_str(&limits));
	}
	buf_fini(&limits);
	return r;
}
