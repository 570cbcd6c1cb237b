/* SPDX-License-Identifier: MIT
 * altstack.h - a stack of its own for each thread's signal handlers, so that a stack that overflows is reported too.
 * Threads: any, each for itself. Locks: none. */
#ifndef BASE_ALTSTACK_H
#define BASE_ALTSTACK_H

/* Called first thing by a thread that runs kernels. A thread that has such a stack already keeps it. */
void altstack_use(void);

#endif
