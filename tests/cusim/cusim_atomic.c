/* SPDX-License-Identifier: MIT
 * cusim_atomic.c - atomics, and the copies of bytes that are calls.
 * Threads: one at a time. Locks: none. */
#include "tests/cusim/cusim_priv.h"
#include "tests/cusim/cusim_ops.h"

#include <string.h>

#define HERE __builtin_return_address(0)

void *cusim_copy(void *to, const void *from, size_t n)
{
	cusim_access_check(from, n, CUSIM_READ, HERE);
	cusim_access_check(to, n, CUSIM_WRITE, HERE);
	return memcpy(to, from, n);
}

void *cusim_set(void *to, int c, size_t n)
{
	cusim_access_check(to, n, CUSIM_WRITE, HERE);
	return memset(to, c, n);
}

/* ---- atomics ---- */

static void cusim_atomic_check(const void *p, size_t n, const void *pc)
{
	if ((uintptr_t)p % n) {
		cusim_report(pc, 4, "an atomic of %zu bytes at %p: misaligned", n, p);
		cusim_block_abandon();
	}
	cusim_access_check(p, n, CUSIM_ATOMIC, pc);
}

#define CUSIM_CHANGE(name, type) \
	type name(type *p, enum cusim_change c, type v) \
	{ \
		type old; \
	\
		cusim_atomic_check(p, sizeof *p, HERE); \
		old = *p; \
		*p = c == CUSIM_EXCH ? v : c == CUSIM_ADD_TO ? (type)(old + v) \
		     : c == CUSIM_MIN_OF ? (v < old ? v : old) : c == CUSIM_MAX_OF ? (v > old ? v : old) \
		     : c == CUSIM_AND_WITH ? (type)((unsigned long long)old & (unsigned long long)v) \
					   : (type)((unsigned long long)old | (unsigned long long)v); \
		return old; \
	}
CUSIM_CHANGE(cusim_atomic_i32, int32_t)
CUSIM_CHANGE(cusim_atomic_u32, uint32_t)
CUSIM_CHANGE(cusim_atomic_u64, unsigned long long)

float cusim_atomic_f32(float *p, enum cusim_change c, float v)
{
	float old;

	cusim_atomic_check(p, sizeof *p, HERE);
	old = *p;
	*p = c == CUSIM_ADD_TO ? old + v : v;
	return old;
}

#define CUSIM_CAS(name, type) \
	type name(type *p, type old, type v) \
	{ \
		type was; \
	\
		cusim_atomic_check(p, sizeof *p, HERE); \
		was = *p; \
		if (was == old) \
			*p = v; \
		return was; \
	}
CUSIM_CAS(cusim_atomic_cas32, uint32_t)
CUSIM_CAS(cusim_atomic_cas64, unsigned long long)
