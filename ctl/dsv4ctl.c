/* SPDX-License-Identifier: MIT
 * dsv4ctl.c - the command that controls a running dsv4d.
 * Threads: one. Locks: none. */
#include "ctl/client.h"
#include "ctl/dump_diff.h"
#include "ctl/dump_file.h"
#include "ctl/help.h"
#include "ctl/key.h"
#include "ctl/verb.h"
#include "ctl/view.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CTL_REPLY_MS 30000
#define CTL_WAIT_S 60
#define CTL_BAR 30
#define CTL_FILE_MAX (1 << 20) /* as much as a call may have */

enum ctl_exit {
	CTL_OK = 0,
	CTL_ERROR = 1,
	CTL_USAGE = 2,
	CTL_CONNECT = 3,
	CTL_DENIED = 4,
	CTL_LATER = 5, /* timeout or busy */
	CTL_PROBE_WARN = 10,
	CTL_PROBE_FAIL = 11
};

struct ctl {
	const char *socket;
	bool json, help, version;
	char **word; /* what is not a global option */
	int n_word;
	const struct verb *verb;
	struct client *client;
	struct dump_file *dump; /* cache dump: the file being written */
};

static int ctl_usage(const char *text)
{
	fprintf(stderr, "dsv4ctl: %s\nTry 'dsv4ctl --help'.\n", text);
	return CTL_USAGE;
}

/* Takes --socket, --json, --help and --version out of the words, wherever they stand before "--". */
static int ctl_globals(struct ctl *c, int argc, char **argv)
{
	bool options = true;

	c->word = mem_new(sizeof *c->word * (size_t)(argc + 1));
	for (int i = 1; i < argc; i++) {
		const char *s = argv[i];

		options &= strcmp(s, "--") != 0;
		if (options && !strcmp(s, "--json"))
			c->json = true;
		else if (options && (!strcmp(s, "--help") || !strcmp(s, "-h")))
			c->help = true;
		else if (options && !strcmp(s, "--version"))
			c->version = true;
		else if (options && !strncmp(s, "--socket=", 9))
			c->socket = s + 9;
		else if (options && !strcmp(s, "--socket") && i + 1 == argc)
			return ctl_usage("--socket needs a value");
		else if (options && !strcmp(s, "--socket"))
			c->socket = argv[++i];
		else
			c->word[c->n_word++] = argv[i];
	}
	return CTL_OK;
}

/* ---- replies ---- */

static int ctl_error_exit(const char *error)
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

static void ctl_print_json(json_t *v)
{
	char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);

	puts(text ? text : "{}");
	fflush(stdout);
	free(text);
}

static int ctl_show_error(const struct ctl *c, const struct varlink_reply *r)
{
	json_t *message = json_object_get(r->params, "message");
	const char *key, *dot = strrchr(r->error, '.');
	struct buf text = { 0 };
	json_t *v;

	if (c->json)
		ctl_print_json(r->root);
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
	return ctl_error_exit(r->error);
}

/* Verbs that last as long as their work does; the first ones tell how far they are. */
static const char *const ctl_progressive[] = { "probe_run", "plugin_check", "kernels_check", "kernels_bench",
					       "compare", "cache_dump", "cache_verify", "cache_diff" };
static const char *const ctl_patient[] = { "wait", "plugin_load", "plugin_inspect", "plugin_state", "plugin_discard",
					   "kernels_use", "shadow_start", "cache_evict", "cache_clear" };

static bool ctl_among(const struct ctl *c, const char *const *ids, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(c->verb->id, ids[i]))
			return true;
	return false;
}

static bool ctl_tells_progress(const struct ctl *c)
{
	return ctl_among(c, ctl_progressive, mem_countof(ctl_progressive));
}

/* A bar on a terminal, nothing otherwise. */
static void ctl_show_progress(const struct ctl *c, json_t *params)
{
	json_t *p = json_object_get(params, "progress");
	json_t *what = json_object_get(p, "probe");
	const char *name = json_string_value(what ? what : json_object_get(p, "op"));
	long long done = json_integer_value(json_object_get(p, "done"));
	long long total = json_integer_value(json_object_get(p, "total"));
	char bar[CTL_BAR + 1];

	if (c->json) {
		ctl_print_json(params);
		return;
	}
	if (!name || !isatty(STDERR_FILENO) || total <= 0)
		return;
	memset(bar, '.', CTL_BAR);
	bar[CTL_BAR] = '\0';
	memset(bar, '#', (size_t)(done > total ? CTL_BAR : done < 0 ? 0 : done * CTL_BAR / total));
	fprintf(stderr, "\r%-14.14s [%s] %lld/%lld \033[K", name, bar, done, total);
}

static int ctl_verdict_exit(json_t *params)
{
	const char *v = json_string_value(json_object_get(params, "verdict"));

	if (!v || !strcmp(v, "pass"))
		return CTL_OK;
	return !strcmp(v, "fail") ? CTL_PROBE_FAIL : CTL_PROBE_WARN;
}

