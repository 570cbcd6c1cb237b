/* SPDX-License-Identifier: MIT
 * cache_file.h - the format of one cached file, block or state, in memory: packing, checking, unpacking.
 * Threads: any, one at a time per struct. Locks: none.
 *
 * A header of fixed size in little-endian, then the rows, zlib-compressed:
 *
 *     0 magic, 8 bytes      8 version, u32     12 kind, u32      16 model id, 64 bytes   80 layout, 64 hex digits
 *   144 key, 16 bytes     160 parent           176 edge, i64    184 raw bytes, u64      192 packed bytes, u64
 *   200 the 128 tokens, i32                    712 reserved, u32 of 0                   716 CRC-32 of all other bytes
 *
 * The raw bytes are the floats of a block, or of a state, by layer and kind of row, in planes: all the lowest bytes,
 * then all the second ones, and so on. Rounded rows have low bytes of zeros, which so lie together: the tiny model's
 * files are 17 % smaller than with floats as they lie in memory. */
#ifndef ENGINE_CACHE_FILE_H
#define ENGINE_CACHE_FILE_H

#include "engine/cache/cache_disk.h"

#define CACHE_FILE_HEADER 720
#define CACHE_FILE_VERSION 1

enum cache_file_kind { CACHE_FILE_BLOCK, CACHE_FILE_STATE, CACHE_FILE_N_KIND };

/* Whose files: model and layout, as headers have them. */
struct cache_file_format {
	const struct sequence_layout *layout; /* must outlive it */
	char model[64];    /* NUL-padded */
	char digest[64];   /* SHA-256 of every width, dim, ratio and window */
};
void cache_file_format_init(struct cache_file_format *f, const struct sequence_layout *l, const char *model_id);

struct cache_file_head {
	enum cache_file_kind kind;
	struct cache_key key, parent;
	int64_t edge;
	uint64_t raw, packed; /* bytes */
	int32_t token[SEQUENCE_BLOCK];
};

/* Bytes of the largest file of this kind that can be right. */
size_t cache_file_max(const struct cache_file_format *f, enum cache_file_kind kind);
/* Bytes of the rows, uncompressed. */
size_t cache_file_raw(const struct cache_file_format *f, enum cache_file_kind kind, const struct cache_disk_item *item);

/* The whole file of the item's block or state: [*ret_size] bytes, malloc'd. -ENOMEM. */
int cache_file_pack(const struct cache_file_format *f, enum cache_file_kind kind, const struct cache_disk_item *item,
	uint8_t **ret_bytes, size_t *ret_size);
/* Is this a whole file of this model and layout, of that kind and key? RC_INVALID: no, and why says what is wrong with
 * it. RC_UNSUPPORTED: it is whole, but another model's. Sizes in *ret_h are then within what the layout allows. */
int cache_file_check(const struct cache_file_format *f, const uint8_t *bytes, size_t size, enum cache_file_kind kind,
	const struct cache_key *key, struct cache_file_head *ret_h, struct buf *why);
/* The rows of a file that cache_file_check() took, into item->block or item->state, and what the head says into the
 * rest. RC_INVALID when they do not decompress to what they must, -ENOMEM; *item is then as it was. */
int cache_file_unpack(const struct cache_file_format *f, const uint8_t *bytes, const struct cache_file_head *h,
	struct cache_disk_item *item, struct buf *why);
/* Of another model, as far as the first CACHE_FILE_HEADER bytes can tell: for files too large to be one of ours. */
bool cache_file_foreign(const struct cache_file_format *f, const uint8_t *bytes);
/* Writes the CRC of a file into its header. */
void cache_file_seal(uint8_t *bytes, size_t size);

#endif
