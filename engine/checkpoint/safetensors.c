/* SPDX-License-Identifier: MIT
 * safetensors.c - the header of one .safetensors file, checked in every number before anyone uses it.
 * Threads: any. Locks: none. */
#include "engine/checkpoint/safetensors.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/base/jscan.h"
#include "engine/checkpoint/nametab.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SAFETENSORS_PREFIX 8 /* bytes of the header's length, before the header */

/* ---- dtypes ---- */

static const struct {
	const char *name;
	int bits;
} safetensors_dtypes[ST_N_DTYPE] = {
#define X(name, bits) { #name, bits },
	SAFETENSORS_DTYPES(X)
#undef X
};

const char *safetensors_dtype_name(int dtype)
{
	must(dtype >= 0 && dtype < ST_N_DTYPE);
	return safetensors_dtypes[dtype].name;
}

int safetensors_dtype_bits(int dtype)
{
	must(dtype >= 0 && dtype < ST_N_DTYPE);
	return safetensors_dtypes[dtype].bits;
}

int safetensors_dtype_find(const char *name)
{
	int i;

	for (i = 0; i < ST_N_DTYPE; i++)
		if (strcmp(name, safetensors_dtypes[i].name) == 0)
			return i;
	return -1;
}

void safetensors_shape(struct buf *out, const int64_t *dim, int n_dim)
{
	int i;

	buf_addc(out, '[');
	for (i = 0; i < n_dim; i++)
		buf_printf(out, "%s%" PRId64, i ? ", " : "", dim[i]);
	buf_addc(out, ']');
}

/* ---- one entry ---- */

uint64_t safetensors_bytes(int dtype, const int64_t *dim, int n_dim)
{
	int64_t n = safetensors_dtype_bits(dtype);
	int i;

	for (i = 0; i < n_dim; i++)
		if (__builtin_mul_overflow(n, dim[i], &n))
			return UINT64_MAX;
	return n % 8 == 0 ? (uint64_t)n / 8 : UINT64_MAX;
}

static int safetensors_bad_bytes(const char *file, const char *name, const struct safetensors_tensor *t,
				 struct buf *why)
{
	uint64_t bytes = safetensors_bytes(t->dtype, t->dim, t->n_dim);
	struct buf shape = { 0 };

	safetensors_shape(&shape, t->dim, t->n_dim);
	if (bytes == UINT64_MAX)
		buf_why(why, 0, "%s: tensor %s: %s %s is no whole number of bytes below 2^60", file, name,
			safetensors_dtype_name(t->dtype), buf_str(&shape));
	else
		buf_why(why, 0, "%s: tensor %s: expected %" PRIu64 " bytes for %s %s, found %" PRIu64, file,
			name, bytes, safetensors_dtype_name(t->dtype), buf_str(&shape), t->bytes);
	buf_fini(&shape);
	return RC_MODEL;
}

static bool safetensors_dims(struct jscan *s, struct safetensors_tensor *t)
{
	jscan_enter(s, '[');
	while (jscan_next(s)) {
		if (t->n_dim == SAFETENSORS_MAX_DIMS)
			return jscan_fail(s, "shape with too many dimensions");
		if (!jscan_count(s, &t->dim[t->n_dim++]))
			return false;
	}
	return !s->error;
}

static bool safetensors_offsets(struct jscan *s, struct safetensors_tensor *t)
{
	int64_t begin, end;

	jscan_enter(s, '[');
	if (!jscan_next(s) || !jscan_count(s, &begin) || !jscan_next(s) || !jscan_count(s, &end) ||
	    jscan_next(s))
		return jscan_fail(s, "data_offsets: expected two numbers");
	if (end < begin)
		return jscan_fail(s, "data_offsets: end before begin");
	t->offset = (uint64_t)begin;
	t->bytes = (uint64_t)(end - begin);
	return !s->error;
}

/* {"dtype": ..., "shape": [...], "data_offsets": [...]}, each once. */
static bool safetensors_entry(struct jscan *s, struct safetensors_tensor *t)
{
	enum { DTYPE = 1, SHAPE = 2, OFFSETS = 4, ALL = 7 };
	unsigned seen = 0, now;
	char key[32], dtype[16];
	int d;

	jscan_enter(s, '{');
	while (jscan_key(s, key, sizeof key, NULL)) {
		now = strcmp(key, "dtype") == 0 ? DTYPE : strcmp(key, "shape") == 0 ? SHAPE :
		      strcmp(key, "data_offsets") == 0 ? OFFSETS : 0;
		if (now == 0 || (seen & now))
			return jscan_fail(s, now ? "a field twice" : "a field that the format does not have");
		seen |= now;
		if (now == SHAPE && !safetensors_dims(s, t))
			return false;
		if (now == OFFSETS && !safetensors_offsets(s, t))
			return false;
		if (now != DTYPE)
			continue;
		if (!jscan_string(s, dtype, sizeof dtype, NULL))
			return false;
		d = safetensors_dtype_find(dtype);
		if (d < 0)
			return jscan_fail(s, "unknown dtype");
		t->dtype = (uint8_t)d;
	}
	return !s->error && (seen == ALL || jscan_fail(s, "dtype, shape or data_offsets is missing"));
}

