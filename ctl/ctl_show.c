/* SPDX-License-Identifier: MIT
 * ctl_show.c - what people and scripts see of a call: the reply or error, how far it is, the exit status.
 * Threads: one. Locks: none. */
#include "ctl/ctl.h"
#include "ctl/view.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CTL_BAR 30

int ctl_show_usage(const char *text)
{
	fprintf(stderr, "dsv4ctl: %s\nTry 'dsv4ctl --help'.\n", text);
	return CTL_USAGE;
}

int ctl_show_failed(int rc, const struct buf *why)
{
	fprintf(stderr, "dsv4ctl: %s\n", why->len ? buf_str(why) : rc_text(rc));
	return rc == RC_TIMEOUT ? CTL_LATER : CTL_CONNECT;
}

int ctl_show_file_failed(const struct buf *why)
{
	fprintf(stderr, "dsv4ctl: %s\n", buf_str(why));
	return CTL_ERROR;
}

static int ctl_show_error_exit(const char *error)
{
	static const struct {
		int rc, exit;
	} row[] = { { RC_DENIED, CTL_DENIED }, { RC_BUSY, CTL_LATER }, { RC_TIMEOUT, CTL_LATER },
		    { RC_NOT_READY, CTL_LATER } };

	for (size_t i = 0; i < mem_countof(row); i++)
		if (!strcmp(error, rc_varlink(row[i].rc)))
			return row[i].exit;
	return CTL_ERROR;
}

void ctl_show_json(json_t *v)
{
	char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);

	puts(text ? text : "{}");
	fflush(stdout);
	free(text);
}

int ctl_show_error(const struct ctl *c, const struct varlink_reply *r)
{
	json_t *message = json_object_get(r->params, "message");
	const char *key, *dot = strrchr(r->error, '.');
	struct buf text = { 0 };
	json_t *v;

	if (c->json)
		ctl_show_json(r->root);
	if (json_is_string(message)) {
		buf_adds(&text, json_string_value(message));
	} else {
		/* The errors of org.varlink.service carry one name. */
		buf_adds(&text, dot ? dot + 1 : r->error);
		json_object_foreach(r->params, key, v)
			buf_printf(&text, ": %s", json_is_string(v) ? json_string_value(v) : key);
	}
	view_sanitize(&text);
	fprintf(stderr, "dsv4ctl: %s\n", buf_str(&text));
	buf_fini(&text);
	return ctl_show_error_exit(r->error);
}

static void ctl_show_wait(const char *what)
{
	struct buf text = { 0 };

	buf_printf(&text, "waiting for the end of %s", what);
	view_sanitize(&text);
	fprintf(stderr, "dsv4ctl: %s\n", buf_str(&text));
	buf_fini(&text);
}

/* A bar on a terminal, and what must end first; nothing otherwise. */
void ctl_show_progress(const struct ctl *c, json_t *params)
{
	json_t *p = json_object_get(params, "progress");
	json_t *what = json_object_get(p, "probe");
	const char *name = json_string_value(what ? what : json_object_get(p, "op"));
	long long done = json_integer_value(json_object_get(p, "done"));
	long long total = json_integer_value(json_object_get(p, "total"));
	const char *waits_for = json_string_value(json_object_get(p, "waits_for"));
	char bar[CTL_BAR + 1];

	if (c->json) {
		ctl_show_json(params);
		return;
	}
	if (waits_for)
		ctl_show_wait(waits_for);
	if (!name || !isatty(STDERR_FILENO) || total <= 0)
		return;
	memset(bar, '.', CTL_BAR);
	bar[CTL_BAR] = '\0';
	memset(bar, '#', (size_t)(done > total ? CTL_BAR : done < 0 ? 0 : done * CTL_BAR / total));
	fprintf(stderr, "\r%-14.14s [%s] %lld/%lld \033[K", name, bar, done, total);
}

void ctl_show_no_progress(const struct ctl *c)
{
	if (!c->json && isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K");
}

static int ctl_show_verdict_exit(json_t *params)
{
	const char *v = json_string_value(json_object_get(params, "verdict"));

	if (!v || !strcmp(v, "pass"))
		return CTL_OK;
	return !strcmp(v, "fail") ? CTL_PROBE_FAIL : CTL_PROBE_WARN;
}

static int ctl_show_bisect_exit(const char *outcome)
{
	if (!outcome)
		return CTL_ERROR;
	return !strcmp(outcome, "found") ? CTL_OK : !strcmp(outcome, "agree") ? CTL_BISECT_AGREE : CTL_BISECT_UNSETTLED;
}

/* A file that would be refused is no failure of the call, but a script asks just that. */
static int ctl_show_reply_exit(const struct ctl *c, json_t *params)
{
	if (!strcmp(c->verb->id, "bisect"))
		return ctl_show_bisect_exit(json_string_value(json_object_get(params, "outcome")));
	if (c->verb->lasts == VERB_TELLS)
		return ctl_show_verdict_exit(params);
	return json_is_false(json_object_get(params, "accepted")) ? CTL_ERROR : CTL_OK;
}

int ctl_show_reply(const struct ctl *c, const struct varlink_reply *r)
{
	struct buf text = { 0 };

	if (c->json) {
		ctl_show_json(r->params);
	} else {
		view_reply(c->verb, r->params, &text);
		if (isatty(STDOUT_FILENO))
			view_sanitize(&text);
		fwrite(buf_str(&text), 1, text.len, stdout);
		buf_fini(&text);
	}
	return ctl_show_reply_exit(c, r->params);
}
