/* SPDX-License-Identifier: MIT
 * ctl_probe.c - `probe run`: by the daemon, or with --url in this process.
 * Threads: one. Locks: none. */
#include "ctl/ctl.h"
#include "ctl/probe/probe_key.h"
#include "ctl/probe/probe_url.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <stddef.h>

static void ctl_probe_progress(void *arg, const char *probe, int done, int total)
{
	const struct ctl *c = arg;
	json_t *p = json_pack("{s:{s:s, s:i, s:i}}", "progress", "probe", probe, "done", done, "total", total);

	ctl_show_progress(c, p);
	json_decref(p);
}

/* As a reply with the error would be shown. */
static int ctl_probe_failed(const struct ctl *c, int rc, const struct buf *why)
{
	struct varlink_reply reply = { 0 };
	int code;

	if (rc > RC_INVALID) /* an errno: nobody there */
		return ctl_show_failed(rc, why);
	reply.root = json_pack("{s:s, s:{s:s}}", "error", rc_varlink(rc), "parameters", "message", buf_str(why));
	reply.error = json_string_value(json_object_get(reply.root, "error"));
	reply.params = json_object_get(reply.root, "parameters");
	code = ctl_show_error(c, &reply);
	json_decref(reply.root);
	return code;
}

static int ctl_probe_url(struct ctl *c, json_t *params)
{
	struct buf key = { 0 }, why = { 0 };
	struct probe_url u = {
		.url = json_string_value(json_object_get(params, "url")),
		.model = json_string_value(json_object_get(params, "model")),
		.names = json_object_get(params, "names"), .quick = json_is_true(json_object_get(params, "quick")),
		.options = json_object_get(params, "options"), .progress = ctl_probe_progress, .arg = c,
	};
	struct varlink_reply reply = { 0 };
	int code, r = probe_key_read(params, &key, &why);

	probe_key_wipe(c->n_word, c->word);
	if (r) {
		code = ctl_show_usage(buf_str(&why));
		buf_fini(&why);
		return code;
	}
	u.key = key.len ? buf_str(&key) : NULL;
	r = probe_url_run(&u, &reply.params, &why);
	ctl_show_no_progress(c);
	code = r ? ctl_probe_failed(c, r, &why) : ctl_show_reply(c, &reply);
	json_decref(reply.params);
	probe_key_forget(&key);
	buf_fini(&why);
	return code;
}

/* The daemon's own, unless a URL says where. */
int ctl_probe(struct ctl *c, json_t *params)
{
	static const char *const only[] = { "key", "key_file", "model" };

	if (json_object_get(params, "url") && json_object_get(params, "set"))
		return ctl_show_usage("probe run: --set is for the daemon's own kernels, and does not go with --url");
	if (json_object_get(params, "url"))
		return ctl_probe_url(c, params);
	for (size_t i = 0; i < mem_countof(only); i++)
		if (json_object_get(params, only[i]))
			return ctl_show_usage("probe run: --key, --key-file and --model go with --url");
	return ctl_call(c, params);
}
