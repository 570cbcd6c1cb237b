/* SPDX-License-Identifier: MIT
 * settings.h - what chat requests and text completions share: model, sampling, lengths, stop strings, streaming.
 * Threads: any. Locks: none. */
#ifndef API_SETTINGS_H
#define API_SETTINGS_H

#include "api/request/chat_request.h"
#include "api/request/field.h"

/* Neutral settings; chat_request_fini() after use. */
void settings_init(const struct engine *e, struct chat_request *r);
/* Reads everything of settings_fields.def, and model, seed, stop, logit_bias, best_of and stream_options. */
int settings_parse(const struct engine *e, const struct field_at *b, struct chat_request *r, struct error *err);
/* Is the body's model, if it names one, the one that is served? */
int settings_model(const struct field_at *b, const struct engine *e, struct error *err);

#endif
