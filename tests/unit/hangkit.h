/* SPDX-License-Identifier: MIT
 * hangkit.h - a disk that hangs: calls for cached files stay there until they are let go.
 * Threads: the test's decides, any hangs. Locks: its own.
 *
 * For programs linked with HANGKIT_LDFLAGS, which put it in place of cache_dir_open, _read, _write and _remove. */
#ifndef TESTS_HANGKIT_H
#define TESTS_HANGKIT_H

#include <stdbool.h>

enum hangkit_call { HANGKIT_OPEN, HANGKIT_READ, HANGKIT_WRITE, HANGKIT_REMOVE, HANGKIT_N_CALL };

/* From now on the disk hangs. */
void hangkit_hang(enum hangkit_call call);
/* Waits until a call is hanging. */
void hangkit_hangs(void);
/* All go on, as if nothing had been. */
void hangkit_let_go(void);

#endif
