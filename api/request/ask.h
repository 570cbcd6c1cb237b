/* SPDX-License-Identifier: MIT
 * ask.h - the request fields that several protocols have under names of their own.
 * Threads: any. Locks: none. */
#ifndef API_ASK_H
#define API_ASK_H

#include "api/request/field.h"
#include "engine/engine.h"

struct exchange;

typedef int ask_f(struct exchange *x, json_t *body, struct error *err);
/* Has f answer the request's body, a JSON object; replies with the error when it does not. */
void ask_run(struct exchange *x, ask_f *f);

/* "model": a name of the served one. RC_NOT_FOUND. */
int ask_model(const struct exchange *x, const struct field_at *b, bool required, struct error *err);
/* An array of stop strings. *ret_stop is malloc'd, its strings are the body's. */
int ask_stops(const struct field_at *b, const char *key, const char ***ret_stop, struct gen_sampling *s,
	struct error *err);
/* "name": a function's, see tools_name(). */
int ask_name(const struct field_at *f, const char **ret_name, struct error *err);
/* A string that must be there; it may be empty. */
int ask_string(const struct field_at *f, const char *key, const char **ret_s, struct error *err);
/* An OpenAI tool of its parts; takes over `parameters`, which may be NULL. `strict`: calls are held to them. */
json_t *ask_tool(const char *name, const char *description, json_t *parameters, bool strict);
/* Is there one of that name? */
bool ask_has_tool(const json_t *tools, const char *name);

/* The prompt of messages and tools as the engine would render it now, in tokens. */
int ask_count(const struct exchange *x, const struct generation_spec *spec, int *ret_n, struct error *err);

#endif
