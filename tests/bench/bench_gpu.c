/* SPDX-License-Identifier: MIT
 * bench_gpu.c - the GPU that figures are of, and the best that it can do: our own kernels, by the clock of the host
 * between two waits. Not run on a GPU.
 * Threads: main. Locks: none. */
#include "tests/bench/bench_gpu.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "plugins/cuda/cuda_kernels.h"
#include "tests/bench/gpu_roof.h"

#include <math.h>
#include <stdio.h>

#define BENCH_GPU_BLOCKS 4    /* of a multiprocessor: registers suffice for all at once */
#define BENCH_GPU_WARP 32
#define BENCH_GPU_MMA_OPS (2.0 * 16 * 8 * 16)
#define BENCH_GPU_ROUNDS 16   /* that are timed first */

enum bench_gpu_kernel { BENCH_GPU_K_READ, BENCH_GPU_K_COPY, BENCH_GPU_K_FMA, BENCH_GPU_K_MMA, BENCH_GPU_N_KERNEL };

/* ---- open ---- */

static int bench_gpu_kernels(const struct dsv4_host *host, void **ret_state)
{
	static const char *const name[BENCH_GPU_N_KERNEL] = { "read", "copy", "fma", "mma" };

	return cuda_kernels_open(host, "gpu_roof_", name, BENCH_GPU_N_KERNEL, ret_state);
}

/* No plugin, but loaded as one. */
static const struct dsv4_plugin bench_gpu_roof = {
	.magic = DSV4_PLUGIN_MAGIC, .size = sizeof bench_gpu_roof, .abi_major = DSV4_ABI_MAJOR,
	.abi_minor = DSV4_ABI_MINOR,
	.signature = DSV4_BUILD_SIGNATURE, .name = "gpu_roof", .version = "", .cpu = "", .gpu = "sm_80",
	.open = bench_gpu_kernels, .close = cuda_kernels_close,
};

static void bench_gpu_log(const struct provider *p, int level, const char *text)
{
	(void)level;
	fprintf(stderr, "dsv4-bench: %s: %s\n", p->plugin->name, text);
}

int bench_gpu_open(struct bench_gpu *g, const char *name, struct buf *why)
{
	int rc;

	*g = (struct bench_gpu){ .why = why };
	rc = device_open(name, &g->device, why);
	if (rc == 0 && !device_is_gpu(g->device))
		return buf_why(why, RC_INVALID, "%s is no GPU", name);
	if (rc == 0 && !device_has(g->device, bench_gpu_roof.gpu, NULL))
		rc = buf_why(why, RC_UNSUPPORTED, "%s is older than %s", name, bench_gpu_roof.gpu);
	if (rc)
		return rc;
	g->queue = queue_new(g->device, why);
	g->never = device_alloc(g->device, 1, 64);
	if (!g->queue || !g->never)
		return RC_UNAVAILABLE;
	provider_init(&g->roof, &bench_gpu_roof, bench_gpu_log);
	provider_on(&g->roof, g->device);
	return provider_open(&g->roof, why);
}

void bench_gpu_close(struct bench_gpu *g)
{
	if (g->roof.host.state)
		(void)provider_close(&g->roof, NULL);
	if (g->queue)
		queue_free(&g->queue);
	if (g->never)
		device_free(g->device, g->never);
	if (g->device)
		device_close(&g->device);
}

/* ---- time ---- */

double bench_gpu_begin(struct bench_gpu *g)
{
	if (g)
		(void)queue_sync(g->queue, NULL); /* what fails stays so, until bench_gpu_took() */
	return g ? clock_s() : 0;
}

double bench_gpu_took(struct bench_gpu *g, double begin, double cpu)
{
	if (!g || cpu < 0)
		return cpu;
	return queue_sync(g->queue, g->why) ? -1 : clock_s() - begin;
}

static double bench_gpu_launch(struct bench_gpu *g, enum bench_gpu_kernel k, const void *args, size_t bytes)
{
	const struct cuda_kernels_grid grid =
		{ .kernel = k, .x = (int64_t)BENCH_GPU_BLOCKS * device_gpu(g->device)->n_sm,
		  .y = 1, .z = 1, .threads = GPU_ROOF_THREADS };
	double begin = bench_gpu_begin(g);
	int rc;

	queue_next_op(g->queue);
	rc = cuda_kernels_launch(queue_exec(g->queue), &g->roof.host, &grid, args, bytes);
	if (rc)
		buf_why(g->why, rc, "a kernel of gpu_roof was not launched");
	return rc ? -1 : bench_gpu_took(g, begin, 0);
}

/* ---- memory ---- */

double bench_gpu_read(struct bench_gpu *g, const void *p, size_t n)
{
	const struct gpu_roof_move_args a = { p, g->never, (int64_t)(n / 16) };

	return bench_gpu_launch(g, BENCH_GPU_K_READ, &a, sizeof a);
}

double bench_gpu_copy(struct bench_gpu *g, void *to, const void *from, size_t n)
{
	const struct gpu_roof_move_args a = { from, to, (int64_t)(n / 16) };

	return bench_gpu_launch(g, BENCH_GPU_K_COPY, &a, sizeof a);
}

/* ---- arithmetic ---- */

static const struct {
	const char *name;
	enum bench_gpu_kernel kernel;
	double ops;            /* of a thread in a round */
} bench_gpu_peaks[BENCH_GPU_N_PEAK] = {
	[BENCH_GPU_FMA] = { "fp32 FMA", BENCH_GPU_K_FMA, 2.0 * GPU_ROOF_CHAINS },
	[BENCH_GPU_MMA] = { "bf16 mma", BENCH_GPU_K_MMA, BENCH_GPU_MMA_OPS * GPU_ROOF_FRAGMENTS / BENCH_GPU_WARP },
};

const char *bench_gpu_peak_name(enum bench_gpu_peak k)
{
	return bench_gpu_peaks[k].name;
}

static double bench_gpu_rounds(struct bench_gpu *g, enum bench_gpu_peak k, int64_t rounds)
{
	const struct gpu_roof_peak_args a = { rounds, 0.5f, 0.25f, NAN, g->never };

	return bench_gpu_launch(g, bench_gpu_peaks[k].kernel, &a, sizeof a);
}

/* The first launches are short, and mostly launches: each is made longer by what it falls short. */
double bench_gpu_peak(struct bench_gpu *g, enum bench_gpu_peak k, double seconds)
{
	double threads = (double)BENCH_GPU_BLOCKS * GPU_ROOF_THREADS * device_gpu(g->device)->n_sm;
	int64_t rounds = BENCH_GPU_ROUNDS;
	double took = bench_gpu_rounds(g, k, rounds);

	while (took >= 0 && took < seconds / 2) {
		rounds = (int64_t)((double)rounds * fmin(seconds / fmax(took, 1e-9), 64)) + 1;
		took = bench_gpu_rounds(g, k, rounds);
	}
	return took < 0 ? -1 : bench_gpu_peaks[k].ops * threads * (double)rounds / fmax(took, 1e-9);
}
