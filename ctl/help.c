/* SPDX-License-Identifier: MIT
 * help.c - what dsv4ctl says about itself, made from the verb table: help and shell completion.
 * Threads: one. Locks: none. */
#include "ctl/help.h"
#include "ctl/client.h"
#include "engine/base/mem.h"

#include <stdbool.h>
#include <string.h>

static const struct help_own {
	const char *first, *second, *args, *text;
} help_owns[] = {
#define OWN(id, first, second, args, text) { first, second, args, text },
#include "ctl/own.def"
#undef OWN
};

static bool help_begins(const struct verb *v, int argc, char *const *argv)
{
	const char *s = v->words;

	for (int i = 0; i < argc; i++) {
		size_t n = strcspn(s, " ");

		if (!*s || strlen(argv[i]) != n || memcmp(argv[i], s, n) != 0)
			return false;
		s += n;
		s += strspn(s, " ");
	}
	return true;
}

/* What is no verb, likewise; one word may be enough to ask. */
static int help_own(int argc, char *const *argv, struct buf *out)
{
	int n = 0;

	for (size_t i = 0; i < mem_countof(help_owns); i++) {
		const struct help_own *o = &help_owns[i];

		if ((argc > 0 && strcmp(argv[0], o->first)) || (argc > 1 && strcmp(argv[1], o->second)))
			continue;
		buf_printf(out, "  %s%s%s%s%s\n      %s\n", o->first, *o->second ? " " : "", o->second,
			   *o->args ? " " : "", o->args, o->text);
		n++;
	}
	return n;
}

int help_verbs(int argc, char *const *argv, struct buf *out)
{
	int n = 0;

	for (int i = 0; i < verb_count; i++) {
		const struct verb *v = &verb_table[i];

		if (!help_begins(v, argc, argv))
			continue;
		buf_adds(out, "  ");
		verb_usage(v, out);
		buf_printf(out, "\n      %s", v->text);
		buf_printf(out, v->level == VERB_MONITOR ? "\n" : " (%s)\n", verb_level_name(v->level));
		n++;
	}
	return argc ? n + help_own(argc, argv, out) : n;
}

void help_general(struct buf *out)
{
	buf_adds(out, "usage: dsv4ctl [--socket PATH] [--json] VERB [ARGUMENTS]\n\n"
		      "Controls a running dsv4d over its control socket: --socket, else $DSV4D_SOCKET, else "
		      CLIENT_SOCKET ".\n"
		      "--json prints replies as JSON, one object per line. `dsv4ctl --help VERB` shows one "
		 "verb.\n\nVerbs:\n");
	help_verbs(0, NULL, out);
	help_own(0, NULL, out);
	buf_adds(out, "\nExit status: 0 ok, 1 the daemon reported an error, 2 usage, 3 cannot connect, 4 denied, 5 "
		      "timeout or busy;\n"
		      "probe run: 0 pass, 10 warn or inconclusive, 11 fail.\n");
}

/* ---- completion ---- */

/* The first word of every group once, and the second words by group. */
static void help_case(const char *group, size_t n, struct buf *out)
{
	buf_printf(out, "\t%.*s) words=\"", (int)n, group);
	for (int i = 0; i < verb_count; i++) {
		const char *w = verb_table[i].words;

		if (!strncmp(w, group, n) && w[n] == ' ')
			buf_printf(out, "%s ", w + n + 1);
	}
	buf_adds(out, "\" ;;\n");
}

static void help_arguments(const struct verb *v, struct buf *out)
{
	struct verb_arg a[VERB_MAX_ARGS];
	int n = verb_args(v, a);

	if (n == 0)
		return;
	buf_printf(out, "\t'%s') words=\"", v->words);
	for (int i = 0; i < n; i++) {
		if (a[i].option && a[i].type != VERB_MAP) {
			buf_adds(out, "--");
			for (const char *s = a[i].name; *s; s++)
				buf_addc(out, *s == '_' ? '-' : *s);
			buf_addc(out, ' ');
		}
		for (const char *s = a[i].choices; *s; s++)
			buf_addc(out, *s == '|' ? ' ' : *s);
		if (a[i].choices[0])
			buf_addc(out, ' ');
	}
	buf_adds(out, "\" ;;\n");
}

static bool help_first_of_group(int i, size_t n)
{
	for (int k = 0; k < i; k++)
		if (!strncmp(verb_table[k].words, verb_table[i].words, n) &&
		    strcspn(verb_table[k].words, " ") == n)
			return false;
	return true;
}

void help_completion_bash(struct buf *out)
{
	buf_adds(out, "# bash completion of dsv4ctl, made by `dsv4ctl completion bash`\n"
		      "_dsv4ctl() {\n\tlocal cur=${COMP_WORDS[COMP_CWORD]} words=\"--socket --json --help");
	for (int i = 0; i < verb_count; i++) {
		size_t n = strcspn(verb_table[i].words, " ");

		if (help_first_of_group(i, n))
			buf_printf(out, " %.*s", (int)n, verb_table[i].words);
	}
	for (size_t i = 0; i < mem_countof(help_owns); i++)
		buf_printf(out, " %s", help_owns[i].first);
	buf_adds(out, "\"\n\t[ \"$COMP_CWORD\" -gt 1 ] && words=\n\tcase ${COMP_WORDS[1]} in\n");
	for (int i = 0; i < verb_count; i++) {
		size_t n = strcspn(verb_table[i].words, " ");

		if (verb_table[i].words[n] && help_first_of_group(i, n))
			help_case(verb_table[i].words, n, out);
	}
	for (size_t i = 0; i < mem_countof(help_owns); i++)
		if (*help_owns[i].second)
			buf_printf(out, "\t%s) words=%s ;;\n", help_owns[i].first, help_owns[i].second);
	buf_adds(out, "\tesac\n"
		      "\tlocal two=${COMP_WORDS[1]}\n\t[ \"$COMP_CWORD\" -gt 2 ] && two=\"$two ${COMP_WORDS[2]}\" && "
		      "words=\n"
		      "\tcase $two in\n");
	for (int i = 0; i < verb_count; i++)
		help_arguments(&verb_table[i], out);
	buf_adds(out, "\tesac\n\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n}\n"
		      "complete -o default -F _dsv4ctl dsv4ctl\n");
}
