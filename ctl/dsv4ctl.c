/* SPDX-License-Identifier: MIT
 * dsv4ctl.c - the command that controls a running dsv4d: its words, and which file does the work.
 * Threads: one. Locks: none. */
#include "ctl/client.h"
#include "ctl/ctl.h"
#include "ctl/help.h"
#include "ctl/key.h"
#include "engine/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
			return ctl_show_usage("--socket needs a value");
		else if (options && !strcmp(s, "--socket"))
			c->socket = argv[++i];
		else
			c->word[c->n_word++] = argv[i];
	}
	return CTL_OK;
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
	return n ? CTL_OK : ctl_show_usage("no such verb");
}

int ctl_completion(struct ctl *c)
{
	struct buf out = { 0 };

	if (c->n_word != 2)
		return ctl_show_usage("completion takes bash alone");
	help_completion_bash(&out);
	fputs(buf_str(&out), stdout);
	buf_fini(&out);
	return CTL_OK;
}

/* The key on the other output, so that the line can go to its file while the key is seen. */
int ctl_key_new(struct ctl *c)
{
	struct buf line = { 0 }, key = { 0 }, why = { 0 };
	int code = CTL_OK;
	json_t *both;

	if (key_new(c->n_word - 2, c->word + 2, &line, &key, &why)) {
		code = ctl_show_usage(buf_str(&why));
	} else if (c->json) {
		both = json_pack("{s:s, s:s}", "key", buf_str(&key), "line", buf_str(&line));
		ctl_show_json(both);
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

/* Verbs that are more than a call, or none. */
static int ctl_verb(struct ctl *c, json_t *params)
{
	static const struct {
		const char *id;
		int (*run)(struct ctl *c, json_t *params);
	} row[] = { { "probe_run", ctl_probe }, { "cache_dump", ctl_dump }, { "cache_diff", ctl_dump_diff } };

	for (size_t i = 0; i < mem_countof(row); i++)
		if (!strcmp(c->verb->id, row[i].id))
			return row[i].run(c, params);
	return ctl_call(c, params);
}

/* Who does what the words ask for without being a verb; NULL: nobody. */
static int (*ctl_own(const struct ctl *c))(struct ctl *c)
{
	static const struct {
		const char *first, *second;
		int (*run)(struct ctl *c);
	} row[] = {
#define OWN(id, first, second, args, text) { first, second, ctl_##id },
#include "ctl/own.def"
#undef OWN
	};

	for (size_t i = 0; i < mem_countof(row); i++)
		if (!strcmp(c->word[0], row[i].first) &&
		    (!*row[i].second || (c->n_word > 1 && !strcmp(c->word[1], row[i].second))))
			return row[i].run;
	return NULL;
}

static int ctl_run(struct ctl *c)
{
	struct buf why = { 0 };
	json_t *params = NULL;
	int used = 0, code;
	int (*own)(struct ctl *c);

	own = ctl_own(c);
	if (own)
		return own(c);
	c->verb = verb_find_words(c->n_word, c->word, &used);
	if (!c->verb) {
		buf_printf(&why, "unknown verb '%s%s%s'", c->word[0], c->n_word > 1 ? " " : "",
			   c->n_word > 1 ? c->word[1] : "");
		code = ctl_show_usage(buf_str(&why));
	} else if (verb_parse(c->verb, c->n_word - used, c->word + used, &params, &why)) {
		fprintf(stderr, "dsv4ctl: %s\nusage: dsv4ctl ", buf_str(&why));
		buf_clear(&why);
		verb_usage(c->verb, &why);
		fprintf(stderr, "%s\n", buf_str(&why));
		code = CTL_USAGE;
	} else if (ctl_file_read(c, params, &why)) {
		code = ctl_show_usage(buf_str(&why));
	} else {
		code = ctl_verb(c, params);
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
		code = ctl_show_usage("which verb?");
	} else {
		code = ctl_run(&c);
	}
	free(c.word);
	if (fflush(stdout) && code == CTL_OK)
		code = CTL_ERROR;
	return code;
}
