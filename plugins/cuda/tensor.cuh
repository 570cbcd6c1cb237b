/* SPDX-License-Identifier: MIT
 * tensor.cuh - the tensor cores of sm_100 (tcgen05) as our kernels use them: products of FP4 and FP8 matrices with a
 * scale per 32 columns, summed up in tensor memory; for nvcc and the simulator.
 *
 * d [128][n] += (a scale_a) [128][32] * ((b scale_b) [n][32])^T; a: e2m1, b: e4m3, scales: e8m0, sums: fp32
 * (tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale). One thread starts it and goes on; the tensor cores read a and
 * b from shared memory, and the scales from tensor memory, where d is, too. How all that lies there, each said by the
 * PTX manual (in "section", of 9.7.16 in version 9) and done so by CUTLASS (C: include/cute), DeepGEMM (D),
 * ThunderKittens (T) or MMA-Sim (M: tcgen05mma.h, without swizzling, too, and compared with a B200 bit by bit):
 *
 * a, b    core matrices of 8 rows of 16 bytes, 128 bytes in a piece; the next 16 columns are k_step bytes on, the next
 *         8 rows row_step bytes: "strides", "canonical layouts" (K-major, no swizzling: leading and stride dimension);
 *         C atom/mma_traits_sm100.hpp, ((8,n),2):((1,SBO),LBO). 16 bytes are 16 e4m3; or 16 e2m1 in the first 8 bytes,
 *         a byte's low half first, and 8 bytes that nobody reads: "packing formats" of .kind::mxf8f6f4 in shared
 *         memory; what C's loads of 16U4_ALIGN16B make, and what MindLab-Research/ferrite found a B300 to read
 * matrix  64 bits: address / 16 in 0-13, k_step / 16 in 16-29, row_step / 16 in 32-45, 1 in 46-48, all else 0: "shared
 *         memory descriptor"; C arch/mma_sm100_desc.hpp, SmemDescriptor, where the 1 is a version
 * how     32 bits: scale_b's byte in 4-5, a's type 5 (e2m1) in 7-9, b's 0 (e4m3) in 10-12, n / 8 in 17-22, 1 (e8m0) in
 *         23, 128 rows / 128 in 27-28, scale_a's byte in 29-30: "instruction descriptor"; C, the same file,
 *         InstrDescriptorBlockScaled, where rows / 16 are in 24-28, which is the same
 * memory  128 lanes, 512 columns of 4 bytes; an address is lane << 16 | column. d's row i is lane i, its column j the
 *         j-th from d's address: "tensor memory addressing", "data path layout D"; C and D read it so
 * scales  row r has a byte of lane r % 32, column r / 32, and again in each 32 lanes: "scale factor A ID", "block
 *         scaling" (to be duplicated to all 32 lane partitions). Four columns hold 128 rows with four scales each, and
 *         come from words [32][4] of shared memory, in core matrices of 8 rows that are 128 bytes apart
 *         (tcgen05.cp.32x128b.warpx4): D make_sf_desc, T; M stores them so. They begin at a multiple of four columns
 *         here, as D's and most of C's do
 *
 * Order: threads write shared memory, each calls tensor_publish(), all meet in tensor_sync(), one starts copies of
 * scales and products, which run in that order ("pipelined instructions": cp -> mma, mma -> mma; but not mma -> cp, so
 * that a product's scales are copied over only when it is over), and commits them to a barrier. A thread that has
 * waited for it may read d, and write again what they read; so may others after another tensor_sync(). */
#ifndef CUDA_TENSOR_CUH
#define CUDA_TENSOR_CUH

#include "plugins/cuda/kernel.cuh"

#define TENSOR_ROWS 128
#define TENSOR_COLS 32       /* of a and b in one product */
#define TENSOR_CORE 128      /* bytes of a core matrix */
#define TENSOR_CORE_COLS 16
#define TENSOR_SCALE_COLUMNS 4 /* of tensor memory, for 128 rows */

#ifdef CUSIM

static inline uint32_t tensor_address(const void *shared) { return cusim_tensor_address(shared); }
static inline void tensor_alloc(uint32_t *shared, uint32_t columns, int line = __builtin_LINE())
{
	cusim_tensor_alloc(shared, columns, line);
}
static inline void tensor_free(uint32_t at, uint32_t columns, int line = __builtin_LINE())
{
	cusim_tensor_free(at, columns, line);
}
static inline void tensor_load(float (&v)[16], uint32_t at, int line = __builtin_LINE())
{
	cusim_tensor_load(v, 16, at, line);
}
static inline void tensor_sync(int line = __builtin_LINE())
{
	cusim_barrier(CUSIM_TENSOR_SYNC, 0, line);
}
static inline void tensor_publish() { cusim_tensor_publish(); }
static inline void tensor_barrier(uint64_t *barrier) { cusim_tensor_barrier(barrier); }
static inline void tensor_commit(uint64_t *barrier) { cusim_tensor_commit(barrier); }
static inline void tensor_wait(uint64_t *barrier, uint32_t phase, int line = __builtin_LINE())
{
	cusim_tensor_wait(barrier, phase, line);
}
static inline void tensor_scales(uint32_t to, uint64_t from) { cusim_tensor_scales(to, from); }
static inline void tensor_mma(uint32_t d, uint64_t a, uint64_t b, uint32_t how, uint32_t scale_a, uint32_t scale_b,
			      bool add)
{
	cusim_tensor_mma(d, a, b, how, scale_a, scale_b, add);
}

