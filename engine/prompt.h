/* SPDX-License-Identifier: MIT
 * prompt.h - renders messages to the model's prompt, byte for byte as the official encoder (format.md 4.4).
 * Threads: any. Locks: none. */
#ifndef ENGINE_PROMPT_H
#define ENGINE_PROMPT_H

#include "engine/base/buf.h"
#include "engine/generation.h"
#include "engine/tokenizer.h"

#include <jansson.h>
#include <stdbool.h>

enum prompt_drop { PROMPT_DROP_AUTO, PROMPT_DROP_ALWAYS, PROMPT_DROP_NEVER };

struct prompt_options {
	bool thinking;
	enum gen_effort effort;
	enum prompt_drop drop_thinking; /* auto: dropped unless tools are present */
};

/* A rendered prompt: pieces that are control text (added tokens recognised) or content (never). */
struct prompt;

/* messages: array of {role, content, reasoning_content, tool_calls, tool_call_id, ...}; tools: OpenAI tools or NULL.
 * RC_INVALID; why names the path, e.g. "messages[3].content". */
int prompt_render(json_t *messages, json_t *tools, const struct prompt_options *o, struct prompt **ret_p, struct buf *why);
void prompt_free(struct prompt **p);
void prompt_text(const struct prompt *p, struct buf *out);
/* Control markers that the tokenizer lacks are RC_MODEL. */
int prompt_tokens(const struct prompt *p, const struct tokenizer *t, struct token_ids *out, struct buf *why);

#endif
