/* SPDX-License-Identifier: MIT
 * options.c - a program's long options: a table of them, read by getopt_long(3), told by --help, refused in one voice.
 * Threads: main. Locks: none. */
#include "engine/base/options.h"
#include "engine/base/mem.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

const char *options_name(const struct options *o, int row, char to[32])
{
	snprintf(to, 32, "%s", o->row[row].name);
	for (char *p = to; *p; p++)
		*p = *p == '_' ? '-' : *p;
	return to;
}

int options_read(const struct options *o, int argc, char **argv, options_f *fn, void *arg)
{
	struct option *option = mem_new((size_t)(o->n + 1) * sizeof *option);
	char (*name)[32] = mem_new((size_t)o->n * sizeof *name);
	int at, c, rc = 0;

	for (int i = 0; i < o->n; i++)
		option[i] = (struct option){ options_name(o, i, name[i]), o->row[i].arg[0] != '\0', NULL, 0 };
	while (rc == 0 && (c = getopt_long(argc, argv, "", option, &at)) != -1)
		rc = c == '?' ? options_usage(o, "wrong option", "") : fn(arg, at, optarg);
	free(name);
	free(option);
	return rc;
}

void options_help(const struct options *o)
{
	for (int i = 0; i < o->n; i++) {
		char name[32], left[48];

		snprintf(left, sizeof left, "--%s %s", options_name(o, i, name), o->row[i].arg);
		printf("  %-18s %s\n", left, o->row[i].text);
	}
}

int options_usage(const struct options *o, const char *text, const char *detail)
{
	fprintf(stderr, "%s: %s%s\nTry %s --help.\n", o->program, text, detail, o->program);
	return OPTIONS_USAGE;
}

int options_number(const struct options *o, int row, const char *value, int64_t min, int64_t max, int64_t *ret_n)
{
	char name[32], *end;
	long long n;

	errno = 0;
	n = strtoll(value, &end, 10);
	if (errno || end == value || *end || n < min || n > max) {
		fprintf(stderr, "%s: --%s: \"%s\" is not a whole number from %" PRId64 " to %" PRId64 "\n", o->program,
			options_name(o, row, name), value, min, max);
		return OPTIONS_USAGE;
	}
	*ret_n = n;
	return 0;
}

int options_int(const struct options *o, int row, const char *value, int min, int max, int *ret_n)
{
	int64_t n = 0;
	int rc = options_number(o, row, value, min, max, &n);

	if (rc == 0)
		*ret_n = (int)n;
	return rc;
}
