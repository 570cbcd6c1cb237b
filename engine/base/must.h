/* SPDX-License-Identifier: MIT
 * must.h - assertions that stay in release builds.
 * Threads: any. Locks: none. */
#ifndef BASE_MUST_H
#define BASE_MUST_H

/* For programming errors, pthread results, thread and lock rules, object magic. Never for bad input. */
#define must(cond) \
	do { \
		if (__builtin_expect(!(cond), 0)) \
			must_fail(#cond, __FILE__, __LINE__, __func__); \
	} while (0)

/* A pthread call that can only fail by a programming error. */
#define must_zero(call) must((call) == 0)

/* Objects that cross modules begin with `unsigned magic`. */
#define must_magic(obj, value) must((obj) != NULL && (obj)->magic == (value))

/* Writes one line to stderr and aborts. */
void must_fail(const char *cond, const char *file, int line, const char *func) __attribute__((noreturn));

#endif
