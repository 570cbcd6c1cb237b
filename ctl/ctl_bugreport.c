/* SPDX-License-Identifier: MIT
 * ctl_bugreport.c - one file with all that helps to understand a fault: what the daemon says, its log, the machine.
 * Threads: one. Locks: none.
 *
 * Prompts and answers are in none of it, unless --prompts: then those of the requests that the daemon still keeps. */
#include "ctl/ask.h"
#include "ctl/client.h"
#include "ctl/ctl.h"
#include "ctl/tar_file.h"
#include "engine/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#define BUGREPORT_READ_MAX ((size_t)4 << 20)
#define BUGREPORT_REQUESTS 100
/* What a service's log says, newest last; without systemd there is none to be found. A journal may be as stuck as
 * the daemon is. */
#define BUGREPORT_LOG                                                    \
	"$(command -v timeout >/dev/null && echo timeout -k 1 10) "      \
	"journalctl -u dsv4d -n 5000 -o short-precise --no-pager 2>&1 "  \
	"|| echo \"journalctl: status $? (124: not done in 10 s)\""

/* Questions whose answers have no prompts in them: id of the verb, parameters as JSON. */
static const struct bugreport_part {
	const char *id, *params;
} bugreport_parts[] = {
	{ "status", NULL },        { "model", NULL },         { "param_list", NULL },   { "config_diff", NULL },
	{ "kernels_list", NULL },  { "kernels_show", NULL },  { "plugin_list", NULL },  { "cache_stats", NULL },
	{ "probe_list", NULL },    { "probe_history", "{\"max\": 100}" },               { "shadow_report", NULL },
	{ "request_list", "{\"max\": 100}" },                 { "metrics", NULL },
};

/* Of one request, with --prompts. */
static const char *const bugreport_request[] = { "request_show", "request_messages", "request_prompt",
						 "request_output" };

static void bugreport_text(struct tar_file *t, const char *name, const char *text)
{
	tar_file_add(t, name, text, strlen(text));
}

/* The reply as NAME.json, or why there is none as NAME.error. Returns the reply. */
static json_t *bugreport_ask(struct ctl *c, struct tar_file *t, const char *id, json_t *params, const char *name)
{
	struct buf why = { 0 }, file = { 0 };
	json_t *reply = NULL;
	char *text = NULL;

	/* One that hangs would hang at each. */
	if (c->silent)
		buf_adds(&why, "not asked: another question had no answer in time");
	else
		reply = ask(c, id, params, &why);
	if (reply)
		text = json_dumps(reply, JSON_INDENT(1));
	buf_printf(&file, "%.60s.%s", name, reply ? "json" : "error");
	bugreport_text(t, buf_str(&file), text ? text : buf_str(&why));
	free(text);
	buf_fini(&file);
	buf_fini(&why);
	return reply;
}

static void bugreport_prompts(struct ctl *c, struct tar_file *t, json_t *list)
{
	json_t *one;
	size_t i;

	json_array_foreach(list, i, one) {
		json_t *params = json_pack("{s:O}", "id", json_object_get(one, "id"));

		if (i >= BUGREPORT_REQUESTS)
			params = NULL;
		for (size_t k = 0; params && k < mem_countof(bugreport_request); k++) {
			struct buf name = { 0 };

			buf_printf(&name, "requests/%zu.%s", i, bugreport_request[k] + strlen("request_"));
			json_decref(bugreport_ask(c, t, bugreport_request[k], params, buf_str(&name)));
			buf_fini(&name);
		}
		json_decref(params);
	}
}

static void bugreport_daemon(struct ctl *c, struct tar_file *t, bool prompts, struct buf *config)
{
	for (size_t i = 0; i < mem_countof(bugreport_parts); i++) {
		const struct bugreport_part *p = &bugreport_parts[i];
		json_t *params = p->params ? json_loads(p->params, 0, NULL) : NULL;
		json_t *reply = bugreport_ask(c, t, p->id, params, p->id);

		if (!strcmp(p->id, "status"))
			buf_adds(config, json_is_string(json_object_get(reply, "config")) ?
					 json_string_value(json_object_get(reply, "config")) : "");
		if (prompts && !strcmp(p->id, "request_list"))
			bugreport_prompts(c, t, json_object_get(reply, "requests"));
		json_decref(params);
		json_decref(reply);
	}
}

