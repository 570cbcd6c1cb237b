/* SPDX-License-Identifier: MIT
 * child.h - runs a piece of a unit test in a child process: for assertions, and for what goes to stderr.
 * Threads: one. Locks: none. */
#ifndef TESTS_CHILD_H
#define TESTS_CHILD_H

#include "engine/base/buf.h"

/* Runs fn in a child and returns its wait status; what it wrote to stderr is appended to err. */
int child_run(void (*fn)(void), struct buf *err);
/* fn must end in a must() whose line contains `text`. */
void child_aborts(void (*fn)(void), const char *text);

#endif
