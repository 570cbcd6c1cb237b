/* SPDX-License-Identifier: MIT
 * plain.c - tables of fields that are copied as they are, or refused since they cannot be honoured.
 * Threads: any. Locks: none. */
#include "api/request/plain.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

static int plain_real(const struct plain_field *f, const struct field_at *b, float *io, struct error *err)
{
	double x = (double)*io;
	int rc = field_real(b, f->name, f->min, f->max, &x, err);

	*io = (float)x;
	return rc;
}

static int plain_int(const struct plain_field *f, const struct field_at *b, int *io, struct error *err)
{
	json_int_t n = *io;
	int rc = field_int(b, f->name, (json_int_t)f->min, (json_int_t)f->max, &n, err);

	*io = (int)n;
	return rc;
}

/* What asks for nothing. */
static bool plain_empty(const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_NULL:
	case JSON_FALSE: return true;
	case JSON_INTEGER:
	case JSON_REAL: return !(json_number_value(v) > 0) && !(json_number_value(v) < 0);
	case JSON_STRING: return json_string_length(v) == 0;
	case JSON_ARRAY: return json_array_size(v) == 0;
	case JSON_OBJECT: return json_object_size(v) == 0;
	case JSON_TRUE: break;
	}
	return false;
}

static int plain_refused(const struct plain_field *f, const struct field_at *b, struct error *err)
{
	json_t *v = field_any(b, f->name);

	return v && !plain_empty(v) ? field_refuse(b, f->name, err, RC_UNSUPPORTED, "%s", f->text) : 0;
}

static int plain_only(const struct plain_field *f, const struct field_at *b, struct error *err)
{
	json_t *v = field_any(b, f->name), *want = json_loads(f->only, JSON_DECODE_ANY, NULL);
	bool same;

	must(want);
	same = !v || json_equal(v, want) || (json_is_number(v) && json_is_number(want) &&
		!(json_number_value(v) < json_number_value(want)) && !(json_number_value(v) > json_number_value(want)));
	json_decref(want);
	return same ? 0 : field_refuse(b, f->name, err, RC_UNSUPPORTED, "only %s: %s", f->only, f->text);
}

static int plain_one(const struct plain_field *f, const struct field_at *b, void *to, struct error *err)
{
	void *member = (char *)to + f->at;

	switch (f->kind) {
	case PLAIN_REAL: return plain_real(f, b, member, err);
	case PLAIN_INT: return plain_int(f, b, member, err);
	case PLAIN_FLAG: return field_bool(b, f->name, member, err);
	case PLAIN_REFUSED: return plain_refused(f, b, err);
	case PLAIN_ONLY: return plain_only(f, b, err);
	}
	must_fail("a kind of field", __FILE__, __LINE__, __func__);
}

int plain_read(const struct plain_field *f, size_t n, const struct field_at *b, void *to, struct error *err)
{
	int rc = 0;

	for (size_t i = 0; i < n && !rc; i++) {
		struct field_at in = *b;

		if (f[i].object && !json_is_object(json_object_get(b->object, f[i].object)))
			continue;
		rc = f[i].object ? field_object(b, f[i].object, &in, err) : 0;
		rc = rc ? rc : plain_one(&f[i], &in, to, err);
	}
	return rc;
}
