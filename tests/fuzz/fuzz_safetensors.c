/* SPDX-License-Identifier: MIT
 * fuzz_safetensors.c - any bytes as the header of a .safetensors file, and as an index of such files.
 * Threads: one. Locks: none. */
#include "engine/base/must.h"
#include "engine/checkpoint/checkpoint_index.h"
#include "engine/checkpoint/safetensors.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *copy(const uint8_t *data, size_t size)
{
	char *p = malloc(size ? size : 1);

	must(p != NULL);
	if (size)
		memcpy(p, data, size);
	return p;
}

static void header(const uint8_t *data, size_t size)
{
	char *text = copy(data, size);
	struct buf why = { 0 };
	struct safetensors st;
	uint64_t at = 8 + size;
	int i;

	if (safetensors_parse("fuzz", &text, size, &st, &why) == 0) {
		for (i = 0; i < st.n; i++) {
			must(st.tensor[i].offset == at && strlen(st.tensor[i].name) <= SAFETENSORS_MAX_NAME);
			at += st.tensor[i].bytes;
		}
		must(at == st.size);
		safetensors_fini(&st);
	} else {
		must(why.len > 0);
	}
	must(text == NULL);
	buf_fini(&why);
}

static void index_file(const uint8_t *data, size_t size)
{
	char *text = copy(data, size);
	struct checkpoint_index ix;
	struct buf why = { 0 };
	int i;

	if (checkpoint_index_parse(&text, size, &ix, &why) == 0) {
		for (i = 0; i < ix.n; i++)
			must(ix.entry[i].file < ix.n_files && strchr(ix.file[ix.entry[i].file], '/') == NULL);
		checkpoint_index_fini(&ix);
	} else {
		must(why.len > 0);
	}
	must(text == NULL);
	buf_fini(&why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	header(data, size);
	index_file(data, size);
	return 0;
}
