/* SPDX-License-Identifier: MIT
 * altstack.c - a stack of its own for each thread's signal handlers, so that a stack that overflows is reported too.
 * Threads: any, each for itself. Locks: none. */
#include "engine/base/altstack.h"

#include <signal.h>
#include <stdalign.h>
#include <stddef.h>

/* The kernel puts all registers there; with AMX that is 11 kB. */
#define ALTSTACK_SIZE 32768

/* At the far end of the thread's stack, away from where that overflows. */
static _Thread_local alignas(64) char altstack[ALTSTACK_SIZE];

void altstack_use(void)
{
	stack_t own = { .ss_sp = altstack, .ss_size = sizeof altstack }, old;

	/* A sanitizer's is not to be replaced: it would unmap ours when the thread ends. */
	if (sigaltstack(NULL, &old) == 0 && (old.ss_flags & SS_DISABLE))
		(void)sigaltstack(&own, NULL);
}
