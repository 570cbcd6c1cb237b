/* SPDX-License-Identifier: MIT
 * cache_file.c - the format of one cached file, block or state, in memory: packing, checking, unpacking.
 * Threads: any, one at a time per struct. Locks: none. */
#include "engine/cache/cache_file.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/base/sha256.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "rows are stored as they lie in memory");

/* Rows are written once and read rarely; the fastest level finds the zeros as well as the best. */
#define CACHE_FILE_LEVEL 1
/* No context is longer; and no sum of offsets overflows. */
#define CACHE_FILE_MAX_EDGE ((int64_t)1 << 40)

static const char cache_file_magic[8] = { 'd', 's', 'v', '4', 'c', 'a', 'c', 'h' };

enum cache_file_offset {
	CACHE_FILE_AT_MAGIC = 0,
	CACHE_FILE_AT_VERSION = 8,
	CACHE_FILE_AT_KIND = 12,
	CACHE_FILE_AT_MODEL = 16,
	CACHE_FILE_AT_DIGEST = 80,
	CACHE_FILE_AT_KEY = 144,
	CACHE_FILE_AT_PARENT = 160,
	CACHE_FILE_AT_EDGE = 176,
	CACHE_FILE_AT_RAW = 184,
	CACHE_FILE_AT_PACKED = 192,
	CACHE_FILE_AT_TOKEN = 200,
	CACHE_FILE_AT_RESERVED = 712,
	CACHE_FILE_AT_CRC = 716
};

/* ---- numbers in a header ---- */