#else

/* What only sm_100a has; the same kernel is compiled for others, where nobody launches it. */
#ifdef __CUDA_ARCH_FEAT_SM100_ALL
#define TENSOR_ASM(...) asm volatile(__VA_ARGS__)
#else
#define TENSOR_ASM(...) __trap()
#endif

static __device__ __forceinline__ uint32_t tensor_address(const void *shared)
{
	return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

/* One warp: `columns` columns, a power of two from 32 on, whose address goes to shared memory; waits until there are as
 * many. Who has them gives them back before the block ends; no block asks twice. */
static __device__ __forceinline__ void tensor_alloc(uint32_t *shared, uint32_t columns)
{
	TENSOR_ASM("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;"
		   ::"r"(tensor_address(shared)), "r"(columns) : "memory");
	TENSOR_ASM("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
}

/* The same warp. */
static __device__ __forceinline__ void tensor_free(uint32_t at, uint32_t columns)
{
	TENSOR_ASM("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(at), "r"(columns) : "memory");
}

/* __syncthreads() for tensor memory, too. */
static __device__ __forceinline__ void tensor_sync()
{
	TENSOR_ASM("tcgen05.fence::before_thread_sync;" ::: "memory");
	__syncthreads();
	TENSOR_ASM("tcgen05.fence::after_thread_sync;" ::: "memory");
}

/* What this thread wrote to shared memory, tensor cores may read after the next tensor_sync(). */
static __device__ __forceinline__ void tensor_publish()
{
	TENSOR_ASM("fence.proxy.async.shared::cta;" ::: "memory");
}

/* One thread makes a barrier, in phase 0, before a tensor_sync(). */
static __device__ __forceinline__ void tensor_barrier(uint64_t *barrier)
{
	TENSOR_ASM("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(tensor_address(barrier)) : "memory");
	TENSOR_ASM("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/* The barrier's phase ends when all that this thread started is done. */
static __device__ __forceinline__ void tensor_commit(uint64_t *barrier)
{
	TENSOR_ASM("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];"
		   ::"r"(tensor_address(barrier)) : "memory");
}

/* Until the phase, of which the last bit counts, has ended. */
static __device__ __forceinline__ void tensor_wait(uint64_t *barrier, uint32_t phase)
{
	uint32_t done = 0;

	while (!done)
		TENSOR_ASM("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
			   "selp.u32 %0, 1, 0, p; }"
			   : "=r"(done) : "r"(tensor_address(barrier)), "r"(phase & 1) : "memory");
	TENSOR_ASM("tcgen05.fence::after_thread_sync;" ::: "memory");
}

/* One thread: 128 rows' scales from shared memory to four columns. */
static __device__ __forceinline__ void tensor_scales(uint32_t to, uint64_t from)
{
	TENSOR_ASM("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(to), "l"(from) : "memory");
}

/* One thread: adds a product to d, or makes it d. */
static __device__ __forceinline__ void tensor_mma(uint32_t d, uint64_t a, uint64_t b, uint32_t how, uint32_t scale_a,
						  uint32_t scale_b, bool add)
{
	TENSOR_ASM("{ .reg .pred p; setp.ne.b32 p, %6, 0; "
		   "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X "
		   "[%0], %1, %2, %3, [%4], [%5], p; }"
		   ::"r"(d), "l"(a), "l"(b), "r"(how), "r"(scale_a), "r"(scale_b), "r"(static_cast<uint32_t>(add))
		   : "memory");
}

/* A warp: 16 columns of its 32 lanes, which are those of warp % 4: lane l gets at's lane + l. */
static __device__ __forceinline__ void tensor_load(float (&v)[16], uint32_t at)
{
	__syncwarp(); /* its lanes may have waited for different times */
	TENSOR_ASM("tcgen05.ld.sync.aligned.32x32b.x16.b32 "
		   "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, [%16];"
		   : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]), "=f"(v[4]), "=f"(v[5]), "=f"(v[6]), "=f"(v[7]),
		     "=f"(v[8]), "=f"(v[9]), "=f"(v[10]), "=f"(v[11]), "=f"(v[12]), "=f"(v[13]), "=f"(v[14]),
		     "=f"(v[15])
		   : "r"(at) : "memory");
	TENSOR_ASM("tcgen05.wait::ld.sync.aligned;" ::: "memory");
}

#undef TENSOR_ASM
#endif

/* Where a matrix lies; its address is a multiple of 16, as both steps are. */
static __device__ inline uint64_t tensor_matrix(const void *shared, uint32_t k_step, uint32_t row_step)
{
	return static_cast<uint64_t>(tensor_address(shared) >> 4 & 0x3fff) | static_cast<uint64_t>(k_step >> 4) << 16 |
	       static_cast<uint64_t>(row_step >> 4) << 32 | 1ull << 46;
}

/* What a product is like: n, a multiple of 8 up to 256, and which byte of the scales it takes. */
static __device__ inline uint32_t tensor_how(uint32_t n, uint32_t scale)
{
	return scale << 4 | 5u << 7 | (n >> 3) << 17 | 1u << 23 | 1u << 27 | scale << 29;
}

#endif
