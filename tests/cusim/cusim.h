/* SPDX-License-Identifier: MIT
 * cusim.h - CUDA as far as our kernels use it, for g++ -x c++ -DCUSIM; plugins/cuda/kernel.cuh includes it.
 * Threads: fibres of one. Locks: none.
 *
 * threadIdx and its like are const: a fibre never sees them change, and reading them is no access to check. */
#ifndef CUSIM_H
#define CUSIM_H

#include "tests/cusim/cusim_ops.h"

#include <math.h>
#include <string.h>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __constant__ const
#define __shared__ static __attribute__((section("cusim_shared")))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define CUDART_INF_F __builtin_inff()

/* ---- where ---- */

struct uint3 { unsigned x, y, z; };
typedef uint3 dim3;
extern "C" { extern const uint3 __attribute__((visibility("hidden"))) threadIdx, blockIdx, blockDim, gridDim; }
static const int warpSize = 32;

/* ---- vectors ---- */

#define CUSIM_VECTOR(type, name) \
	struct __align__(2 * sizeof(type)) name##2 { type x, y; }; \
	struct name##3 { type x, y, z; }; \
	struct __align__(4 * sizeof(type) > 16 ? 16 : 4 * sizeof(type)) name##4 { type x, y, z, w; }; \
	static inline name##2 make_##name##2(type x, type y) { return name##2{ x, y }; } \
	static inline name##3 make_##name##3(type x, type y, type z) { return name##3{ x, y, z }; } \
	static inline name##4 make_##name##4(type x, type y, type z, type w) { return name##4{ x, y, z, w }; }
#define uint3 cusim_uint3 /* above */
CUSIM_VECTOR(float, float)
CUSIM_VECTOR(double, double)
CUSIM_VECTOR(int, int)
CUSIM_VECTOR(unsigned, uint)
CUSIM_VECTOR(short, short)
CUSIM_VECTOR(unsigned short, ushort)
CUSIM_VECTOR(signed char, char)
CUSIM_VECTOR(unsigned char, uchar)
#undef uint3

/* ---- barriers, warps ---- */

static inline void __syncthreads(int line = __builtin_LINE())
{
	cusim_barrier(CUSIM_BARRIER, 0, line);
}

static inline int __syncthreads_or(int pred, int line = __builtin_LINE())
{
	return cusim_barrier(CUSIM_BARRIER_OR, pred, line);
}

static inline int __syncthreads_and(int pred, int line = __builtin_LINE())
{
	return cusim_barrier(CUSIM_BARRIER_AND, pred, line);
}

static inline int __syncthreads_count(int pred, int line = __builtin_LINE())
{
	return cusim_barrier(CUSIM_BARRIER_COUNT, pred, line);
}

static inline void __syncwarp(unsigned mask = ~0u, int line = __builtin_LINE())
{
	cusim_warp(CUSIM_SYNC, mask, 0, 0, 32, line);
}

static inline void __threadfence() {}
static inline void __threadfence_block() {}

template<class T> static inline uint64_t cusim_bits(T v)
{
	union { T v; uint64_t bits; } u = { };

	static_assert(sizeof(T) == 4 || sizeof(T) == 8, "CUDA shuffles words");
	u.v = v;
	return u.bits;
}

template<class T> static inline T cusim_of_bits(uint64_t bits)
{
	union { uint64_t bits; T v; } u = { bits };

	return u.v;
}

#define CUSIM_SHUFFLE(name, op, second) \
	template<class T> static inline T name(unsigned mask, T v, second x, int width = 32, int line = __builtin_LINE()) \
	{ \
		return cusim_of_bits<T>(cusim_warp(op, mask, cusim_bits(v), (int)x, width, line)); \
	}
CUSIM_SHUFFLE(__shfl_sync, CUSIM_SHFL, int)
CUSIM_SHUFFLE(__shfl_up_sync, CUSIM_SHFL_UP, unsigned)
CUSIM_SHUFFLE(__shfl_down_sync, CUSIM_SHFL_DOWN, unsigned)
CUSIM_SHUFFLE(__shfl_xor_sync, CUSIM_SHFL_XOR, int)

static inline unsigned __ballot_sync(unsigned mask, int pred, int line = __builtin_LINE())
{
	return (unsigned)cusim_warp(CUSIM_BALLOT, mask, pred != 0, 0, 32, line);
}

static inline int __any_sync(unsigned mask, int pred, int line = __builtin_LINE())
{
	return (int)cusim_warp(CUSIM_ANY, mask, pred != 0, 0, 32, line);
}

static inline int __all_sync(unsigned mask, int pred, int line = __builtin_LINE())
{
	return (int)cusim_warp(CUSIM_ALL, mask, pred != 0, 0, 32, line);
}

#define CUSIM_REDUCE(name, op, type, is_signed) \
	static inline type name(unsigned mask, type v, int line = __builtin_LINE()) \
	{ \
		return (type)cusim_warp(op, mask, (unsigned)v, is_signed, 32, line); \
	}
