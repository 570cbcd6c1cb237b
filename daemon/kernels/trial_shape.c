/* SPDX-License-Identifier: MIT
 * trial_shape.c - the parent's and the child's common words: shapes as text.
 * Threads: any. Locks: none. */
#include "daemon/kernels/trial_shape.h"
#include "engine/base/mem.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define FIELD(name) offsetof(struct check_shape, name)
static const size_t trial_shape_fields[] = {
	FIELD(hidden), FIELD(hc), FIELD(heads), FIELD(head_dim), FIELD(rope), FIELD(q_rank), FIELD(o_rank),
	FIELD(o_groups), FIELD(index_heads), FIELD(index_dim), FIELD(index_topk), FIELD(window), FIELD(experts),
	FIELD(experts_per_tok), FIELD(inter), FIELD(shared), FIELD(vocab),
};
#undef FIELD
/* A field that is added there must be added here. */
_Static_assert(sizeof(struct check_shape) - offsetof(struct check_shape, hidden) <=
	       (mem_countof(trial_shape_fields) + 1) * sizeof(int), "struct check_shape has more fields");

static int *trial_shape_field(struct check_shape *s, size_t i)
{
	return (int *)(void *)((char *)s + trial_shape_fields[i]);
}

void trial_shape_put(struct buf *b, const struct check_shape *s)
{
	struct check_shape copy = *s;

	buf_adds(b, s->name);
	for (size_t i = 0; i < mem_countof(trial_shape_fields); i++)
		buf_printf(b, " %d", *trial_shape_field(&copy, i));
}

bool trial_shape_get(char *text, struct check_shape *ret_s)
{
	char *p = strchr(text, ' ');

	*ret_s = (struct check_shape){ .name = text };
	for (size_t i = 0; p && i < mem_countof(trial_shape_fields); i++) {
		char *end = p;
		long v = *p ? strtol(p + 1, &end, 10) : -1;

		if (i == 0)
			*p = '\0';
		if (end <= p + 1 || v < 0 || v > INT_MAX)
			return false;
		*trial_shape_field(ret_s, i) = (int)v;
		p = end;
	}
	return p && !*p;
}
