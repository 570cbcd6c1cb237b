/* SPDX-License-Identifier: MIT
 * cache_dump.c - a cached prompt as the bytes of a .safetensors file, read piece by piece.
 * Threads: one at a time per dump. Locks: none. */
#include "engine/cache/cache_dump.h"
#include "engine/base/mem.h"
#include "engine/cache/cache_part.h"
#include "engine/checkpoint/safetensors_write.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>


struct cache_dump {
	struct sequence_layout layout;
	struct cache_copy copy;
	struct cache_view view;
	struct cache_part *part;
	int n_part;
	struct buf header;
	int64_t *token;       /* [copy.n_token]: numpy's own integer */
	uint64_t bytes;
	/* Where reading is: in the header, the tokens, or a part's row. */
	int at;               /* 0: header; 1: tokens; 2 + i: part i */
	int64_t row;
	size_t offset;        /* bytes into what lies together there */
};

/* ---- the header ---- */

static void cache_dump_hex(struct buf *out, const uint8_t *byte, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_printf(out, "%02x", byte[i]);
}

static void cache_dump_ratios(const struct sequence_layout *l, struct buf *out)
{
	for (int i = 0; i < l->n_layer; i++)
		buf_printf(out, "%s%d", i ? "," : "", l->layer[i].ratio);
}

static int cache_dump_header(struct cache_dump *d, const char *const *meta, struct buf *why)
{
	struct safetensors_entry *e = mem_grow(NULL, (size_t)d->n_part + 1, sizeof *e);
	int rc;

	e[0] = (struct safetensors_entry){ .name = "tokens", .dtype = ST_I64, .n_dim = 1, .dim = { d->copy.n_token } };
	for (int i = 0; i < d->n_part; i++)
		e[1 + i] = (struct safetensors_entry){ .name = d->part[i].name, .dtype = ST_F32, .n_dim = 2,
						       .dim = { d->part[i].n_row, d->part[i].width } };
	rc = safetensors_header(e, d->n_part + 1, meta, &d->header, why);
	free(e);
	return rc;
}

static int cache_dump_describe(struct cache_dump *d, const char *model_id, const char *kernels, struct buf *why)
{
	const struct cache_entry *e = &d->copy.entry;
	char key[CACHE_KEY_HEX], parent[CACHE_KEY_HEX];
	struct buf numbers = { 0 }, tokens = { 0 }, positions = { 0 }, blocks = { 0 }, ratios = { 0 };
	int rc;

	cache_dump_hex(&numbers, e->numbers, sizeof e->numbers);
	buf_printf(&tokens, "%" PRId64, d->copy.n_token);
	buf_printf(&positions, "0-%" PRId64, d->copy.n_token - 1);
	buf_printf(&blocks, "%" PRId64, d->copy.n_block);
	cache_dump_ratios(&d->layout, &ratios);
	const char *const meta[] = {
		"format", CACHE_DUMP_FORMAT, "key", cache_key_hex(&e->key, key), "parent",
		cache_key_hex(&e->parent, parent),
		"model", model_id, "numbers", buf_str(&numbers), "tokens", buf_str(&tokens), "positions",
		buf_str(&positions),
		"blocks", buf_str(&blocks), "state", d->copy.state ? "yes" : "no", "ratios", buf_str(&ratios),
		kernels ? "kernels" : NULL, kernels, NULL,
	};
	rc = cache_dump_header(d, meta, why);
	buf_fini(&numbers);
	buf_fini(&tokens);
	buf_fini(&positions);
	buf_fini(&blocks);
	buf_fini(&ratios);
	return rc;
}

static void cache_dump_count(struct cache_dump *d)
{
	d->bytes = d->header.len + (uint64_t)d->copy.n_token * sizeof *d->token;
	for (int i = 0; i < d->n_part; i++)
		d->bytes += (uint64_t)(d->part[i].n_row * d->part[i].width) * sizeof(float);
}

int cache_dump_new(const struct sequence_layout *l, struct cache_copy *copy, const char *model_id, const char *kernels,
	struct cache_dump **ret_d, struct buf *why)
{
	struct cache_dump *d = mem_new(sizeof *d);
	int rc;

	d->layout = *l;
	d->copy = *copy;
	d->view = (struct cache_view){ &d->layout, copy->block, copy->n_block, copy->state };
	d->n_part = cache_parts(&d->view, &d->part);
	d->token = mem_try((size_t)copy->n_token, sizeof *d->token);
	rc = d->token ? cache_dump_describe(d, model_id, kernels, why) :
		buf_why(why, -ENOMEM, "no memory for the tokens");
	if (rc) {
		d->copy = (struct cache_copy){ 0 }; /* still the caller's */
		cache_dump_free(&d);
		return rc;
	}
	for (int64_t i = 0; i < copy->n_token; i++)
		d->token[i] = copy->token[i];
	cache_dump_count(d);
	*copy = (struct cache_copy){ 0 };
	*ret_d = d;
	return 0;
}

void cache_dump_free(struct cache_dump **pd)
{
	struct cache_dump *d = *pd;

	*pd = NULL;
	if (!d)
		return;
	cache_copy_fini(&d->copy);
	buf_fini(&d->header);
	free(d->part);
	free(d->token);
	free(d);
}

uint64_t cache_dump_bytes(const struct cache_dump *d)
{
	return d->bytes;
}

/* ---- reading ---- */

/* What lies together where reading is; *ret_rows: how many rows of a part that is. */
static const void *cache_dump_piece(const struct cache_dump *d, size_t *ret_bytes, int64_t *ret_rows)
{
	const struct cache_part *p;
	const float *rows;

	*ret_rows = 0;
	if (d->at == 0) {
		*ret_bytes = d->header.len;
		return d->header.data;
	}
	if (d->at == 1) {
		*ret_bytes = (size_t)d->copy.n_token * sizeof *d->token;
		return d->token;
	}
	p = &d->part[d->at - 2];
	rows = cache_part_rows(&d->view, p, d->row, ret_rows);
	*ret_bytes = (size_t)(*ret_rows * p->width) * sizeof *rows;
	return rows;
}

static void cache_dump_next(struct cache_dump *d, int64_t rows)
{
	d->offset = 0;
	d->row += rows;
	if (d->at >= 2 && d->row < d->part[d->at - 2].n_row)
		return;
	d->at++;
	d->row = 0;
}

size_t cache_dump_read(struct cache_dump *d, void *out, size_t room)
{
	size_t done = 0;

	while (done < room && d->at < d->n_part + 2) {
		size_t bytes, n;
		int64_t rows;
		const char *from = cache_dump_piece(d, &bytes, &rows);

		n = bytes - d->offset < room - done ? bytes - d->offset : room - done;
		memcpy((char *)out + done, from + d->offset, n);
		done += n;
		d->offset += n;
		if (d->offset == bytes)
			cache_dump_next(d, rows);
	}
	return done;
}
