/* SPDX-License-Identifier: MIT
 * sanitized.h - how much of a test runs in a build with a sanitizer.
 * Threads: none. Locks: none. */
#ifndef TESTS_SANITIZED_H
#define TESTS_SANITIZED_H

#include <stdio.h>

/* Sanitized kernels are ten times slower: of a list of like cases every third runs there, all
 * of them in a plain build. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WARM_STEP 3
#else
#define WARM_STEP 1
#endif
/* A test's log says so. */
static inline void warm_say(void)
{
	if (WARM_STEP > 1)
		printf("a build with a sanitizer: one of %d like cases\n", WARM_STEP);
}
/* ThreadSanitizer is for what may race. */
#ifdef __SANITIZE_THREAD__
#define WARM_RACES_ONLY 1
#else
#define WARM_RACES_ONLY 0
#endif

#endif
