/* SPDX-License-Identifier: MIT
 * dump_diff.c - two files of cache dump, tensor by tensor, without a daemon and without having them in memory.
 * Threads: one. Locks: none. */
#include "ctl/dump_diff.h"
#include "ctl/cache_diff.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define DUMP_HEADER_MAX (100u << 20) /* the format's own limit */
#define DUMP_PIECE 65536             /* values held of a file at a time, or one row */

struct dump_tensor {
	int64_t rows, width;
	size_t size;              /* of an element: 4, or 8 for tokens */
	uint64_t offset, bytes;   /* in the data */
};

struct dump_in {
	const char *path;
	gzFile gz;                /* reads plain files as well */
	json_t *header;
	uint64_t data;            /* where the tensors begin */
};

/* ---- one file ---- */

static int dump_diff_read(struct dump_in *in, uint64_t at, void *out, size_t n, struct buf *why)
{
	if (gzseek(in->gz, (z_off_t)at, SEEK_SET) != (z_off_t)at || gzread(in->gz, out, (unsigned)n) != (int)n)
		return buf_why(why, RC_MODEL, "%s: cut short, or cannot be unpacked", in->path);
	return 0;
}

static int dump_diff_open(const char *path, struct dump_in *in, struct buf *why)
{
	unsigned char prefix[8];
	uint64_t len = 0;
	char *text;
	int rc;

	*in = (struct dump_in){ .path = path, .gz = gzopen(path, "rbe") };
	if (!in->gz)
		return buf_why(why, errno ? -errno : -ENOMEM, "%s: %s", path, strerror(errno ? errno : ENOMEM));
	rc = dump_diff_read(in, 0, prefix, sizeof prefix, why);
	for (int i = 7; i >= 0 && rc == 0; i--)
		len = len << 8 | prefix[i];
	if (rc == 0 && (len < 2 || len > DUMP_HEADER_MAX))
		rc = buf_why(why, RC_MODEL, "%s: no safetensors file", path);
	text = rc ? NULL : mem_try(len, 1);
	if (rc == 0 && !text)
		rc = buf_why(why, -ENOMEM, "%s: no memory for its header", path);
	rc = rc ? rc : dump_diff_read(in, sizeof prefix, text, len, why);
	in->data = sizeof prefix + len;
	in->header = rc ? NULL : json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	if (rc == 0 && !json_is_object(in->header))
		rc = buf_why(why, RC_MODEL, "%s: no safetensors file", path);
	free(text);
	return rc;
}

static void dump_diff_close(struct dump_in *in)
{
	json_decref(in->header);
	if (in->gz)
		gzclose(in->gz);
}

/* The tensor of that name; *ret_t has no rows when there is none. */
static int dump_diff_tensor(const struct dump_in *in, const char *name, struct dump_tensor *ret_t, struct buf *why)
{
	json_t *o = json_object_get(in->header, name), *shape = json_object_get(o, "shape");
	json_t *from = json_array_get(json_object_get(o, "data_offsets"), 0);
	json_t *to = json_array_get(json_object_get(o, "data_offsets"), 1);
	const char *dtype = json_string_value(json_object_get(o, "dtype"));
	bool tokens = !strcmp(name, "tokens");
	json_int_t rows, width, bytes;

	*ret_t = (struct dump_tensor){ 0 };
	if (!o)
		return 0;
	if (!dtype || strcmp(dtype, tokens ? "I64" : "F32") || json_array_size(shape) != (tokens ? 1 : 2))
		return buf_why(why, RC_UNSUPPORTED, "%s: %.64s is no tensor of a cache dump", in->path, name);
	rows = json_integer_value(json_array_get(shape, 0));
	width = tokens ? 1 : json_integer_value(json_array_get(shape, 1));
	ret_t->size = tokens ? 8 : 4;
	if (rows <= 0 || width <= 0 || __builtin_mul_overflow(rows, width, &bytes)
	    || __builtin_mul_overflow(bytes, (json_int_t)ret_t->size, &bytes) || width > INT32_MAX / 8
	    || json_integer_value(from) < 0 || json_integer_value(to) - json_integer_value(from) != bytes)
		return buf_why(why, RC_MODEL, "%s: %.64s: its shape and its bytes do not agree", in->path, name);
	ret_t->rows = rows;
	ret_t->width = width;
	ret_t->offset = (uint64_t)json_integer_value(from);
	ret_t->bytes = (uint64_t)bytes;
	return 0;
}

/* ---- two of them ---- */

struct dump_pair {
	struct dump_in a, b;
	struct cache_diff diff;
	int64_t tokens_a, tokens_b, first_token;
	char *x, *y;              /* a piece of each */
	size_t room;
};

