/* SPDX-License-Identifier: MIT
 * prompt.h - renders messages to the model's prompt, byte for byte as the official encoder (doc/format.md 4.4).
 * Threads: any. Locks: none. */
#ifndef ENGINE_PROMPT_H
#define ENGINE_PROMPT_H

#include "engine/base/buf.h"
#include "engine/gen.h"
#include "engine/text/tokenizer.h"

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

/* Limits on what is rendered; more is RC_INVALID, but RC_TOO_LARGE for bytes and nesting. */
#define PROMPT_MAX_MESSAGES 16384
#define PROMPT_MAX_TOOLS 1024
#define PROMPT_MAX_CALLS 1024  /* of one message */
#define PROMPT_MAX_PARTS 16384 /* of one content */
#define PROMPT_MAX_BYTES ((size_t)128 << 20)

/* messages: non-empty array of
 *   {role: system|developer|user|assistant|tool|latest_reminder,
 *    content: string, null, or [{type: "text", text}] (joined by blank lines),
 *    reasoning_content (or reasoning),
 *    tool_calls: [{id, function: {name, arguments: JSON text or object}}], tool_call_id,
 *    task, wo_eos, tools, response_format: as the official encoder has them};
 * a missing or null reasoning_content is an empty one, unknown fields are ignored.
 * tools: OpenAI tools or NULL; they go to the system message in front, which is made if there is none.
 * Arguments that are no JSON become one parameter "arguments", as officially.
 * RC_INVALID; why names the path, e.g. "messages[3].content: must be ...". */
int prompt_render(json_t *messages, json_t *tools, const struct prompt_options *o, struct prompt **ret_p,
	struct buf *why);
void prompt_free(struct prompt **p);
void prompt_text(const struct prompt *p, struct buf *out);
/* Does the completion begin inside <think>? (Not so when the last message is an unfinished assistant's.) */
bool prompt_in_thinking(const struct prompt *p);
/* Control markers that the tokenizer lacks are RC_MODEL. */
int prompt_tokens(const struct prompt *p, const struct tokenizer *t, struct token_ids *out, struct buf *why);

#endif
