/* SPDX-License-Identifier: MIT
 * mma.cuh - tensor cores as our kernels use them: matrix products of a warp, and loads of their operands from shared memory;
 * for nvcc and the simulator. All 32 lanes take part.
 *
 * Fragments, with g = lane / 4 and t = lane % 4; a register holds n = 2 bf16 or 4 e4m3 or e2m1, the first in its low bits:
 *     a[0] row g,     columns n t..      a[1] row g + 8, the same
 *     a[2] row g,     columns n t + 4 n  a[3] row g + 8, the same
 *     b[0] column g,  rows n t..         b[1] column g,  rows n t + 4 n
 *     d[0], d[1] row g, columns 2 t, 2 t + 1;  d[2], d[3] row g + 8
 *
 * An e2m1 among these has a byte of its own, in whose bits 2 to 5 it lies; the others are zero.
 *
 * Block-scaled products (PTX ISA, "Block Scaling for mma.sync"; so do CUTLASS's SM120 traits) multiply each row of a and
 * each column of b by a power of two, an e8m0. Every lane gives a register for a and one for b, of which few are read:
 * `byte` of them, 0 to 3, from
 *     a: lane 4 g + 2 pair for row g, lane 4 g + 2 pair + 1 for row g + 8; pair is 0 or 1
 *     b: lane 4 g + pair for column g; pair is 0 to 3
 * so that the lanes of a warp hold the scales of 4 steps and, of a, of two tiles. byte and pair are alike in all lanes. */
#ifndef CUDA_MMA_CUH
#define CUDA_MMA_CUH

#include "plugins/cuda/kernel.cuh"
#include "plugins/dsv4_numfmt.h"

/* Where the scales of one side are. */
struct mma_scale {
	uint32_t data;
	uint16_t byte, pair;
};

#ifdef CUSIM

/* Two bf16 times two others, where the products are bf16. */
static inline uint32_t mma_bf16_times(uint32_t a, uint32_t b)
{
	float lo = dsv4_bf16_to_f32((uint16_t)a) * dsv4_bf16_to_f32((uint16_t)b);
	float hi = dsv4_bf16_to_f32((uint16_t)(a >> 16)) * dsv4_bf16_to_f32((uint16_t)(b >> 16));

	return dsv4_f32_bits(lo) >> 16 | (dsv4_f32_bits(hi) & 0xffff0000u);
}

static inline void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], int line = __builtin_LINE())
{
	cusim_matrix(CUSIM_MMA_BF16, d, a, b, line);
}

static inline void mma_e4m3(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], int line = __builtin_LINE())
{
	cusim_matrix(CUSIM_MMA_E4M3, d, a, b, line);
}

#define MMA_SCALED(name, op, types) \
	static inline void name(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], const mma_scale &sa, \
				const mma_scale &sb, int line = __builtin_LINE()) \
	{ \
		const struct cusim_scale scale[2] = { { sa.data, sa.byte, sa.pair }, { sb.data, sb.byte, sb.pair } }; \
\
		cusim_matrix_scaled(op, d, a, b, scale, line); \
	}

#define MMA_LOAD(name, n, transposed) \
	static inline void name(uint32_t (&r)[n], const void *row, int line = __builtin_LINE()) \
	{ \
		cusim_ldmatrix(r, row, n, transposed, line); \
	}
MMA_LOAD(mma_load_2, 2, 0)
MMA_LOAD(mma_load_4, 4, 0)
MMA_LOAD(mma_load_2_transposed, 2, 1)
MMA_LOAD(mma_load_4_transposed, 4, 1)
#undef MMA_LOAD

#else

/* d [16][8] += a [16][16] * b [16][8]; sm_80. */
static __device__ __forceinline__ void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
		     "{%0, %1, %2, %3};"
		     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
		     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* d [16][8] += a [16][32] * b [32][8]; sm_89. */
static __device__ __forceinline__ void mma_e4m3(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
#if __CUDA_ARCH__ >= 890
	asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
		     "{%0, %1, %2, %3};"
		     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
		     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
	__trap();
#endif
}