static int dump_diff_piece(struct dump_pair *p, const struct dump_tensor *a, const struct dump_tensor *b, int64_t row,
		      int64_t n, struct buf *why)
{
	size_t row_bytes = (size_t)a->width * a->size, need = (size_t)n * row_bytes;
	int rc;

	if (need > p->room) {
		free(p->x);
		free(p->y);
		p->room = need;
		p->x = mem_try(need, 1);
		p->y = mem_try(need, 1);
	}
	if (!p->x || !p->y)
		return buf_why(why, -ENOMEM, "no memory for a row of %zu bytes", row_bytes);
	rc = dump_diff_read(&p->a, p->a.data + a->offset + (uint64_t)row * row_bytes, p->x, need, why);
	return rc ? rc : dump_diff_read(&p->b, p->b.data + b->offset + (uint64_t)row * row_bytes, p->y, need, why);
}

static void dump_diff_tokens(struct dump_pair *p, int64_t at, int64_t n)
{
	for (int64_t i = 0; i < n && p->first_token < 0; i++)
		if (memcmp(p->x + i * 8, p->y + i * 8, 8) != 0)
			p->first_token = at + i;
}

/* Are these rows of the same positions in both? Those of blocks are, those of states only at the same end. */
static bool dump_diff_comparable(const struct dump_pair *p, const char *name)
{
	return strstr(name, ".rows_") || !strcmp(name, "tokens") || p->tokens_a == p->tokens_b;
}

static int dump_diff_compare(struct dump_pair *p, const char *name, struct buf *why)
{
	struct dump_tensor a, b;
	struct rowdiff d = { 0 };
	int64_t rows, n;
	int rc = dump_diff_tensor(&p->a, name, &a, why);

	rc = rc ? rc : dump_diff_tensor(&p->b, name, &b, why);
	if (rc)
		return rc;
	if (a.rows && b.rows && a.width != b.width)
		return buf_why(why, RC_UNSUPPORTED, "%.64s: rows of %" PRId64 " and of %" PRId64 " values: two models",
			       name, a.width, b.width);
	rows = !dump_diff_comparable(p, name) ? 0 : a.rows < b.rows ? a.rows : b.rows;
	for (int64_t row = 0; row < rows && rc == 0; row += n) {
		n = a.width < DUMP_PIECE ? DUMP_PIECE / a.width : 1;
		n = n < rows - row ? n : rows - row;
		rc = dump_diff_piece(p, &a, &b, row, n, why);
		if (rc)
			return rc;
		if (a.size == 8)
			dump_diff_tokens(p, row, n);
		else
			rowdiff_add(&d, (const float *)(const void *)p->x, (const float *)(const void *)p->y, row, n,
				    a.width);
	}
	if (!strcmp(name, "tokens")) {
		p->tokens_a = a.rows;
		p->tokens_b = b.rows;
	} else {
		cache_diff_add(&p->diff, name, a.rows, b.rows, rows, &d);
	}
	return rc;
}

static int dump_diff_compare_all(struct dump_pair *p, struct buf *why)
{
	const char *name;
	json_t *v;
	int rc = dump_diff_compare(p, "tokens", why);

	json_object_foreach(p->a.header, name, v)
		if (rc == 0 && strcmp(name, "tokens") && strcmp(name, "__metadata__"))
			rc = dump_diff_compare(p, name, why);
	json_object_foreach(p->b.header, name, v)
		if (rc == 0 && strcmp(name, "tokens") && strcmp(name, "__metadata__") &&
		    !json_object_get(p->a.header, name))
			rc = dump_diff_compare(p, name, why);
	if (rc == 0 && (!p->tokens_a || !p->tokens_b))
		rc = buf_why(why, RC_UNSUPPORTED, "%s: no cache dump: it has no tokens",
			     p->tokens_a ? p->b.path : p->a.path);
	return rc;
}

static json_t *dump_diff_reply(struct dump_pair *p)
{
	bool same = cache_diff_same(&p->diff) && p->first_token < 0 && p->tokens_a == p->tokens_b;
	json_t *o = json_pack("{s:s, s:I, s:I}", "verdict", same ? "pass" : "fail", "tokens_a", (json_int_t)p->tokens_a,
			      "tokens_b", (json_int_t)p->tokens_b);

	if (p->first_token >= 0)
		json_object_set_new(o, "first_token", json_integer(p->first_token));
	cache_diff_take(&p->diff, o);
	return o;
}

int dump_diff(const char *path_a, const char *path_b, json_t **ret_reply, struct buf *why)
{
	struct dump_pair p = { .first_token = -1 };
	int rc = dump_diff_open(path_a, &p.a, why);

	rc = rc ? rc : dump_diff_open(path_b, &p.b, why);
	rc = rc ? rc : dump_diff_compare_all(&p, why);
	if (rc == 0)
		*ret_reply = dump_diff_reply(&p);
	cache_diff_fini(&p.diff);
	dump_diff_close(&p.a);
	dump_diff_close(&p.b);
	free(p.x);
	free(p.y);
	return rc;
}