/* Drops what is oldest of too long a text. */
static void bugreport_newest(struct buf *text)
{
	if (text->len > BUGREPORT_READ_MAX)
		buf_drop(text, text->len - BUGREPORT_READ_MAX);
}

/* A stream's first bytes up to a limit, or its last; a pipe's end is the caller's. */
static void bugreport_stream(struct tar_file *t, const char *name, FILE *f, bool newest)
{
	struct buf text = { 0 };
	char piece[4096];
	size_t n;

	while (f && (newest || text.len < BUGREPORT_READ_MAX) && (n = fread(piece, 1, sizeof piece, f)) > 0) {
		buf_add(&text, piece, n);
		if (text.len >= 2 * BUGREPORT_READ_MAX)
			bugreport_newest(&text);
	}
	bugreport_newest(&text);
	tar_file_add(t, name, text.len ? text.data : "", text.len);
	buf_fini(&text);
}

static void bugreport_file(struct tar_file *t, const char *name, const char *path)
{
	FILE *f = fopen(path, "re");

	bugreport_stream(t, name, f, false);
	if (f)
		fclose(f);
}

static void bugreport_machine(struct tar_file *t, const char *config)
{
	struct utsname u = { 0 };
	struct buf text = { 0 };
	FILE *log = popen(BUGREPORT_LOG, "re");

	bugreport_stream(t, "log.txt", log, true);
	if (log)
		pclose(log);
	uname(&u);
	buf_printf(&text, "%s %s %s %s\ndsv4ctl %s\n", u.sysname, u.release, u.version, u.machine, PACKAGE_VERSION);
	bugreport_text(t, "system.txt", buf_str(&text));
	buf_fini(&text);
	bugreport_file(t, "cpuinfo.txt", "/proc/cpuinfo");
	bugreport_file(t, "meminfo.txt", "/proc/meminfo");
	bugreport_file(t, "os-release.txt", "/etc/os-release");
	if (*config)
		bugreport_file(t, "dsv4d.conf", config);
}

/* RC_INVALID for words that are none of it. */
static bool bugreport_words(const struct ctl *c, const char **ret_path, bool *ret_prompts)
{
	for (int i = 1; i < c->n_word; i++) {
		const char *w = c->word[i];

		if (!strcmp(w, "--prompts"))
			*ret_prompts = true;
		else if (!strncmp(w, "--output=", 9))
			*ret_path = w + 9;
		else if ((!strcmp(w, "--output") || !strcmp(w, "-o")) && i + 1 < c->n_word)
			*ret_path = c->word[++i];
		else
			return false;
	}
	return true;
}

int ctl_bugreport(struct ctl *c)
{
	const char *path = NULL;
	bool prompts = false;
	struct tar_file *t = NULL;
	struct buf why = { 0 }, config = { 0 };
	char name[64], top[32];
	time_t now = time(NULL);
	struct tm tm;
	int rc;

	if (!bugreport_words(c, &path, &prompts))
		return ctl_show_usage("bugreport takes --output FILE and --prompts");
	localtime_r(&now, &tm);
	strftime(top, sizeof top, "dsv4d-%m%d-%H%M%S", &tm);
	snprintf(name, sizeof name, "%s.tar.gz", top);
	path = path ? path : name;
	rc = tar_file_new(path, top, &t, &why);
	if (!rc) {
		bugreport_daemon(c, t, prompts, &config);
		bugreport_machine(t, buf_str(&config));
		rc = tar_file_end(&t, &why);
	}
	client_close(&c->client);
	if (rc) {
		ctl_show_failed(rc, &why);
	} else if (c->json) {
		json_t *o = json_pack("{s:s}", "file", path);

		ctl_show_json(o);
		json_decref(o);
	} else {
		printf("%s%s\n", path, prompts ? " (with prompts and answers: mind who gets it)" : "");
	}
	buf_fini(&config);
	buf_fini(&why);
	return rc ? CTL_ERROR : CTL_OK;
}
