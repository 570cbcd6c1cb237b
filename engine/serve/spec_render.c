/* SPDX-License-Identifier: MIT
 * spec_render.c - the prompt that a spec's messages become under given numerics: what a request would be given.
 * Threads: any. Locks: none. */
#include "engine/serve/spec_render.h"

int spec_render(const struct generation_spec *spec, const struct numerics *n, struct prompt **ret_p, struct buf *why)
{
	struct prompt_options o = { .thinking = spec->thinking, .effort = spec->effort,
				    .drop_thinking = (enum prompt_drop)n->drop_thinking };

	return prompt_render(spec->messages, spec->tools, &o, ret_p, why);
}
