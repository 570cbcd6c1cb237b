/* SPDX-License-Identifier: MIT
 * plain.h - tables of fields that are copied as they are, or refused since they cannot be honoured.
 * Threads: any. Locks: none. */
#ifndef API_PLAIN_H
#define API_PLAIN_H

#include "api/request/field.h"

enum plain_kind {
	PLAIN_REAL,    /* float, min to max */
	PLAIN_INT,     /* int, min to max */
	PLAIN_FLAG,    /* bool */
	PLAIN_REFUSED, /* an error, unless null, false, 0 or empty: ignoring it would change the answer unsaid */
	PLAIN_ONLY     /* an error, unless the one value that is what is done anyway */
};

struct plain_field {
	const char *name;
	enum plain_kind kind;
	size_t at;          /* of the member */
	double min, max;
	const char *only;   /* JSON text */
	const char *text;   /* a refusal's reason; else a remark for readers */
	const char *object; /* NULL, or the object whose member it is; passed over when that is none */
};

/* The columns of a .def file as rows of a table; `type` is the struct that members belong to. */
#define PLAIN_ROW_REAL(type, name, member, min, max, text) \
	{ #name, PLAIN_REAL, offsetof(type, member), min, max, NULL, text, NULL },
#define PLAIN_ROW_INT(type, name, member, min, max, text) \
	{ #name, PLAIN_INT, offsetof(type, member), min, max, NULL, text, NULL },
#define PLAIN_ROW_FLAG(type, name, member, text) { #name, PLAIN_FLAG, offsetof(type, member), 0, 0, NULL, text, NULL },
#define PLAIN_ROW_REFUSED(name, text) { #name, PLAIN_REFUSED, 0, 0, 0, NULL, text, NULL },
#define PLAIN_ROW_ONLY(name, only, text) { #name, PLAIN_ONLY, 0, 0, 0, only, text, NULL },
#define PLAIN_ROW_REFUSED_IN(object, name, text) { #name, PLAIN_REFUSED, 0, 0, 0, NULL, text, #object },
#define PLAIN_ROW_ONLY_IN(object, name, only, text) { #name, PLAIN_ONLY, 0, 0, 0, only, text, #object },

/* Copies what is present into the members of *to; RC_INVALID and RC_UNSUPPORTED as field.h has them. */
int plain_read(const struct plain_field *f, size_t n, const struct field_at *b, void *to, struct error *err);

#endif
