/* SPDX-License-Identifier: MIT
 * driver.c - the stand-in driver keeps what a driver promises, and no more: nothing runs before somebody waits for it.
 * Threads: one. Locks: none. */
#include "engine/device/cuda_driver.h"
#include "tests/cusim/selftest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DRIVER_N 64

static const struct cuda_driver *cu;
static void *stream;
static float *in, *out;                 /* [DRIVER_N], managed */
static uint64_t there;                  /* [DRIVER_N], the device's */

#define IS(what, want) driver_is(__LINE__, #what, (long)(what), (long)(want))
static void driver_is(int line, const char *what, long got, long want)
{
	if (got == want)
		return;
	printf("FAILED: line %d: %s is %ld, not %ld\n", line, what, got, want);
	exit(1);
}

static void driver_begin(void)
{
	struct buf why = { 0 };
	void *context;
	uint64_t p;
	int n;

	if (cuda_driver(&cu, &why)) {
		printf("FAILED: %s\n", buf_str(&why));
		exit(1);
	}
	IS(cu->device_count(&n), CUDA_OK);
	IS(n, 2);
	IS(cu->context_retain(&context, 0), CUDA_OK);
	IS(cu->context_set(context), CUDA_OK);
	IS(cu->stream_create(&stream, CUDA_STREAM_NON_BLOCKING), CUDA_OK);
	IS(cu->mem_managed(&p, DRIVER_N * 4, CUDA_ATTACH_GLOBAL), CUDA_OK);
	in = (float *)(uintptr_t)p;
	IS(cu->mem_managed(&p, DRIVER_N * 4, CUDA_ATTACH_GLOBAL), CUDA_OK);
	out = (float *)(uintptr_t)p;
	IS(cu->mem_alloc(&there, DRIVER_N * 4), CUDA_OK);
	for (int i = 0; i < DRIVER_N; i++) {
		in[i] = (float)i;
		out[i] = -1;
	}
}

static void *driver_kernel(const char *name)
{
	void *module, *f = NULL;

	IS(cu->module_load(&module, "cusim", 0, NULL, NULL), CUDA_OK);
	IS(cu->function(&f, module, "no_such_kernel"), CUDA_NOT_FOUND);
	IS(cu->function(&f, module, name), CUDA_OK);
	return f;
}

static int driver_launch(void *f, const void *from, void *to)
{
	struct selftest_args args = { .in = from, .out = to, .n = DRIVER_N };
	void *params[] = { &args };

	return cu->launch(f, 1, 1, 1, DRIVER_N, 1, 1, 0, stream, params, NULL);
}

/* ---- what is tested; each in a process of its own ---- */

static void driver_waits(void)
{
	void *f = driver_kernel("right_copy");
	float pageable = 77;

	IS(driver_launch(f, in, out), CUDA_OK);
	IS(out[5], -1);
	in[5] = 50; /* too early: the GPU may not have read it */
	IS(cu->stream_wait(stream), CUDA_OK);
	IS(out[5], 50);
	/* Bytes of memory that is not pinned are taken at once. */
	IS(cu->copy_to_device(there, in, DRIVER_N * 4, stream), CUDA_OK);
	IS(cu->copy_to_device(there, &pageable, 4, stream), CUDA_OK);
	pageable = 0;
	IS(driver_launch(f, (void *)(uintptr_t)there, out), CUDA_OK);
	IS(cu->copy_to_host(&pageable, there, 4, stream), CUDA_OK);
	IS(pageable, 77);
	IS(out[0], 77);
	IS(driver_launch(f, in, out), CUDA_OK);
	IS(cu->copy_to_host(&pageable, there + DRIVER_N * 4 - 4, 4, stream), CUDA_OK);
	IS(pageable, DRIVER_N - 1);
	/* Rows: three floats of each eight, to each four. */
	struct cuda_copy_rows rows = { .from_type = CUDA_MEMORY_UNIFIED, .from = (uintptr_t)in, .from_stride = 32,
		.to_type = CUDA_MEMORY_UNIFIED, .to = (uintptr_t)out, .to_stride = 16, .bytes = 12, .rows = 2 };

	out[1] = out[3] = out[8] = -1;
	IS(cu->copy_rows(&rows, stream), CUDA_OK);
	IS(out[1], -1);
	IS(cu->stream_wait(stream), CUDA_OK);
	IS(out[1], 1);
	IS(out[3], -1);
	IS(out[4], 8);
	IS(out[6], 10);
	IS(out[8], -1);
	rows.to_stride = 8;
	IS(cu->copy_rows(&rows, stream), CUDA_INVALID_VALUE);
}

