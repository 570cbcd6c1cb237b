/* SPDX-License-Identifier: MIT
 * field.c - checked access to the fields of a JSON object; every refusal names the parameter.
 * Threads: any. Locks: none. */
#include "api/request/field.h"
#include "engine/base/rc.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static const char *field_type(const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT: return "an object";
	case JSON_ARRAY: return "an array";
	case JSON_STRING: return "a string";
	case JSON_INTEGER: return "an integer";
	case JSON_REAL: return "a number";
	case JSON_TRUE:
	case JSON_FALSE: return "a boolean";
	case JSON_NULL: return "null";
	}
	return "nothing";
}

int field_refuse(const struct field_at *at, const char *key, struct error *err, int rc, const char *fmt, ...)
{
	char param[sizeof err->param];
	struct buf text = { 0 };
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	snprintf(param, sizeof param, "%s%s", at->path, key);
	error_set(err, rc, param, "%s: %s", param, buf_str(&text));
	buf_fini(&text);
	return rc;
}

int field_wrong_type(const struct field_at *at, const char *key, const json_t *v, const char *what,
		     struct error *err)
{
	return field_refuse(at, key, err, RC_INVALID, "expected %s, found %s", what, field_type(v));
}

json_t *field_any(const struct field_at *at, const char *key)
{
	json_t *v = json_object_get(at->object, key);

	return json_is_null(v) ? NULL : v;
}

int field_bool(const struct field_at *at, const char *key, bool *io, struct error *err)
{
	json_t *v = field_any(at, key);

	if (!v)
		return 0;
	if (!json_is_boolean(v))
		return field_wrong_type(at, key, v, "a boolean", err);
	*io = json_is_true(v);
	return 0;
}

int field_int(const struct field_at *at, const char *key, json_int_t min, json_int_t max, json_int_t *io,
	      struct error *err)
{
	json_t *v = field_any(at, key);
	json_int_t n;

	if (!v)
		return 0;
	if (json_is_integer(v))
		n = json_integer_value(v);
	else if (json_is_real(v) && fabs(json_real_value(v)) < 0x1p53 &&
		 trunc(json_real_value(v)) == json_real_value(v))
		n = (json_int_t)json_real_value(v);
	else
		return field_wrong_type(at, key, v, "an integer", err);
	if (n < min || n > max)
		return field_refuse(at, key, err, RC_INVALID, "%lld is not between %lld and %lld",
				    (long long)n, (long long)min, (long long)max);
	*io = n;
	return 0;
}

int field_real(const struct field_at *at, const char *key, double min, double max, double *io,
	       struct error *err)
{
	json_t *v = field_any(at, key);
	double x;

	if (!v)
		return 0;
	if (!json_is_number(v))
		return field_wrong_type(at, key, v, "a number", err);
	x = json_number_value(v);
	if (!(x >= min && x <= max))
		return field_refuse(at, key, err, RC_INVALID, "%g is not between %g and %g", x, min, max);
	*io = x;
	return 0;
}

int field_string(const struct field_at *at, const char *key, const char **io, struct error *err)
{
	json_t *v = field_any(at, key);

	if (!v)
		return 0;
	if (!json_is_string(v))
		return field_wrong_type(at, key, v, "a string", err);
	*io = json_string_value(v);
	return 0;
}

int field_need(const struct field_at *at, const char *key, const char **ret_s, struct error *err)
{
	const char *s = NULL;
	int rc = field_string(at, key, &s, err);

	if (!rc && !s)
		rc = field_refuse(at, key, err, RC_INVALID, "missing");
	if (!rc)
		*ret_s = s;
	return rc;
}

int field_array(const struct field_at *at, const char *key, json_t **io, struct error *err)
{
	json_t *v = field_any(at, key);

	if (!v)
		return 0;
	if (!json_is_array(v))
		return field_wrong_type(at, key, v, "an array", err);
	*io = v;
	return 0;
}

int field_object(const struct field_at *at, const char *key, struct field_at *io, struct error *err)
{
	json_t *v = field_any(at, key);

	if (v && !json_is_object(v))
		return field_wrong_type(at, key, v, "an object", err);
	io->object = v;
	/* A path that is too long is cut: it is only for messages. */
	if ((size_t)snprintf(io->path, sizeof io->path, "%.80s%.40s.", at->path, key) >= sizeof io->path)
		io->path[0] = '\0';
	return 0;
}

int field_element(const struct field_at *at, const char *key, json_t *array, size_t index,
		  struct field_at *io, struct error *err)
{
	json_t *v = json_array_get(array, index);
	char name[64];

	snprintf(name, sizeof name, "%.40s[%zu]", key, index);
	if (!json_is_object(v))
		return field_wrong_type(at, name, v, "an object", err);
	io->object = v;
	if ((size_t)snprintf(io->path, sizeof io->path, "%.60s%.62s.", at->path, name) >= sizeof io->path)
		io->path[0] = '\0';
	return 0;
}
