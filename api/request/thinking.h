/* SPDX-License-Identifier: MIT
 * thinking.h - whether the model reasons, how hard and for how long, in every way that clients say it.
 * Threads: any. Locks: none. */
#ifndef API_THINKING_H
#define API_THINKING_H

#include "api/request/field.h"
#include "engine/engine.h"

/* Sets thinking, effort and max_reasoning of a spec that has its defaults. From the general to the specific, the later
 * wins: reasoning_effort; reasoning {effort, enabled}; enable_thinking; chat_template_kwargs {reasoning_effort,
 * enable_thinking, thinking}; thinking {type}. Effort: minimal, low, medium and high are high, xhigh and max are max,
 * none is off. Budgets are tokens, by the names in thinking_budgets; 0 is no thinking, -1 any amount. */
int thinking_parse(const struct field_at *b, struct generation_spec *spec, struct error *err);
/* One word of effort at at->NAME; nothing when it is absent. For other protocols' places of it. */
int thinking_effort(const struct field_at *at, const char *name, struct generation_spec *spec, struct error *err);
/* A budget at at->NAME. */
int thinking_budget(const struct field_at *at, const char *name, struct generation_spec *spec, struct error *err);

#endif
