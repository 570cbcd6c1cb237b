/* SPDX-License-Identifier: MIT
 * ctl_dump.c - `cache dump` writes a file of what comes, `cache diff` may compare two files without a daemon.
 * Threads: one. Locks: none. */
#include "ctl/ctl.h"
#include "ctl/dump_diff.h"
#include "ctl/dump_file.h"

#include <string.h>
#include <unistd.h>

int ctl_dump(struct ctl *c, json_t *params)
{
	json_t *path = json_object_get(params, "output");
	bool gzip = json_is_true(json_object_get(params, "gzip"));
	struct buf why = { 0 };
	int code;

	if (!path)
		return ctl_show_usage("cache dump: -o FILE is missing");
	if (dump_file_new(json_string_value(path), gzip, &c->dump, &why)) {
		code = ctl_show_file_failed(&why);
	} else {
		json_object_del(params, "output");
		json_object_del(params, "gzip");
		code = ctl_call(c, params);
		dump_file_drop(&c->dump);
	}
	buf_fini(&why);
	return code;
}

/* Hex digits are an id, if there is no file of that name. */
static bool ctl_dump_is_file(json_t *params, const char *name)
{
	const char *s = json_string_value(json_object_get(params, name));

	return access(s, F_OK) == 0 || s[strspn(s, "0123456789abcdef")];
}

int ctl_dump_diff(struct ctl *c, json_t *params)
{
	bool a = ctl_dump_is_file(params, "a"), b = ctl_dump_is_file(params, "b");
	struct varlink_reply reply = { 0 };
	struct buf why = { 0 };
	int code;

	if (a != b)
		return ctl_show_usage("cache diff: two blocks or two files; cache dump makes a file of a block");
	if (!a)
		return ctl_call(c, params);
	if (dump_diff(json_string_value(json_object_get(params, "a")), json_string_value(json_object_get(params, "b")),
		      &reply.params, &why))
		code = ctl_show_file_failed(&why);
	else
		code = ctl_show_reply(c, &reply);
	json_decref(reply.params);
	buf_fini(&why);
	return code;
}