CUSIM_REDUCE(__reduce_add_sync, CUSIM_ADD, int, 1)
CUSIM_REDUCE(__reduce_add_sync, CUSIM_ADD, unsigned, 0)
CUSIM_REDUCE(__reduce_min_sync, CUSIM_MIN, int, 1)
CUSIM_REDUCE(__reduce_min_sync, CUSIM_MIN, unsigned, 0)
CUSIM_REDUCE(__reduce_max_sync, CUSIM_MAX, int, 1)
CUSIM_REDUCE(__reduce_max_sync, CUSIM_MAX, unsigned, 0)

/* ---- memory ---- */

template<class T> static inline T __ldg(const T *p) { return *p; }
template<class T> static inline T __ldcs(const T *p) { return *p; }
template<class T> static inline T __ldcg(const T *p) { return *p; }

/* The compiler checks small ones itself; libc's own would be checked by nobody. */
#define CUSIM_SMALL(n) ((n) == 2 || (n) == 4 || (n) == 8 || (n) == 16)
#define memcpy(to, from, n) \
	(__builtin_constant_p(n) && CUSIM_SMALL(n) ? __builtin_memcpy(to, from, n) : cusim_copy(to, from, n))
#define memset(to, c, n) cusim_set(to, c, n)

#define CUSIM_ATOMIC_OP(name, c) \
	static inline int name(int *p, int v) { return cusim_atomic_i32(p, c, v); } \
	static inline unsigned name(unsigned *p, unsigned v) { return cusim_atomic_u32(p, c, v); } \
	static inline unsigned long long name(unsigned long long *p, unsigned long long v) \
	{ \
		return cusim_atomic_u64(p, c, v); \
	}
CUSIM_ATOMIC_OP(atomicExch, CUSIM_EXCH)
CUSIM_ATOMIC_OP(atomicAdd, CUSIM_ADD_TO)
CUSIM_ATOMIC_OP(atomicMin, CUSIM_MIN_OF)
CUSIM_ATOMIC_OP(atomicMax, CUSIM_MAX_OF)
CUSIM_ATOMIC_OP(atomicAnd, CUSIM_AND_WITH)
CUSIM_ATOMIC_OP(atomicOr, CUSIM_OR_WITH)
static inline float atomicAdd(float *p, float v) { return cusim_atomic_f32(p, CUSIM_ADD_TO, v); }
static inline float atomicExch(float *p, float v) { return cusim_atomic_f32(p, CUSIM_EXCH, v); }
static inline unsigned atomicCAS(unsigned *p, unsigned old, unsigned v) { return cusim_atomic_cas32(p, old, v); }
static inline int atomicCAS(int *p, int old, int v)
{
	return (int)cusim_atomic_cas32((uint32_t *)p, (uint32_t)old, (uint32_t)v);
}
static inline unsigned long long atomicCAS(unsigned long long *p, unsigned long long old, unsigned long long v)
{
	return cusim_atomic_cas64(p, old, v);
}

/* ---- arithmetic ---- */

static inline unsigned __float_as_uint(float f) { return (unsigned)cusim_bits(f); }
static inline int __float_as_int(float f) { return (int)cusim_bits(f); }
static inline float __uint_as_float(unsigned u) { return cusim_of_bits<float>(u); }
static inline float __int_as_float(int i) { return cusim_of_bits<float>((unsigned)i); }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fsqrt_rn(float a) { return sqrtf(a); }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __int2float_rn(int i) { return (float)i; }
static inline float __uint2float_rn(unsigned u) { return (float)u; }
static inline int __float2int_rn(float f) { return (int)rintf(f); }
static inline int __float2int_rz(float f) { return (int)f; }
static inline float rsqrtf(float f) { return 1.0f / sqrtf(f); }
static inline int __popc(unsigned u) { return __builtin_popcount(u); }
static inline int __popcll(unsigned long long u) { return __builtin_popcountll(u); }
static inline int __clz(int i) { return i ? __builtin_clz((unsigned)i) : 32; }
static inline int __ffs(int i) { return __builtin_ffs(i); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }

static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned how)
{
	uint64_t both = (uint64_t)b << 32 | a;
	unsigned r = 0;

	for (int i = 0; i < 4; i++)
		r |= (unsigned)(both >> (how >> 4 * i & 7) * 8 & 0xff) << 8 * i;
	return r;
}

static inline unsigned __brev(unsigned u)
{
	unsigned r = 0;

	for (int i = 0; i < 32; i++)
		r |= (u >> i & 1) << (31 - i);
	return r;
}

#define CUSIM_MIN_MAX(type) \
	static inline type min(type a, type b) { return b < a ? b : a; } \
	static inline type max(type a, type b) { return a < b ? b : a; }
CUSIM_MIN_MAX(int)
CUSIM_MIN_MAX(unsigned)
CUSIM_MIN_MAX(long)
CUSIM_MIN_MAX(unsigned long)
CUSIM_MIN_MAX(long long)
CUSIM_MIN_MAX(unsigned long long)
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }

#endif
