/* SPDX-License-Identifier: MIT
 * probe_key.c - the key for another server: where it is said, and how it is kept out of sight.
 * Threads: one. Locks: none. */
#include "ctl/probe/probe_key.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_OPTION "--key"

static int probe_key_file(const char *path, struct buf *ret_key, struct buf *why)
{
	bool input = !strcmp(path, "-");
	FILE *f = input ? stdin : fopen(path, "re");
	char line[8192];
	int r = 0;

	if (!f)
		return buf_why(why, -errno, "%s: %s", path, strerror(errno));
	if (!fgets(line, sizeof line, f))
		r = buf_why(why, RC_INVALID, "%s: no line with a key", path);
	else
		buf_add(ret_key, line, strcspn(line, "\r\n"));
	explicit_bzero(line, sizeof line);
	if (!input)
		fclose(f);
	return r;
}

int probe_key_read(json_t *params, struct buf *ret_key, struct buf *why)
{
	const char *key = json_string_value(json_object_get(params, "key"));
	const char *file = json_string_value(json_object_get(params, "key_file"));
	const char *env = getenv(PROBE_KEY_ENV);

	if (key && file)
		return buf_why(why, RC_INVALID, "--key and --key-file: one of them");
	if (file)
		return probe_key_file(file, ret_key, why);
	buf_adds(ret_key, key ? key : env ? env : "");
	return 0;
}

void probe_key_forget(struct buf *key)
{
	if (key->data)
		explicit_bzero(key->data, key->len);
	buf_fini(key);
}

void probe_key_wipe(int argc, char *const *argv)
{
	size_t n = strlen(KEY_OPTION);

	for (int i = 0; i < argc && strcmp(argv[i], "--"); i++) {
		char *value = !strncmp(argv[i], KEY_OPTION "=", n + 1) ? argv[i] + n + 1 : NULL;

		if (!strcmp(argv[i], KEY_OPTION) && i + 1 < argc)
			value = argv[++i];
		if (value)
			memset(value, '*', strlen(value));
	}
}
