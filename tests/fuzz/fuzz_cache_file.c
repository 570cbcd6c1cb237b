/* SPDX-License-Identifier: MIT
 * fuzz_cache_file.c - any bytes as a file of the cache: as they are, and sealed under the name that their tokens give.
 * Threads: one. Locks: none. */
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/cache/cache_disk_index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Of a window layer, one of ratio 4 and one of ratio 128; tests/unit/diskkit.c has the same, and made the seeds. */
static const struct model_config fuzz_config = {
	.n_layers = 3, .head_dim = 6, .index_dim = 3, .window = 10, .compress_ratio = { 0, 4, 128 },
};
#define FUZZ_MODEL "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

/* What is taken is whole: packed again and read again it is the same. */
static void fuzz_again(const struct cache_file_format *f, enum cache_file_kind kind, const struct cache_disk_item *item)
{
	struct cache_file_head h;
	uint8_t *bytes;
	size_t size;

	must(item->edge > 0 && item->edge % SEQUENCE_BLOCK == 0);
	must(kind == CACHE_FILE_BLOCK ? item->block && !item->state : item->state && !item->block);
	must(!item->state || sequence_state_edge(item->state) == item->edge);
	if (cache_file_pack(f, kind, item, &bytes, &size) < 0)
		return;
	must(size <= cache_file_max(f, kind));
	must(cache_file_check(f, bytes, size, kind, &item->key, &h, NULL) == 0);
	free(bytes);
}

static void fuzz_file(const struct cache_file_format *f, const uint8_t *bytes, size_t size, enum cache_file_kind kind,
	const struct cache_key *key)
{
	struct cache_disk_item item = { .block = NULL };
	struct cache_file_head h;
	struct buf why = { 0 };
	int rc = cache_file_check(f, bytes, size, kind, key, &h, &why);

	if (rc == 0)
		rc = cache_file_unpack(f, bytes, &h, &item, &why);
	must(rc == 0 || rc == RC_INVALID || rc == RC_UNSUPPORTED || rc == -ENOMEM);
	must(rc != RC_INVALID || why.len);
	if (rc == 0)
		fuzz_again(f, kind, &item);
	sequence_block_unref(&item.block);
	sequence_state_unref(&item.state);
	buf_fini(&why);
}

/* A copy whose magic, version, model, layout, key, size and CRC are right, so that the rest is what is tried. */
static void fuzz_sealed(const struct cache_file_format *f, const uint8_t *data, size_t size)
{
	uint8_t *c = mem_try(size, 1);
	uint64_t packed = size - CACHE_FILE_HEADER;
	struct cache_key parent, key;
	int32_t token[SEQUENCE_BLOCK];

	must(c);
	memcpy(c, data, size);
	memcpy(c, "dsv4cach\1\0\0\0", 12);
	memcpy(c + 16, f->model, sizeof f->model);
	memcpy(c + 80, f->digest, sizeof f->digest);
	memcpy(parent.byte, c + 160, CACHE_KEY_BYTES);
	memcpy(token, c + 200, sizeof token);
	cache_key_next(&parent, token, &key);
	memcpy(c + 144, key.byte, CACHE_KEY_BYTES);
	memcpy(c + 192, &packed, sizeof packed);
	memset(c + 712, 0, 4);
	cache_file_seal(c, size);
	for (int kind = 0; kind < CACHE_FILE_N_KIND; kind++)
		fuzz_file(f, c, size, (enum cache_file_kind)kind, &key);
	free(c);
}

static void fuzz_name(const uint8_t *data, size_t size)
{
	char text[64] = "", again[CACHE_DISK_NAME + 8];
	struct cache_disk_name n;
	bool tmp;

	memcpy(text, data, size < sizeof text ? size : sizeof text - 1);
	if (!cache_disk_name_parse(text, &n, &tmp))
		return;
	cache_disk_name_print(&n, again);
	must(strcmp(tmp ? strcat(again, CACHE_DISK_TMP) : again, text) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct sequence_layout layout;
	struct cache_file_format f;
	struct cache_key key = { { 0 } };

	sequence_layout_init(&layout, &fuzz_config);
	cache_file_format_init(&f, &layout, FUZZ_MODEL);
	if (size >= 160)
		memcpy(key.byte, data + 144, CACHE_KEY_BYTES);
	for (int kind = 0; kind < CACHE_FILE_N_KIND; kind++)
		fuzz_file(&f, data, size, (enum cache_file_kind)kind, &key);
	if (size >= CACHE_FILE_HEADER)
		fuzz_sealed(&f, data, size);
	fuzz_name(data, size);
	return 0;
}
