/* SPDX-License-Identifier: MIT
 * settings.h - what the bodies of chats and text completions share: model, sampling, lengths, stop strings, streaming.
 * Threads: any, one at a time per object. Locks: none. */
#ifndef API_SETTINGS_H
#define API_SETTINGS_H

#include "api/request/field.h"
#include "engine/engine.h"

#define SETTINGS_MAX_BIAS 4096
#define SETTINGS_MAX_STOP_BYTES 1024

/* What such a body says; messages and schema_path only a chat has. */
struct settings {
	struct generation_spec spec;  /* complete but for id, label and notify; points into what follows and the body */
	json_t *messages;             /* ours; contents given as parts are joined to strings */
	struct gen_logit_bias *bias;
	const char **stop;
	const char *schema_path;      /* where the schema stands in the body; NULL without one */
	int n;                        /* answers to the same prompt, up to ANSWER_MAX_CHOICES */
	bool stream, include_usage;
};

/* Neutral settings; settings_fini() after use. */
void settings_init(const struct engine *e, struct settings *r);
/* Reads everything of common_fields.def and settings_fields.def, and model, seed, stop, logit_bias, best_of,
 * stream_options and repetition_guard. */
int settings_parse(const struct engine *e, const struct field_at *b, struct settings *r, struct error *err);
void settings_fini(struct settings *r);

/* "model": a name of the served one. RC_NOT_FOUND. */
int settings_model(const struct field_at *b, const struct engine *e, bool required, struct error *err);
/* What every protocol's body may say: all of common_fields.def, seed and logit_bias. *ret_bias is malloc'd, and what
 * s->bias points to; it is set on failure too. */
int settings_sampling(const struct engine *e, const struct field_at *b, struct gen_sampling *s,
	struct gen_logit_bias **ret_bias, struct error *err);
/* An array of stop strings. *ret_stop is malloc'd, its strings are the body's. */
int settings_stops(const struct field_at *b, const char *key, const char ***ret_stop, struct gen_sampling *s,
	struct error *err);

#endif