/* A file that would be refused is no failure of the call, but a script asks just that. */
static int ctl_reply_exit(const struct ctl *c, json_t *params)
{
	if (ctl_tells_progress(c))
		return ctl_verdict_exit(params);
	return json_is_false(json_object_get(params, "accepted")) ? CTL_ERROR : CTL_OK;
}

static int ctl_show_reply(const struct ctl *c, const struct varlink_reply *r)
{
	struct buf text = { 0 };

	if (c->json) {
		ctl_print_json(r->params);
	} else {
		view_reply(c->verb, r->params, &text);
		if (isatty(STDOUT_FILENO))
			view_sanitize(&text);
		fwrite(buf_str(&text), 1, text.len, stdout);
		buf_fini(&text);
	}
	return ctl_reply_exit(c, r->params);
}

/* ---- one call ---- */

/* Calls that last as long as their work does have no deadline of their own. */
static long ctl_deadline(const struct ctl *c)
{
	return ctl_tells_progress(c) || ctl_among(c, ctl_patient, mem_countof(ctl_patient)) ? -1 : CTL_REPLY_MS;
}

static int ctl_failed(int rc, const struct buf *why)
{
	fprintf(stderr, "dsv4ctl: %s\n", why->len ? buf_str(why) : rc_text(rc));
	return rc == RC_TIMEOUT ? CTL_LATER : CTL_CONNECT;
}

/* The part of a file that came with a reply, if there is one. */
static int ctl_take_part(struct ctl *c, json_t *params, struct buf *why)
{
	json_t *part = json_object_get(params, "part");
	int r = 0;

	if (c->dump && json_is_string(part)) {
		r = dump_file_add(c->dump, json_string_value(part), json_string_length(part), why);
		json_object_del(params, "part");
	}
	return r;
}

static int ctl_file_failed(struct buf *why)
{
	fprintf(stderr, "dsv4ctl: %s\n", buf_str(why));
	return CTL_ERROR;
}

static int ctl_replies(struct ctl *c, struct buf *why)
{
	bool bar = false, more;
	int code = CTL_OK, r;

	do {
		struct varlink_reply reply;

		r = client_reply(c->client, ctl_deadline(c), &reply, why);
		if (r)
			return ctl_failed(r, why);
		more = reply.continues && !reply.error;
		if (more && ctl_take_part(c, reply.params, why)) {
			code = ctl_file_failed(why);
			more = false;
		} else if (more) {
			ctl_show_progress(c, reply.params);
			bar = !c->json && isatty(STDERR_FILENO);
		} else {
			if (bar)
				fprintf(stderr, "\r\033[K");
			if (!reply.error && c->dump && dump_file_end(&c->dump, why))
				code = ctl_file_failed(why);
			else
				code = reply.error ? ctl_show_error(c, &reply) : ctl_show_reply(c, &reply);
		}
		varlink_reply_fini(&reply);
	} while (more);
	return code;
}

/* `wait` is what scripts call right after they started the daemon: its socket may not be there yet. */
static int ctl_open(struct ctl *c, json_t *params, struct buf *why)
{
	json_t *timeout = json_object_get(params, "timeout");
	long long s = timeout ? json_integer_value(timeout) : CTL_WAIT_S;

	if (strcmp(c->verb->id, "wait"))
		return client_open(c->socket, &c->client, why);
	return client_open_patiently(c->socket, s < 0 || s > 86400 ? 0 : (long)s * 1000, &c->client, why);
}

static int ctl_call(struct ctl *c, json_t *params)
{
	struct buf why = { 0 };
	bool more = ctl_tells_progress(c);
	int r = ctl_open(c, params, &why), code;

	r = r ? r : client_send(c->client, c->verb->method, params, more, &why);
	code = r ? ctl_failed(r, &why) : ctl_replies(c, &why);
	/* `stop` means stopped when it returns: the daemon closes the socket as its last act. */
	if (!r && code == CTL_OK && !strcmp(c->verb->id, "stop"))
		client_wait_close(c->client, -1);
	client_close(&c->client);
	buf_fini(&why);
	return code;
}

/* ---- files of cached blocks ---- */

