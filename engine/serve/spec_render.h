/* SPDX-License-Identifier: MIT
 * spec_render.h - the prompt that a spec's messages become under given numerics: what a request would be given.
 * Threads: any. Locks: none. */
#ifndef ENGINE_SPEC_RENDER_H
#define ENGINE_SPEC_RENDER_H

#include "engine/kernels/numerics.h"
#include "engine/serve/generation.h"
#include "engine/text/prompt.h"

/* As prompt_render() of messages, tools, thinking and effort. */
int spec_render(const struct generation_spec *spec, const struct numerics *n, struct prompt **ret_p, struct buf *why);

#endif
