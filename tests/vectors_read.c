/* SPDX-License-Identifier: MIT
 * vectors_read.c - reads vector files, compressed or not, and reports how many cases passed.
 * Threads: main only. Locks: none. */
#include "tests/vectors.h"

#include <stdio.h>
#include <zlib.h>

#define VECTORS_MAX_FILE ((size_t)256 << 20)

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

int vectors_verdict(const char *file, int n_passed, int n_failed)
{
	if (n_passed + n_failed == 0) {
		fprintf(stderr, "%s: no case in it that this subcommand checks\n", file);
		return 2;
	}
	printf("%d passed, %d failed\n", n_passed, n_failed);
	return n_failed > 0;
}
