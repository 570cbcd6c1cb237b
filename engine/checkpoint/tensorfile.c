/* SPDX-License-Identifier: MIT
 * tensorfile.c - named arrays of f32 and i32 in a .safetensors file: read whole, or built and written.
 * Threads: one at a time per object. Locks: none. */
#include "engine/checkpoint/tensorfile.h"
#include "engine/base/mapfile.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/safetensors_write.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- in memory ---- */

void *tensorfile_add(struct tensorfile *t, const char *name, enum tensorfile_type type, int n_dim,
	const int64_t *dim)
{
	struct tensorfile_tensor x = { .type = type, .n_dim = n_dim, .n = 1 };

	must(n_dim <= TENSORFILE_MAX_DIMS);
	for (int i = 0; i < n_dim; i++) {
		x.dim[i] = dim[i];
		if (__builtin_mul_overflow(x.n, dim[i], &x.n))
			return NULL;
	}
	x.f32 = mem_try((size_t)x.n, sizeof *x.f32);
	if (!x.f32)
		return NULL;
	x.name = mem_strdup(name);
	if (t->n == t->cap) {
		t->cap = t->cap ? 2 * t->cap : 32;
		t->tensor = mem_grow(t->tensor, (size_t)t->cap, sizeof *t->tensor);
	}
	t->tensor[t->n++] = x;
	return x.f32;
}

const struct tensorfile_tensor *tensorfile_find(const struct tensorfile *t, const char *name)
{
	for (int i = 0; i < t->n; i++)
		if (strcmp(t->tensor[i].name, name) == 0)
			return &t->tensor[i];
	return NULL;
}

void tensorfile_fini(struct tensorfile *t)
{
	for (int i = 0; i < t->n; i++) {
		free(t->tensor[i].name);
		free(t->tensor[i].f32);
	}
	free(t->tensor);
	*t = (struct tensorfile){ 0 };
}

/* ---- reading ---- */

static bool tensorfile_narrow(int32_t *to, const char *from, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		int64_t v;

		memcpy(&v, from + i * (int64_t)sizeof v, sizeof v);
		if (v < INT32_MIN || v > INT32_MAX)
			return false;
		to[i] = (int32_t)v;
	}
	return true;
}

static int tensorfile_take(struct tensorfile *t, const struct safetensors_tensor *s, const char *base,
	const char *path, struct buf *why)
{
	bool wide = s->dtype == ST_I64;
	void *data;

	if (s->dtype != ST_F32 && s->dtype != ST_I32 && !wide)
		return 0;
	if (s->n_dim > TENSORFILE_MAX_DIMS)
		return buf_why(why, RC_MODEL, "%s: tensor %s has %d dimensions; at most %d are read", path,
			s->name, s->n_dim, TENSORFILE_MAX_DIMS);
	data = tensorfile_add(t, s->name, s->dtype == ST_F32 ? TENSORFILE_F32 : TENSORFILE_I32, s->n_dim,
		s->dim);
	if (!data)
		return buf_why(why, -ENOMEM, "%s: no memory for tensor %s", path, s->name);
	if (!wide)
		memcpy(data, base + s->offset, s->bytes);
	else if (!tensorfile_narrow(data, base + s->offset, t->tensor[t->n - 1].n))
		return buf_why(why, RC_MODEL, "%s: tensor %s has a value beyond 32 bits", path, s->name);
	return 0;
}

int tensorfile_read(const char *path, struct tensorfile *ret_t, struct buf *why)
{
	struct tensorfile t = { 0 };
	struct safetensors st;
	struct mapfile map;
	int rc = safetensors_open(path, path, &st, NULL, why);

	if (rc < 0)
		return rc;
	rc = mapfile_open(&map, path, why);
	if (rc < 0) {
		safetensors_fini(&st);
		return rc;
	}
	if (map.size != st.size)
		rc = buf_why(why, RC_MODEL, "%s: changed while it was read", path);
	for (int i = 0; i < st.n && rc == 0; i++)
		rc = tensorfile_take(&t, &st.tensor[i], map.data, path, why);
	mapfile_close(&map);
	safetensors_fini(&st);
	if (rc < 0)
		tensorfile_fini(&t);
	else
		*ret_t = t;
	return rc;
}

/* ---- writing ---- */

static void tensorfile_header(const struct tensorfile *t, const char *const *meta, struct buf *out)
{
	size_t offset = 0;

	buf_addc(out, '{');
	safetensors_meta(out, meta);
	for (int i = 0; i < t->n; i++) {
		const struct tensorfile_tensor *x = &t->tensor[i];
		size_t bytes = (size_t)x->n * sizeof *x->f32;

		buf_addc(out, ',');
		safetensors_string(out, x->name);
		buf_printf(out, ":{\"dtype\":\"%s\",\"shape\":", x->type == TENSORFILE_F32 ? "F32" : "I32");
		safetensors_shape(out, x->dim, x->n_dim);
		buf_printf(out, ",\"data_offsets\":[%zu,%zu]}", offset, offset + bytes);
		offset += bytes;
	}
	buf_addc(out, '}');
	while (out->len % 8)
		buf_addc(out, ' ');
}

static bool tensorfile_put(const struct tensorfile *t, const struct buf *header, FILE *f)
{
	uint64_t len = header->len;
	bool ok = fwrite(&len, sizeof len, 1, f) == 1 &&
		  fwrite(header->data, 1, header->len, f) == header->len;

	for (int i = 0; i < t->n && ok; i++) {
		size_t n = (size_t)t->tensor[i].n;

		ok = fwrite(t->tensor[i].f32, sizeof(float), n, f) == n;
	}
	return ok && fflush(f) == 0;
}

int tensorfile_write(const struct tensorfile *t, const char *path, const char *const *meta, struct buf *why)
{
	struct buf header = { 0 }, tmp = { 0 };
	FILE *f;
	int rc = 0;

	buf_printf(&tmp, "%s.part", path);
	f = fopen(buf_str(&tmp), "we");
	if (!f) {
		rc = buf_why(why, -errno, "%s: %s", buf_str(&tmp), strerror(errno));
		buf_fini(&tmp);
		return rc;
	}
	tensorfile_header(t, meta, &header);
	if (!tensorfile_put(t, &header, f))
		rc = buf_why(why, -errno, "%s: %s", buf_str(&tmp), strerror(errno));
	if (fclose(f) != 0 && rc == 0)
		rc = buf_why(why, -errno, "%s: %s", buf_str(&tmp), strerror(errno));
	if (rc == 0 && rename(buf_str(&tmp), path) != 0)
		rc = buf_why(why, -errno, "%s: %s", path, strerror(errno));
	if (rc < 0)
		remove(buf_str(&tmp));
	buf_fini(&header);
	buf_fini(&tmp);
	return rc;
}
