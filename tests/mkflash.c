/* SPDX-License-Identifier: MIT
 * mkflash.c - the command: tests/mkflash flash|0731|base|nvfp4 DIR [headers] fills DIR (made here) with a
 * sparse checkpoint of that release, for trying --inspect and start-up without the weights.
 * Threads: one. */
#include "tests/lib/flash.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

int main(int argc, char **argv)
{
	int kind = argc >= 3 ? flash_kind_find(argv[1]) : -1, rc;
	bool data = argc < 4 || strcmp(argv[3], "headers") != 0;
	struct flash_total total;

	if (kind < 0) {
		fprintf(stderr, "usage: mkflash flash|0731|base|nvfp4 DIR [headers]\n");
		return 2;
	}
	if (mkdir(argv[2], 0700) < 0 && errno != EEXIST) {
		fprintf(stderr, "%s: %s\n", argv[2], strerror(errno));
		return 1;
	}
	rc = flash_make(argv[2], (enum flash_kind)kind, data, &total);
	if (rc) {
		fprintf(stderr, "%s: %s\n", argv[2], strerror(-rc));
		return 1;
	}
	printf("%d files, %d tensors, %" PRIu64 " bytes\n", total.files, total.tensors, total.bytes);
	return 0;
}
