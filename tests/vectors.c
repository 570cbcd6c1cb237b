/* SPDX-License-Identifier: MIT
 * vectors.c - checks dsv4d against a file of test vectors, from the command line.
 * Threads: main only. Locks: none. */
#include "tests/vectors.h"

#include <stdio.h>
#include <string.h>

/* VERB(name, number of arguments, their names, call) */
#define VECTORS_VERBS \
	VERB(encoding, 1, "FILE.json[.gz]", vectors_encoding(arg[0])) \
	VERB(tokenizer, 2, "TOKENIZER.json[.gz] FILE.json[.gz]", vectors_tokenizer(arg[0], arg[1]))

struct vectors_verb {
	const char *name, *args;
	int n_args;
	int (*run)(char *const *arg);
};

#define VERB(verb, count, names, call) \
	static int vectors_run_##verb(char *const *arg) \
	{ \
		return call; \
	}
VECTORS_VERBS
#undef VERB

static const struct vectors_verb vectors_verbs[] = {
#define VERB(verb, count, names, call) { #verb, names, count, vectors_run_##verb },
	VECTORS_VERBS
#undef VERB
	{ NULL, NULL, 0, NULL },
};

static int vectors_usage(const char *program)
{
	for (const struct vectors_verb *v = vectors_verbs; v->name; v++)
		fprintf(stderr, "usage: %s %s %s\n", program, v->name, v->args);
	return 2;
}

int main(int argc, char **argv)
{
	for (const struct vectors_verb *v = vectors_verbs; argc > 1 && v->name; v++)
		if (strcmp(argv[1], v->name) == 0 && argc == v->n_args + 2)
			return v->run(argv + 2);
	return vectors_usage(argv[0]);
}