/* ---- the whole header ---- */

/* Names are compacted to the front of the header's own text: they are read in order and never grow. */
struct safetensors_reader {
	struct jscan s;
	char *text;
	size_t len, used;          /* used: bytes of names at the front */
	struct safetensors_tensor *tensor;
	int n, cap;
};

static int safetensors_grow(struct safetensors_reader *r)
{
	int cap = r->cap ? r->cap * 2 : 256;
	void *p;

	if (r->n < r->cap)
		return 0;
	p = realloc(r->tensor, (size_t)cap * sizeof *r->tensor);
	if (!p)
		return -ENOMEM;
	r->tensor = p;
	r->cap = cap;
	return 0;
}

static bool safetensors_name_ok(const char *name, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		if (name[i] < 0x20 || name[i] > 0x7e)
			return false;
	return len > 0;
}

/* Reads the entries; a name's address is stored as an offset, since the text may still move. */
static int safetensors_entries(struct safetensors_reader *r, const char *file, struct buf *why)
{
	struct jscan *s = &r->s;
	const char *name = "";
	size_t len;

	jscan_enter(s, '{');
	while (jscan_key(s, r->text + r->used, SAFETENSORS_MAX_NAME + 1, &len)) {
		struct safetensors_tensor t = { 0 };

		name = r->text + r->used;
		if (strcmp(name, "__metadata__") == 0) {
			if (!jscan_skip(s))
				break;
			continue;
		}
		if (!safetensors_name_ok(name, len))
			return buf_why(why, RC_MODEL,
				       "%s: header byte %zu: a tensor's name must be printable ASCII", file,
				       jscan_at(s));
		if (!safetensors_entry(s, &t))
			return buf_why(why, RC_MODEL, "%s: tensor %s: %s", file, name, s->error);
		if (safetensors_bytes(t.dtype, t.dim, t.n_dim) != t.bytes)
			return safetensors_bad_bytes(file, name, &t, why);
		if (r->n == SAFETENSORS_MAX_TENSORS)
			return buf_why(why, RC_MODEL, "%s: more than %d tensors", file,
				       SAFETENSORS_MAX_TENSORS);
		if (safetensors_grow(r))
			return buf_why(why, -ENOMEM, "%s: out of memory for its header", file);
		t.name = (const char *)r->used;
		r->used += len + 1;
		r->tensor[r->n++] = t;
	}
	if (!jscan_done(s))
		return buf_why(why, RC_MODEL, "%s: header byte %zu: %s", file, jscan_at(s), s->error);
	return 0;
}

static int safetensors_by_offset(const void *a, const void *b)
{
	const struct safetensors_tensor *x = a, *y = b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return x->bytes == y->bytes ? 0 : x->bytes < y->bytes ? -1 : 1;
}

/* The data must be covered once, from first byte to last. Sorts, and makes offsets those of the file. */
static int safetensors_layout(const char *file, struct safetensors *st, size_t header, struct buf *why)
{
	uint64_t at = 0, start = SAFETENSORS_PREFIX + (uint64_t)header;
	int i;

	if (st->n > 1)
		qsort(st->tensor, (size_t)st->n, sizeof *st->tensor, safetensors_by_offset);
	for (i = 0; i < st->n; i++) {
		struct safetensors_tensor *t = &st->tensor[i];

		if (t->offset != at)
			return buf_why(why, RC_MODEL,
				       "%s: tensor %s: expected data_offsets to begin at %" PRIu64
				       " (%s), found %" PRIu64,
				       file, t->name, at,
				       t->offset < at ? "it overlaps another tensor"
						      : "no tensor covers the bytes before it",
				       t->offset);
		at += t->bytes;
		t->offset += start;
	}
	if (at > INT64_MAX - start)
		return buf_why(why, RC_MODEL, "%s: more data than a file can hold", file);
	st->size = start + at;
	return 0;
}

static int safetensors_unique(const char *file, const struct safetensors *st, struct buf *why)
{
	struct nametab names = { 0 };
	int i, rc = 0;

	for (i = 0; rc == 0 && i < st->n; i++) {
		rc = nametab_put(&names, st->tensor[i].name, i, NULL);
		if (rc < 0)
			rc = buf_why(why, rc, "%s: out of memory for its header", file);
		else
			rc = rc == 1 ? 0
				     : buf_why(why, RC_MODEL, "%s: tensor %s: named twice", file,
					       st->tensor[i].name);
	}
	nametab_fini(&names);
	return rc;
}

