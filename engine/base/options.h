/* SPDX-License-Identifier: MIT
 * options.h - a program's long options: a table of them, read by getopt_long(3), told by --help, refused in one voice.
 * Threads: main. Locks: none. */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include <stdint.h>

/* The exit status of wrong usage. */
#define OPTIONS_USAGE 2

/* The table is an X-macro of OPT(name, argument or "", text): its rows are OPTIONS_ROW of each, and an enum of the
 * names says which is which. A name has '_' where the option has '-'. */
struct options_row {
	const char *name, *arg, *text;
};
#define OPTIONS_ROW(name, arg, text) { #name, arg, text },

struct options {
	const char *program;
	const struct options_row *row; /* [n] */
	int n;
};

/* One option of argv, row's, with its value, or NULL. What is not 0 ends the reading. */
typedef int options_f(void *arg, int row, const char *value);

/* 0, what fn gave, or OPTIONS_USAGE for what is no option, which is said then. The operands are argv from optind on. */
int options_read(const struct options *o, int argc, char **argv, options_f *fn, void *arg);
/* A line for each option. */
void options_help(const struct options *o);

/* Says what is wrong, text and detail one after the other, and where help is. OPTIONS_USAGE. */
int options_usage(const struct options *o, const char *text, const char *detail);
/* A row's value in decimal, from min to max; 0, or OPTIONS_USAGE, and said why. */
int options_number(const struct options *o, int row, const char *value, int64_t min, int64_t max, int64_t *ret_n);
int options_int(const struct options *o, int row, const char *value, int min, int max, int *ret_n);
/* The option as it is written, without "--", in `to`, which is returned. */
const char *options_name(const struct options *o, int row, char to[32]);

#endif