static void driver_graphs(void)
{
	void *f = driver_kernel("right_copy"), *g = driver_kernel("race_blocks"), *graph, *exec;
	struct cuda_graph_update differs;
	size_t n;

	IS(cu->capture_begin(stream, 0), CUDA_OK);
	IS(driver_launch(f, in, out), CUDA_OK);
	IS(cu->capture_end(stream, &graph), CUDA_OK);
	IS(cu->stream_wait(stream), CUDA_OK);
	IS(out[5], -1);
	IS(cu->graph_nodes(graph, NULL, &n), CUDA_OK);
	IS(n, 1);
	IS(cu->graph_instantiate(&exec, graph, 0), CUDA_OK);
	IS(cu->graph_destroy(graph), CUDA_OK);
	IS(cu->graph_launch(exec, stream), CUDA_OK);
	IS(cu->stream_wait(stream), CUDA_OK);
	IS(out[5], 5);
	/* Other numbers, then other kernels. */
	IS(cu->capture_begin(stream, 0), CUDA_OK);
	IS(driver_launch(f, in + 1, in), CUDA_OK);
	IS(cu->capture_end(stream, &graph), CUDA_OK);
	IS(cu->graph_update(exec, graph, &differs), CUDA_OK);
	IS(cu->graph_destroy(graph), CUDA_OK);
	IS(cu->capture_begin(stream, 0), CUDA_OK);
	IS(driver_launch(g, in, out), CUDA_OK);
	IS(cu->stream_wait(stream), 900);
	IS(cu->capture_end(stream, &graph), CUDA_CAPTURE_INVALIDATED);
	IS(cu->capture_begin(stream, 0), CUDA_OK);
	IS(cu->graph_launch(exec, stream), 900);
	IS(cu->capture_end(stream, &graph), CUDA_CAPTURE_INVALIDATED);
	IS(cu->capture_begin(stream, 0), CUDA_OK);
	IS(driver_launch(g, in, out), CUDA_OK);
	IS(cu->capture_end(stream, &graph), CUDA_OK);
	IS(cu->graph_update(exec, graph, &differs), CUDA_GRAPH_UPDATE_FAILED);
	IS(cu->graph_destroy(graph), CUDA_OK);
	IS(cu->graph_exec_destroy(exec), CUDA_OK);
}

static void driver_memory(void)
{
	size_t left, total;
	uint64_t p, more;

	IS(cu->mem_info(&left, &total), CUDA_OK);
	IS(total, 1 << 20);
	IS(total - left, 3 * DRIVER_N * 4);
	IS(cu->mem_alloc(&p, left), CUDA_OK);
	IS(cu->mem_managed(&more, 256, CUDA_ATTACH_GLOBAL), CUDA_NO_MEMORY);
	IS(cu->mem_free(p), CUDA_OK);
	IS(cu->mem_free(p), CUDA_INVALID_VALUE);
}

static void driver_loses(void)
{
	void *f = driver_kernel("right_copy");

	IS(driver_launch(f, in, out), CUDA_OK);
	IS(cu->stream_wait(stream), CUDA_OK);
	IS(driver_launch(f, in, out), CUDA_OK);
	IS(cu->stream_wait(stream), CUDA_LAUNCH_FAILED);
	IS(driver_launch(f, in, out), CUDA_LAUNCH_FAILED);
	IS(cu->stream_wait(stream), CUDA_LAUNCH_FAILED);
}

static void driver_finds(void)
{
	void *f = driver_kernel("global_write_beyond");

	IS(driver_launch(f, in, out), CUDA_OK);
	IS(cu->stream_wait(stream), CUDA_ILLEGAL_ADDRESS);
	IS(cu->mem_free(there), CUDA_ILLEGAL_ADDRESS);
}

/* Of two GPUs each has its memory to itself, but for what is managed or the host's. */
static uint64_t driver_others(void)
{
	void *context;
	uint64_t other;

	IS(cu->context_retain(&context, 1), CUDA_OK);
	IS(cu->context_set(context), CUDA_OK);
	IS(cu->stream_create(&stream, CUDA_STREAM_NON_BLOCKING), CUDA_OK);
	IS(cu->mem_alloc(&other, DRIVER_N * 4), CUDA_OK);
	IS(cu->copy_to_device(other, in, DRIVER_N * 4, stream), CUDA_OK);
	IS(driver_launch(driver_kernel("right_copy"), (void *)(uintptr_t)other, out), CUDA_OK);
	IS(cu->stream_wait(stream), CUDA_OK);
	IS(out[5], 5);
	return other;
}

static void driver_kernel_strays(void)
{
	(void)driver_others();
	IS(driver_launch(driver_kernel("right_copy"), in, (void *)(uintptr_t)there), CUDA_OK);
	IS(cu->stream_wait(stream), CUDA_ILLEGAL_ADDRESS);
}

static void driver_copy_strays(void)
{
	uint64_t other = driver_others();

	IS(cu->copy(other, there, 4, stream), CUDA_OK);
	IS(cu->stream_wait(stream), CUDA_ILLEGAL_ADDRESS);
}

static void driver_hides(void)
{
	IS(*(volatile float *)(uintptr_t)there, 0);
}

static int driver_run(void (*test)(void), const char *name, int signal)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		driver_begin();
		test();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	if (signal ? !WIFSIGNALED(status) && !WEXITSTATUS(status) : status) {
		printf("FAILED %s\n", name);
		return 1;
	}
	printf("ok %s\n", name);
	return 0;
}

int main(int argc, char **argv)
{
	int failed = 0;
	char path[4096];

	(void)argc;
	if (!getenv("CUSIM_MEMORY")) {
		snprintf(path, sizeof path, "%s/tests/cusim", getenv("top_builddir") ? getenv("top_builddir") : ".");
		setenv("LD_LIBRARY_PATH", path, 1);
		setenv("CUSIM_MEMORY", "1048576", 1);
		setenv("CUSIM_DEVICES", "2", 1);
		setenv("CUSIM_LOSE_AT", "2", 1);
		execv("/proc/self/exe", argv);
		return 1;
	}
	failed |= driver_run(driver_loses, "a lost device stays lost", 0);
	unsetenv("CUSIM_LOSE_AT");
	failed |= driver_run(driver_waits, "nothing runs before somebody waits", 0);
	failed |= driver_run(driver_graphs, "graphs", 0);
	failed |= driver_run(driver_memory, "memory is bounded", 0);
	failed |= driver_run(driver_finds, "what the simulator finds loses the device", 0);
	failed |= driver_run(driver_kernel_strays, "another device's memory is no kernel's", 0);
	failed |= driver_run(driver_copy_strays, "nor a copy's", 0);
	failed |= driver_run(driver_hides, "the host cannot look into device memory", 1);
	return failed;
}
