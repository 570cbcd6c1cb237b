/* SPDX-License-Identifier: MIT
 * vectors.c - checks dsv4d against a file of test vectors, from the command line.
 * Threads: main only. Locks: none. */
#include "tests/vectors.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

#define VECTORS_MAX_FILE ((size_t)256 << 20)

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

int vectors_read(const char *path, struct buf *ret_data)
{
	gzFile f = gzopen(path, "rb");
	char chunk[65536];
	int n = 0, bad;

	if (!f) {
		perror(path);
		return -1;
	}
	buf_clear(ret_data);
	while (ret_data->len <= VECTORS_MAX_FILE && (n = gzread(f, chunk, sizeof chunk)) > 0)
		buf_add(ret_data, chunk, (size_t)n);
	bad = n != 0;
	if (gzclose(f) != Z_OK || bad) {
		fprintf(stderr, "%s: unreadable, or larger than %zu bytes\n", path, VECTORS_MAX_FILE);
		return -1;
	}
	return 0;
}

json_t *vectors_load(const char *path)
{
	struct buf data = { 0 };
	json_error_t e;
	json_t *j = NULL;

	if (vectors_read(path, &data) == 0) {
		j = json_loadb(buf_str(&data), data.len, JSON_ALLOW_NUL | JSON_DECODE_ANY, &e);
		if (!j)
			fprintf(stderr, "%s:%d:%d: %s\n", path, e.line, e.column, e.text);
	}
	buf_fini(&data);
	return j;
}

int vectors_verdict(int n_passed, int n_failed)
{
	printf("%d passed, %d failed\n", n_passed, n_failed);
	return n_failed > 0;
}

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
