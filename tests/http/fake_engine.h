/* SPDX-License-Identifier: MIT
 * fake_engine.h - stands in for the engine at link time: generations follow a script in the prompt.
 * Threads: one per generation; the test's own. Lock: fake (everything). */
#ifndef TESTS_HTTP_FAKE_ENGINE_H
#define TESTS_HTTP_FAKE_ENGINE_H

#include "engine/engine.h"

/* A script is the last message's text or the raw prompt: "step|step|...", each a letter and its argument:
 *   rTEXT reasoning   cTEXT content   bNAME begin a call   aTEXT its arguments   e end it
 * lID a token's logprob LID the same, of reasoning mID the same, of no text *N repeat the previous step N more times
 *   w wait for fake_engine_release() or a cancel
 *   SN finish stop by stop string N   o finish length, the context is full
 *   s finish stop   n finish length   t finish tool_calls   i finish length, incomplete_tool_call
 *   g finish length, repetition
 *   xTEXT finish with RC_KERNEL   y finish cancelled by the operator   z since the server stops
 *   yN the same, in choice N only   d content: the choice's number
 * and, as the first step, refusals by engine_submit: Q busy, D draining, P context, IPATH invalid; KN busy when N
 * generations are live already.
 * Earlier answers that it recalls: the one that made call_known thought "as I thought", that of call_plain nothing;
 * and the one that made "call of LABEL", which who asks under another label does not get.
 * A script that ends without a finish stops. Text "\\0" gives a NUL byte. */
struct engine *fake_engine_open(const char *model_dir);
void fake_engine_close(struct engine **e);
/* Its queue holds n [256]. */
void fake_engine_places(struct engine *e, int n);
/* Lets one "w" go on, now or later. */
void fake_engine_release(struct engine *e);
/* Waits until exactly n generations are live (not unref'd). */
void fake_engine_wait_live(struct engine *e, int n);
void fake_engine_counts(struct engine *e, int *ret_submitted, int *ret_cancelled);
void fake_engine_set(struct engine *e, const struct engine_status *s);
/* What the last engine_submit() was given, as JSON text; the caller frees it. */
char *fake_engine_last(struct engine *e);

#endif