int safetensors_parse(const char *file, char **header, size_t len, struct safetensors *ret_st,
		      struct buf *why)
{
	struct safetensors_reader r = { .text = *header, .len = len };
	struct safetensors st;
	char *fit;
	int i, rc;

	*header = NULL;
	jscan_init(&r.s, r.text, len);
	rc = safetensors_entries(&r, file, why);
	fit = realloc(r.text, r.used ? r.used : 1);
	st = (struct safetensors){ .tensor = r.tensor, .n = r.n, .text = fit ? fit : r.text };
	for (i = 0; i < st.n; i++)
		st.tensor[i].name = st.text + (size_t)st.tensor[i].name;
	rc = rc ? rc : safetensors_layout(file, &st, len, why);
	rc = rc ? rc : safetensors_unique(file, &st, why);
	if (rc) {
		safetensors_fini(&st);
		return rc;
	}
	*ret_st = st;
	return 0;
}

void safetensors_fini(struct safetensors *st)
{
	if (!st)
		return;
	free(st->tensor);
	free(st->text);
	*st = (struct safetensors){ 0 };
}

const struct safetensors_tensor *safetensors_find(const struct safetensors *st, const char *name)
{
	int i;

	for (i = 0; i < st->n; i++)
		if (strcmp(st->tensor[i].name, name) == 0)
			return &st->tensor[i];
	return NULL;
}

/* ---- files ---- */

/* Exactly len bytes from an offset. */
static int safetensors_pread(int fd, void *to, size_t len, off_t at)
{
	char *p = to;
	ssize_t n;

	while (len > 0) {
		n = pread(fd, p, len, at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		p += n;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

static int safetensors_header(int fd, uint64_t size, const char *name, char **ret_header, size_t *ret_len,
			      struct buf *why)
{
	unsigned char prefix[SAFETENSORS_PREFIX];
	uint64_t len = 0;
	char *header;
	int i, rc;

	if (size < sizeof prefix)
		return buf_why(why, RC_MODEL, "%s: not a safetensors file: %" PRIu64 " bytes", name, size);
	rc = safetensors_pread(fd, prefix, sizeof prefix, 0);
	if (rc)
		return buf_why(why, rc, "%s: %s", name, strerror(-rc));
	for (i = SAFETENSORS_PREFIX - 1; i >= 0; i--)
		len = len << 8 | prefix[i];
	if (len > SAFETENSORS_MAX_HEADER || len > size - sizeof prefix)
		return buf_why(why, RC_MODEL,
			       "%s: not a safetensors file: a header of %" PRIu64
			       " bytes in a file of %" PRIu64,
			       name, len, size);
	header = malloc((size_t)len + 1);
	if (!header)
		return buf_why(why, -ENOMEM, "%s: out of memory for a header of %" PRIu64 " bytes", name,
			       len);
	rc = safetensors_pread(fd, header, (size_t)len, sizeof prefix);
	if (rc) {
		free(header);
		return buf_why(why, rc, "%s: %s", name, strerror(-rc));
	}
	*ret_header = header;
	*ret_len = (size_t)len;
	return 0;
}

static int safetensors_size(const char *name, const struct safetensors *st, uint64_t size,
			    uint64_t *ret_missing, struct buf *why)
{
	if (size > st->size || (size < st->size && !ret_missing))
		return buf_why(why, RC_MODEL, "%s: expected %" PRIu64 " bytes by its header, found %" PRIu64,
			       name, st->size, size);
	if (ret_missing)
		*ret_missing = st->size - size;
	return 0;
}

int safetensors_open(const char *path, const char *name, struct safetensors *ret_st, uint64_t *ret_missing,
		     struct buf *why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc;
	struct safetensors st = { 0 };
	struct stat sb;
	char *header = NULL;
	size_t len = 0;

	if (fd < 0)
		return buf_why(why, -errno, "%s: %s", name, strerror(errno));
	if (fstat(fd, &sb) < 0)
		rc = buf_why(why, -errno, "%s: %s", name, strerror(errno));
	else if (!S_ISREG(sb.st_mode))
		rc = buf_why(why, RC_MODEL, "%s: not a regular file", name);
	else
		rc = safetensors_header(fd, (uint64_t)sb.st_size, name, &header, &len, why);
	close(fd);
	rc = rc ? rc : safetensors_parse(name, &header, len, &st, why);
	rc = rc ? rc : safetensors_size(name, &st, (uint64_t)sb.st_size, ret_missing, why);
	if (rc) {
		safetensors_fini(&st);
		return rc;
	}
	*ret_st = st;
	return 0;
}
