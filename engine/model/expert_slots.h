/* SPDX-License-Identifier: MIT
 * expert_slots.h - routed experts that lie with the host are copied to the GPU by use, the least recently used give
 * way; those that are resident there have no part in it.
 * Threads: one at a time, the forward's that has them. Locks: none.
 *
 * No step waits for it: ids that a decode step's routing chose are read back with its logits, and what was missed is
 * copied on the queue before the next step, in order with its kernels. They find each expert through a table on the
 * GPU. */
#ifndef ENGINE_EXPERT_SLOTS_H
#define ENGINE_EXPERT_SLOTS_H

#include "engine/model/model.h"

struct expert_slots;

/* As many as model_place() has left room for, and at most so many. NULL: all of the model's experts lie on the GPU, or
 * there is no room any more, which is no error. */
struct expert_slots *expert_slots_new(const struct model *m, int most);
/* The queue that used them has been waited for. NULL is fine. */
void expert_slots_free(struct expert_slots **s);

/* Before a step, and before its graph is captured. What goes wrong is the queue's to report. */
void expert_slots_fill(struct expert_slots *s, struct queue *q);
/* A layer's experts, for kernels. */
const struct dsv4_expert *expert_slots_table(const struct expert_slots *s, int layer);
/* In a decode step: the device's memory has n ids of what was chosen in a layer. */
void expert_slots_note(struct expert_slots *s, struct queue *q, int layer, const int32_t *ids, int n);
/* The last that is queued of the step. */
void expert_slots_fetch(struct expert_slots *s, struct queue *q);
/* What was noted will not be read back: it was captured, and dropped. */
void expert_slots_drop(struct expert_slots *s);
/* The step was waited for. failed: nobody knows which copies were made; the table is written anew before the next. */
void expert_slots_end(struct expert_slots *s, bool failed);

#endif
