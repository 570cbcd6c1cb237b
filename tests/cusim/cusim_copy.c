/* SPDX-License-Identifier: MIT
 * cusim_copy.c - cp.async: what was copied is there when its group has been waited for, not before.
 * Threads: one at a time. Locks: none. */
#include "tests/cusim/cusim_priv.h"
#include "tests/cusim/cusim_ops.h"

#include <stdlib.h>
#include <string.h>

#define CUSIM_COPY_MAX 65536

struct cusim_copy_one {
	char *to;
	const char *from;
	int size, bytes, group, next; /* next of the same thread, or -1 */
};
static struct cusim_copy_one cusim_copies[CUSIM_COPY_MAX];
static int cusim_n_copy, cusim_copies_free;
/* Of each thread: its open group, and its copies under way. */
static struct { int group, first, last; } cusim_copy_of[CUSIM_MAX_THREADS];

void cusim_copy_begin(uint32_t n_thread)
{
	cusim_n_copy = 0;
	cusim_copies_free = -1;
	for (uint32_t i = 0; i < n_thread; i++) {
		cusim_copy_of[i].group = 0;
		cusim_copy_of[i].first = cusim_copy_of[i].last = -1;
	}
}

static int cusim_copy_new(void)
{
	int i = cusim_copies_free;

	if (i >= 0) {
		cusim_copies_free = cusim_copies[i].next;
		return i;
	}
	if (cusim_n_copy == CUSIM_COPY_MAX) {
		cusim_report(NULL, 40, "has more than %d copies under way", CUSIM_COPY_MAX);
		cusim_block_abandon();
	}
	return cusim_n_copy++;
}

/* From now on nobody may read it. */
void cusim_async(void *shared, const void *from, int size, int bytes)
{
	uint32_t mine = cusim_now.thread;
	const void *pc = __builtin_return_address(0);
	int i;

	if ((uintptr_t)shared % (unsigned)size || (bytes && (uintptr_t)from % (unsigned)size)) {
		cusim_report(pc, 41, "cp.async of %d bytes from %p to %p: misaligned", size, from, shared);
		cusim_block_abandon();
	}
	if (bytes)
		cusim_access_check(from, (size_t)bytes, CUSIM_READ, pc);
	cusim_access_check(shared, (size_t)size, CUSIM_WRITE, pc);
	memset(shared, CUSIM_FRESH, (size_t)size);
	cusim_memory_unwritten(shared, (size_t)size);
	i = cusim_copy_new();
	cusim_copies[i] = (struct cusim_copy_one){ shared, from, size, bytes, cusim_copy_of[mine].group, -1 };
	if (cusim_copy_of[mine].first < 0)
		cusim_copy_of[mine].first = i;
	else
		cusim_copies[cusim_copy_of[mine].last].next = i;
	cusim_copy_of[mine].last = i;
}

void cusim_async_commit(void)
{
	cusim_copy_of[cusim_now.thread].group++;
}

void cusim_async_wait(int groups_left)
{
	uint32_t mine = cusim_now.thread;

	while (cusim_copy_of[mine].first >= 0 &&
	       cusim_copies[cusim_copy_of[mine].first].group < cusim_copy_of[mine].group - groups_left) {
		int i = cusim_copy_of[mine].first;
		const struct cusim_copy_one *c = &cusim_copies[i];

		memcpy(c->to, c->from, (size_t)c->bytes);
		memset(c->to + c->bytes, 0, (size_t)(c->size - c->bytes));
		cusim_access_check(c->to, (size_t)c->size, CUSIM_WRITE, __builtin_return_address(0));
		cusim_copy_of[mine].first = c->next;
		cusim_copies[i].next = cusim_copies_free;
		cusim_copies_free = i;
	}
}
