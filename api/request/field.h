/* SPDX-License-Identifier: MIT
 * field.h - checked access to the fields of a JSON object; every refusal names the parameter.
 * Threads: any. Locks: none. */
#ifndef API_FIELD_H
#define API_FIELD_H

#include "api/http/error.h"

#include <jansson.h>
#include <stdbool.h>

/* An object and where it stands: "" for the body itself, else e.g. "messages[2].". */
struct field_at {
	json_t *object;
	char path[128];
};

/* All of these leave *io alone and return 0 when the field is absent or null. A wrong type or a value out of
 * range is RC_INVALID with the field's path as param. What *io points to afterwards is borrowed from the
 * object. */
int field_bool(const struct field_at *at, const char *key, bool *io, struct error *err);
/* Integral reals such as 5.0 count as integers. */
int field_int(const struct field_at *at, const char *key, json_int_t min, json_int_t max, json_int_t *io,
	      struct error *err);
int field_real(const struct field_at *at, const char *key, double min, double max, double *io,
	       struct error *err);
int field_string(const struct field_at *at, const char *key, const char **io, struct error *err);
/* One that must be there; it may be empty. */
int field_need(const struct field_at *at, const char *key, const char **ret_s, struct error *err);
int field_array(const struct field_at *at, const char *key, json_t **io, struct error *err);
/* *io is written too: with object NULL when absent. */
int field_object(const struct field_at *at, const char *key, struct field_at *io, struct error *err);
/* The index-th element of an array field as an object. */
int field_element(const struct field_at *at, const char *key, json_t *array, size_t index,
		  struct field_at *io, struct error *err);
/* The field's value of any type, or NULL when absent or null. */
json_t *field_any(const struct field_at *at, const char *key);

/* For checks of the caller's own: RC_INVALID or another rc, naming path + key. */
int field_refuse(const struct field_at *at, const char *key, struct error *err, int rc, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
/* "expected WHAT, found TYPE" */
int field_wrong_type(const struct field_at *at, const char *key, const json_t *v, const char *what,
		     struct error *err);

#endif
