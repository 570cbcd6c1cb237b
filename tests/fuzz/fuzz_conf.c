/* SPDX-License-Identifier: MIT
 * fuzz_conf.c - any bytes as a configuration file.
 * Threads: one. Locks: none. */
#include "daemon/conf_file.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct conf c;
	struct buf why = { 0 };

	conf_init(&c);
	conf_file_parse(&c, "fuzz", (const char *)data, size, &why);
	conf_fini(&c);
	buf_fini(&why);
	return 0;
}