static int ctl_dump(struct ctl *c, json_t *params)
{
	json_t *path = json_object_get(params, "output");
	bool gzip = json_is_true(json_object_get(params, "gzip"));
	struct buf why = { 0 };
	int code;

	if (!path)
		return ctl_usage("cache dump: -o FILE is missing");
	if (dump_file_new(json_string_value(path), gzip, &c->dump, &why)) {
		code = ctl_file_failed(&why);
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
static bool ctl_is_file(json_t *params, const char *name)
{
	const char *s = json_string_value(json_object_get(params, name));

	return access(s, F_OK) == 0 || s[strspn(s, "0123456789abcdef")];
}

static int ctl_diff(struct ctl *c, json_t *params)
{
	bool a = ctl_is_file(params, "a"), b = ctl_is_file(params, "b");
	struct varlink_reply reply = { 0 };
	struct buf why = { 0 };
	int code;

	if (a != b)
		return ctl_usage("cache diff: two blocks or two files; cache dump makes a file of a block");
	if (!a)
		return ctl_call(c, params);
	if (dump_diff(json_string_value(json_object_get(params, "a")), json_string_value(json_object_get(params, "b")),
		      &reply.params, &why))
		code = ctl_file_failed(&why);
	else
		code = ctl_show_reply(c, &reply);
	json_decref(reply.params);
	buf_fini(&why);
	return code;
}

/* ---- files that are parameters ---- */

/* All of the file, which must be text. "-" is the standard input. */
static int ctl_read(const char *path, json_t **ret_text, struct buf *why)
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

static int ctl_read_files(const struct ctl *c, json_t *params, struct buf *why)
{
	struct verb_arg a[VERB_MAX_ARGS];
	int n = verb_args(c->verb, a), r = 0;

	for (int i = 0; i < n && !r; i++) {
		const char *path = json_string_value(json_object_get(params, a[i].name));
		json_t *text;

		if (a[i].type != VERB_FILE || !path)
			continue;
		r = ctl_read(path, &text, why);
		if (r == 0)
			json_object_set_new(params, a[i].name, text);
	}
	return r;
}

static int ctl_help(struct ctl *c)
{
	struct buf out = { 0 };
	int n = 1;

	if (c->n_word)
		n = help_verbs(c->n_word, c->word, &out);
	else
		help_general(&out);
	fputs(buf_str(&out), stdout);
	buf_fini(&out);
	return n ? CTL_OK : ctl_usage("no such verb");
}

static int ctl_completion(void)
{
	struct buf out = { 0 };

	help_completion_bash(&out);
	fputs(buf_str(&out), stdout);
	buf_fini(&out);
	return CTL_OK;
}

/* The key on the other output, so that the line can go to its file while the key is seen. */
static int ctl_key_new(const struct ctl *c)
{
	struct buf line = { 0 }, key = { 0 }, why = { 0 };
	int code = CTL_OK;
	json_t *both;

	if (key_new(c->n_word - 2, c->word + 2, &line, &key, &why)) {
		code = ctl_usage(buf_str(&why));
	} else if (c->json) {
		both = json_pack("{s:s, s:s}", "key", buf_str(&key), "line", buf_str(&line));
		ctl_print_json(both);
		json_decref(both);
	} else {
		puts(buf_str(&line));
		fprintf(stderr, "%s\n", buf_str(&key));
	}
	buf_fini(&line);
	buf_fini(&key);
	buf_fini(&why);
	return code;
}

static int ctl_run(struct ctl *c)
{
	struct buf why = { 0 };
	json_t *params = NULL;
	int used = 0, code;

	if (c->n_word == 2 && !strcmp(c->word[0], "completion") && !strcmp(c->word[1], "bash"))
		return ctl_completion();
	if (c->n_word >= 2 && !strcmp(c->word[0], "key") && !strcmp(c->word[1], "new"))
		return ctl_key_new(c);
	c->verb = verb_find_words(c->n_word, c->word, &used);
	if (!c->verb) {
		buf_printf(&why, "unknown verb '%s%s%s'", c->word[0], c->n_word > 1 ? " " : "",
			   c->n_word > 1 ? c->word[1] : "");
		code = ctl_usage(buf_str(&why));
	} else if (verb_parse(c->verb, c->n_word - used, c->word + used, &params, &why)) {
		fprintf(stderr, "dsv4ctl: %s\nusage: dsv4ctl ", buf_str(&why));
		buf_clear(&why);
		verb_usage(c->verb, &why);
		fprintf(stderr, "%s\n", buf_str(&why));
		code = CTL_USAGE;
	} else if (ctl_read_files(c, params, &why)) {
		code = ctl_usage(buf_str(&why));
	} else if (!strcmp(c->verb->id, "cache_dump")) {
		code = ctl_dump(c, params);
	} else if (!strcmp(c->verb->id, "cache_diff")) {
		code = ctl_diff(c, params);
	} else {
		code = ctl_call(c, params);
	}
	json_decref(params);
	buf_fini(&why);
	return code;
}

int main(int argc, char **argv)
{
	const char *env = getenv("DSV4D_SOCKET");
	struct ctl c = { .socket = env && *env ? env : CLIENT_SOCKET };
	int code = ctl_globals(&c, argc, argv);

	if (code) {
		free(c.word);
		return code;
	}
	if (c.version) {
		printf("dsv4ctl %s\n", PACKAGE_VERSION);
	} else if (c.help) {
		code = ctl_help(&c);
	} else if (c.n_word == 0) {
		code = ctl_usage("which verb?");
	} else {
		code = ctl_run(&c);
	}
	free(c.word);
	if (fflush(stdout) && code == CTL_OK)
		code = CTL_ERROR;
	return code;
}