static void cache_file_put(uint8_t *p, uint64_t v, int n)
{
	for (int i = 0; i < n; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static uint64_t cache_file_take(const uint8_t *p, int n)
{
	uint64_t v = 0;

	for (int i = 0; i < n; i++)
		v |= (uint64_t)p[i] << (8 * i);
	return v;
}

static uint32_t cache_file_crc(const uint8_t *bytes, size_t size)
{
	uLong crc = crc32_z(0, bytes, CACHE_FILE_AT_CRC);

	return (uint32_t)crc32_z(crc, bytes + CACHE_FILE_HEADER, size - CACHE_FILE_HEADER);
}

void cache_file_seal(uint8_t *bytes, size_t size)
{
	must(size >= CACHE_FILE_HEADER);
	cache_file_put(bytes + CACHE_FILE_AT_CRC, cache_file_crc(bytes, size), 4);
}

/* ---- what a layout allows ---- */

void cache_file_format_init(struct cache_file_format *f, const struct sequence_layout *l, const char *model_id)
{
	struct buf text = { 0 };
	char hex[SHA256_HEX];

	must(strlen(model_id) <= sizeof f->model);
	memset(f, 0, sizeof *f);
	f->layout = l;
	memcpy(f->model, model_id, strlen(model_id));
	buf_printf(&text, "%d %d %d\n", SEQUENCE_BLOCK, l->n_layer, l->window);
	for (int i = 0; i < l->n_layer; i++) {
		buf_printf(&text, "%d %d", l->layer[i].ratio, l->layer[i].overlap);
		for (int t = 0; t < SEQUENCE_N_TAIL; t++)
			buf_printf(&text, " %d", l->layer[i].width[t]);
		for (int k = 0; k < SEQUENCE_N_ROWS; k++)
			buf_printf(&text, " %d", l->layer[i].dim[k]);
		buf_addc(&text, '\n');
	}
	sha256_hex(hex, text.data, text.len);
	memcpy(f->digest, hex, sizeof f->digest);
	buf_fini(&text);
}

/* The bytes of the rows are at most those of the object that holds them. */
static size_t cache_file_raw_max(const struct cache_file_format *f, enum cache_file_kind kind)
{
	return kind == CACHE_FILE_BLOCK ? sequence_block_bytes(f->layout)
					: sequence_state_bytes(f->layout, CACHE_FILE_MAX_EDGE);
}

size_t cache_file_max(const struct cache_file_format *f, enum cache_file_kind kind)
{
	return CACHE_FILE_HEADER + compressBound(cache_file_raw_max(f, kind));
}

/* ---- rows as one array of bytes ---- */

/* Rows move either way between the pieces of a block or a state and planes of bytes. */
struct cache_file_walk {
	uint8_t *raw;  /* [4][n_float]; NULL: only count */
	size_t n_float, at;
	bool out;      /* from the pieces to raw */
};

static void cache_file_walk_rows(struct cache_file_walk *w, float *rows, size_t n)
{
	uint8_t *piece = (uint8_t *)rows;

	for (size_t i = 0; w->raw && i < n; i++)
		for (size_t b = 0; b < sizeof(float); b++) {
			uint8_t *plane = w->raw + b * w->n_float + w->at + i;

			if (w->out)
				*plane = piece[i * sizeof(float) + b];
			else
				piece[i * sizeof(float) + b] = *plane;
		}
	w->at += n;
}

static void cache_file_walk_block(const struct sequence_layout *l, struct cache_file_walk *w, struct sequence_block *b)
{
	for (int i = 0; i < l->n_layer; i++)
		for (int k = 0; k < SEQUENCE_N_ROWS; k++)
			if (l->layer[i].dim[k])
				cache_file_walk_rows(w, sequence_block_rows(l, b, i, (enum sequence_rows)k),
					(size_t)(SEQUENCE_BLOCK / l->layer[i].ratio * l->layer[i].dim[k]));
}

static void cache_file_walk_state(const struct sequence_layout *l, struct cache_file_walk *w, struct sequence_state *st)
{
	for (int i = 0; i < l->n_layer; i++)
		for (int t = 0; t < SEQUENCE_N_TAIL; t++) {
			int64_t n;
			float *rows = sequence_state_rows(l, st, i, (enum sequence_tail)t, &n);

			cache_file_walk_rows(w, rows, (size_t)(n * l->layer[i].width[t]));
		}
}

static void cache_file_walk(const struct cache_file_format *f, enum cache_file_kind kind, struct cache_file_walk *w,
	const struct cache_disk_item *item)
{
	if (kind == CACHE_FILE_BLOCK)
		cache_file_walk_block(f->layout, w, item->block);
	else
		cache_file_walk_state(f->layout, w, item->state);
}

size_t cache_file_raw(const struct cache_file_format *f, enum cache_file_kind kind, const struct cache_disk_item *item)
{
	struct cache_file_walk count = { 0 };

	cache_file_walk(f, kind, &count, item);
	return count.at * sizeof(float);
}

/* ---- packing ---- */

static void cache_file_put_head(const struct cache_file_format *f, enum cache_file_kind kind,
	const struct cache_disk_item *item, uint64_t raw, uint64_t packed, uint8_t *h)
{
	memset(h, 0, CACHE_FILE_HEADER);
	memcpy(h + CACHE_FILE_AT_MAGIC, cache_file_magic, sizeof cache_file_magic);
	cache_file_put(h + CACHE_FILE_AT_VERSION, CACHE_FILE_VERSION, 4);
	cache_file_put(h + CACHE_FILE_AT_KIND, kind, 4);
	memcpy(h + CACHE_FILE_AT_MODEL, f->model, sizeof f->model);
	memcpy(h + CACHE_FILE_AT_DIGEST, f->digest, sizeof f->digest);
	memcpy(h + CACHE_FILE_AT_KEY, item->key.byte, CACHE_KEY_BYTES);
	memcpy(h + CACHE_FILE_AT_PARENT, item->parent.byte, CACHE_KEY_BYTES);
	cache_file_put(h + CACHE_FILE_AT_EDGE, (uint64_t)item->edge, 8);
	cache_file_put(h + CACHE_FILE_AT_RAW, raw, 8);
	cache_file_put(h + CACHE_FILE_AT_PACKED, packed, 8);
	for (int i = 0; i < SEQUENCE_BLOCK; i++)
		cache_file_put(h + CACHE_FILE_AT_TOKEN + 4 * i, (uint32_t)item->token[i], 4);
}

int cache_file_pack(const struct cache_file_format *f, enum cache_file_kind kind, const struct cache_disk_item *item,
	uint8_t **ret_bytes, size_t *ret_size)
{
	size_t raw = cache_file_raw(f, kind, item);
	uLongf packed = compressBound(raw);
	struct cache_file_walk w = { .n_float = raw / sizeof(float), .out = true };
	uint8_t *bytes = mem_try(CACHE_FILE_HEADER + packed, 1);
	int rc = Z_MEM_ERROR;

	w.raw = mem_try(raw ? raw : 1, 1);
	if (w.raw && bytes) {
		cache_file_walk(f, kind, &w, item);
		rc = compress2(bytes + CACHE_FILE_HEADER, &packed, w.raw, raw, CACHE_FILE_LEVEL);
	}
	free(w.raw);
	if (rc != Z_OK) {
		must(rc == Z_MEM_ERROR);
		free(bytes);
		return -ENOMEM;
	}
	cache_file_put_head(f, kind, item, raw, packed, bytes);
	*ret_bytes = bytes;
	*ret_size = CACHE_FILE_HEADER + packed;
	cache_file_seal(bytes, *ret_size);
	return 0;
}

/* ---- checking ---- */

static void cache_file_take_head(const uint8_t *b, struct cache_file_head *h)
{
	h->kind = (enum cache_file_kind)(cache_file_take(b + CACHE_FILE_AT_KIND, 4) & 1);
	memcpy(h->key.byte, b + CACHE_FILE_AT_KEY, CACHE_KEY_BYTES);
	memcpy(h->parent.byte, b + CACHE_FILE_AT_PARENT, CACHE_KEY_BYTES);
	h->edge = (int64_t)cache_file_take(b + CACHE_FILE_AT_EDGE, 8);
	h->raw = cache_file_take(b + CACHE_FILE_AT_RAW, 8);
	h->packed = cache_file_take(b + CACHE_FILE_AT_PACKED, 8);
	for (int i = 0; i < SEQUENCE_BLOCK; i++)
		h->token[i] = (int32_t)cache_file_take(b + CACHE_FILE_AT_TOKEN + 4 * i, 4);
}

bool cache_file_foreign(const struct cache_file_format *f, const uint8_t *bytes)
{
	return !memcmp(bytes + CACHE_FILE_AT_MAGIC, cache_file_magic, sizeof cache_file_magic) &&
	       cache_file_take(bytes + CACHE_FILE_AT_VERSION, 4) == CACHE_FILE_VERSION &&
	       memcmp(bytes + CACHE_FILE_AT_MODEL, f->model, sizeof f->model) != 0;
}

/* As it was written, whoever wrote it. */
static int cache_file_check_whole(const uint8_t *b, size_t size, struct buf *why)
{
	uint64_t packed;

	if (size < CACHE_FILE_HEADER)
		return buf_why(why, RC_INVALID, "%zu bytes are less than a header", size);
	if (memcmp(b + CACHE_FILE_AT_MAGIC, cache_file_magic, sizeof cache_file_magic) != 0)
		return buf_why(why, RC_INVALID, "no cached block: its first bytes are others");
	if (cache_file_take(b + CACHE_FILE_AT_VERSION, 4) != CACHE_FILE_VERSION)
		return buf_why(why, RC_INVALID, "version %u, not %d",
			(unsigned)cache_file_take(b + CACHE_FILE_AT_VERSION, 4), CACHE_FILE_VERSION);
	packed = cache_file_take(b + CACHE_FILE_AT_PACKED, 8);
	if (packed != size - CACHE_FILE_HEADER)
		return buf_why(why, RC_INVALID, "%zu bytes after the header, not %llu", size - CACHE_FILE_HEADER,
			(unsigned long long)packed);
	if (cache_file_take(b + CACHE_FILE_AT_CRC, 4) != cache_file_crc(b, size))
		return buf_why(why, RC_INVALID, "its CRC differs");
	return 0;
}

/* Key and edge, of which nothing else in the file is evidence. */
static int cache_file_check_key(const struct cache_file_head *h, const struct cache_key *key, struct buf *why)
{
	struct cache_key made;

	cache_key_next(&h->parent, h->token, &made);
	if (!cache_key_equal(&h->key, key))
		return buf_why(why, RC_INVALID, "another block's");
	if (!cache_key_equal(&made, key))
		return buf_why(why, RC_INVALID, "its key is not that of its tokens");
	if (h->edge <= 0 || h->edge > CACHE_FILE_MAX_EDGE || h->edge % SEQUENCE_BLOCK)
		return buf_why(why, RC_INVALID, "no block ends at token %lld", (long long)h->edge);
	return 0;
}

int cache_file_check(const struct cache_file_format *f, const uint8_t *bytes, size_t size, enum cache_file_kind kind,
	const struct cache_key *key, struct cache_file_head *ret_h, struct buf *why)
{
	int rc = cache_file_check_whole(bytes, size, why);

	if (rc < 0)
		return rc;
	if (cache_file_foreign(f, bytes))
		return buf_why(why, RC_UNSUPPORTED, "another model's");
	if (memcmp(bytes + CACHE_FILE_AT_DIGEST, f->digest, sizeof f->digest) != 0)
		return buf_why(why, RC_INVALID, "of another layout");
	if (cache_file_take(bytes + CACHE_FILE_AT_KIND, 4) != kind)
		return buf_why(why, RC_INVALID, "of another kind than its name says");
	if (cache_file_take(bytes + CACHE_FILE_AT_RESERVED, 4) != 0)
		return buf_why(why, RC_INVALID, "reserved bytes are not 0");
	cache_file_take_head(bytes, ret_h);
	if (ret_h->raw > cache_file_raw_max(f, kind) || ret_h->packed > compressBound((uLong)ret_h->raw))
		return buf_why(why, RC_INVALID, "larger than the layout allows");
	return cache_file_check_key(ret_h, key, why);
}

/* ---- unpacking ---- */

static int cache_file_inflate(const uint8_t *bytes, const struct cache_file_head *h, uint8_t *raw, struct buf *why)
{
	uLongf n = (uLongf)h->raw;
	uLong used = (uLong)h->packed;
	int rc = uncompress2(raw, &n, bytes + CACHE_FILE_HEADER, &used);

	if (rc == Z_MEM_ERROR)
		return -ENOMEM;
	if (rc != Z_OK || n != h->raw || used != h->packed)
		return buf_why(why, RC_INVALID, "its rows do not decompress");
	return 0;
}

/* The block or state that the rows go to, with no rows yet. */
static int cache_file_room(const struct cache_file_format *f, const struct cache_file_head *h,
	struct cache_disk_item *ret_item)
{
	ret_item->key = h->key;
	ret_item->parent = h->parent;
	ret_item->edge = h->edge;
	memcpy(ret_item->token, h->token, sizeof ret_item->token);
	return h->kind == CACHE_FILE_BLOCK ? sequence_block_new(f->layout, &ret_item->block)
					   : sequence_state_new(f->layout, h->edge, &ret_item->state);
}

int cache_file_unpack(const struct cache_file_format *f, const uint8_t *bytes, const struct cache_file_head *h,
	struct cache_disk_item *item, struct buf *why)
{
	struct cache_file_walk w = { .n_float = (size_t)h->raw / sizeof(float) };
	struct cache_disk_item got = { .block = NULL };
	int rc = cache_file_room(f, h, &got);

	if (rc < 0)
		return rc;
	if (h->raw != cache_file_raw(f, h->kind, &got))
		rc = buf_why(why, RC_INVALID, "%llu bytes of rows are not what the layout says",
			(unsigned long long)h->raw);
	else if (!(w.raw = mem_try(h->raw ? (size_t)h->raw : 1, 1)))
		rc = -ENOMEM;
	else
		rc = cache_file_inflate(bytes, h, w.raw, why);
	if (rc == 0) {
		cache_file_walk(f, h->kind, &w, &got);
		if (h->kind == CACHE_FILE_BLOCK)
			got.state = item->state;
		else
			got.block = item->block;
		*item = got;
	} else {
		sequence_block_unref(&got.block);
		sequence_state_unref(&got.state);
	}
	free(w.raw);
	return rc;
}
