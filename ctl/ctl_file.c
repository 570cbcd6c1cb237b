/* SPDX-License-Identifier: MIT
 * ctl_file.c - parameters that are the text of a file.
 * Threads: one. Locks: none. */
#include "ctl/ctl.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CTL_FILE_MAX (1 << 20) /* as much as a call may have */

/* All of the file, which must be text. "-" is the standard input. */
static int ctl_file_text(const char *path, json_t **ret_text, struct buf *why)
{
	bool input = !strcmp(path, "-");
	FILE *f = input ? stdin : fopen(path, "re");
	struct buf text = { 0 };
	char part[65536];
	size_t n;
	int r = 0;

	if (!f)
		return buf_why(why, -errno, "%s: %s", path, strerror(errno));
	while ((n = fread(part, 1, sizeof part, f)) > 0 && text.len <= CTL_FILE_MAX)
		buf_add(&text, part, n);
	if (ferror(f))
		r = buf_why(why, -EIO, "%s: cannot be read", path);
	else if (text.len > CTL_FILE_MAX)
		r = buf_why(why, RC_TOO_LARGE, "%s: more than %d bytes", path, CTL_FILE_MAX);
	else if (text.len && memchr(text.data, '\0', text.len))
		r = buf_why(why, RC_INVALID, "%s: has NUL bytes", path);
	else if (!(*ret_text = json_stringn(buf_str(&text), text.len)))
		r = buf_why(why, RC_INVALID, "%s: not UTF-8", path);
	if (!input)
		fclose(f);
	buf_fini(&text);
	return r;
}

int ctl_file_read(const struct ctl *c, json_t *params, struct buf *why)
{
	struct verb_arg a[VERB_MAX_ARGS];
	int n = verb_args(c->verb, a), r = 0;

	for (int i = 0; i < n && !r; i++) {
		const char *path = json_string_value(json_object_get(params, a[i].name));
		json_t *text;

		if (a[i].type != VERB_FILE || !path)
			continue;
		r = ctl_file_text(path, &text, why);
		if (r == 0)
			json_object_set_new(params, a[i].name, text);
	}
	return r;
}