#ifdef __CUDA_ARCH_FEAT_SM120_ALL
#define MMA_SCALED(name, op, types) \
	static __device__ __forceinline__ void name(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], \
						    const mma_scale &sa, const mma_scale &sb) \
	{ \
		asm volatile("mma.sync.aligned.kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32." types ".f32.ue8m0 " \
			     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, " \
			     "{%10}, {%11, %12}, {%13}, {%14, %15};" \
			     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) \
			     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(sa.data), \
			       "h"(sa.byte), "h"(sa.pair), "r"(sb.data), "h"(sb.byte), "h"(sb.pair)); \
	}
#else
#define MMA_SCALED(name, op, types) \
	static __device__ __forceinline__ void name(float (&)[4], const uint32_t (&)[4], const uint32_t (&)[2], \
						    const mma_scale &, const mma_scale &) \
	{ \
		__trap(); \
	}
#endif

static __device__ __forceinline__ uint32_t mma_bf16_times(uint32_t a, uint32_t b)
{
	uint32_t r;

	asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(0x80008000u)); /* + -0 */
	return r;
}

static __device__ __forceinline__ unsigned mma_address(const void *shared)
{
	return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

/* Two or four matrices of 8 rows of 16 bytes (ldmatrix): lane i gives the address of row i % 8 of matrix i / 8, lane 4 g + t
 * gets 4 bytes, number t of row g, of each; transposed: the 16-bit values of rows 2 t, 2 t + 1 in column g. */
static __device__ __forceinline__ void mma_load_2(uint32_t (&r)[2], const void *row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
		     : "=r"(r[0]), "=r"(r[1]) : "r"(mma_address(row)) : "memory");
}

static __device__ __forceinline__ void mma_load_4(uint32_t (&r)[4], const void *row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
		     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(mma_address(row)) : "memory");
}

static __device__ __forceinline__ void mma_load_2_transposed(uint32_t (&r)[2], const void *row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
		     : "=r"(r[0]), "=r"(r[1]) : "r"(mma_address(row)) : "memory");
}

static __device__ __forceinline__ void mma_load_4_transposed(uint32_t (&r)[4], const void *row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
		     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(mma_address(row)) : "memory");
}

#endif

/* d [16][8] += a [16][32] * b [32][8], block-scaled; sm_120a, and no later one by its PTX. */
MMA_SCALED(mma_e2m1_e4m3, CUSIM_MMA_E2M1_E4M3, "e2m1.e4m3")
MMA_SCALED(mma_e4m3_scaled, CUSIM_MMA_E4M3_SCALED, "e4m3.e4m3")
#undef MMA_SCALED

/* Four e4m3 codes as bf16, which holds each exactly: two registers of an operand. A code's fields go where a bf16 has
 * them, then comes the difference of the biases; codes below the normal ones are denormal bf16, which multiply as well. */
static __device__ inline void mma_bf16_of_e4m3(uint32_t codes, uint32_t (&pair)[2])
{
	for (int i = 0; i < 2; i++) {
		uint32_t v = __byte_perm(codes, 0, i ? 0x3424 : 0x1404);

		pair[i] = mma_bf16_times((v & 0x80008000u) | (v & 0x7f007f00u) >> 4, 0x7b807b80u); /* 2^120 */
	}
	/* the code of NaN has no place among these */
	if (((codes & 0x7f7f7f7fu) + 0x01010101u) & 0x80808080u)
		for (int i = 0; i < 4; i++)
			if ((codes >> 8 * i & 0x7f) == 0x7f)
				pair[i / 2] |= 0x7fc0u << i % 2 * 16;
}

/* Four e2m1 codes (the low 16 bits) times a scale, a pair of bf16 that are one power of two. The values' bytes are looked
 * up: 0 .5 1 1.5 2 3 4 6 are 0000 3f00 3f80 3fc0 4000 4040 4080 40c0. */
static __device__ inline void mma_bf16_of_e2m1(uint32_t codes, uint32_t scale, uint32_t (&pair)[2])
{
	uint32_t hi = __byte_perm(0x3f3f3f00u, 0x40404040u, codes & 0x7777);
	uint32_t lo = __byte_perm(0xc0800000u, 0xc0804000u, codes & 0x7777);
	uint32_t first = __byte_perm(lo, hi, 0x5140) | (codes & 0x8) << 12 | (codes & 0x80) << 24;
	uint32_t second = __byte_perm(lo, hi, 0x7362) | (codes & 0x800) << 4 | (codes & 0x8000) << 16;

	pair[0] = mma_bf16_times(first, scale);
	pair[1] = mma_bf16_times(second, scale);
}

/* Writes a lane's part of d to the rows from `row` on. */
template <int ROWS> __device__ inline void mma_store(float (&to)[ROWS][8], int row, const float (&d)[4])
{
	int g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;

	UNROLL
	for (int c = 0; c < 4; c++)
		to[row + g + c / 2 * 8][2 * t + c % 2] = d[c];
}

#endif
