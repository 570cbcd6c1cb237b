/* SPDX-License-Identifier: MIT
 * ranks.c - two devices of the stand-in driver gather by the stand-in of NCCL, and both stop when one does. Nothing
 * here ran on a real GPU.
 * Threads: one per rank. Locks: none. */
#include "engine/base/rc.h"
#include "engine/device/ranks.h"
#include "tests/cusim/selftest.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS_N 2
#define RANKS_FLOATS 64
#define RANKS_BYTES (RANKS_FLOATS * sizeof(float))
#define RANKS_PASSES 6

#define IS(what, want) ranks_is(__LINE__, #what, (long)(what), (long)(want))
static void ranks_is(int line, const char *what, long got, long want)
{
	if (got == want)
		return;
	printf("FAILED: line %d: %s is %ld, not %ld\n", line, what, got, want);
	fflush(stdout);
	_exit(1);
}

#define SAYS(why, words) ranks_says(__LINE__, buf_str(why), words)
static void ranks_says(int line, const char *why, const char *words)
{
	if (strstr(why, words))
		return;
	printf("FAILED: line %d: \"%s\" says nothing of \"%s\"\n", line, why, words);
	fflush(stdout);
	_exit(1);
}

/* ---- a rank ---- */

struct side {
	struct ranks *ranks;
	int rank;
	struct device *device;
	struct queue *queue;
	float *src;                     /* [RANKS_FLOATS] */
	float *dst;                     /* [RANKS_N][RANKS_FLOATS] */
	struct dsv4_host host;
	struct dsv4_kernel *copy;       /* right_copy */
	int rc;
	struct buf why;
	void (*run)(struct side *s);
};
static struct ranks *all;
static struct side side[RANKS_N];

static void side_open(struct side *s, int rank)
{
	struct dsv4_module *m;

	*s = (struct side){ .ranks = all, .rank = rank, .device = ranks_device(all, rank) };
	s->queue = queue_new(s->device, NULL);
	s->src = device_alloc(s->device, RANKS_FLOATS, sizeof *s->src);
	s->dst = device_alloc(s->device, RANKS_N * RANKS_FLOATS, sizeof *s->dst);
	s->host.gpu = device_gpu(s->device);
	IS(s->host.gpu->module(&s->host, "cusim", &m), 0);
	IS(s->host.gpu->kernel(&s->host, m, "right_copy", 0, &s->copy), 0);
}

static void side_close(struct side *s)
{
	queue_free(&s->queue);
	device_free(s->device, s->src);
	device_free(s->device, s->dst);
	device_unload(s->device, &s->host);
	buf_fini(&s->why);
}

static void *side_main(void *arg)
{
	struct side *s = arg;

	s->run(s);
	return NULL;
}

static void sides_run(void (*run)(struct side *s))
{
	pthread_t thread[RANKS_N];

	for (int i = 0; i < RANKS_N; i++) {
		side[i].run = run;
		IS(pthread_create(&thread[i], NULL, side_main, &side[i]), 0);
	}
	for (int i = 0; i < RANKS_N; i++)
		IS(pthread_join(thread[i], NULL), 0);
}

static void sides_open(void)
{
	struct buf why = { 0 };

	if (ranks_open("cuda:0-1", 60, &all, &why)) {
		printf("FAILED: %s\n", buf_str(&why));
		_exit(1);
	}
	IS(ranks_n(all), RANKS_N);
	for (int i = 0; i < RANKS_N; i++)
		side_open(&side[i], i);
}

static void sides_close(void)
{
	for (int i = 0; i < RANKS_N; i++)
		side_close(&side[i]);
	ranks_close(&all);
}

static void side_launch(struct side *s, const float *in, float *out, int n)
{
	const struct selftest_args args = { .in = in, .out = out, .n = n };
	const struct dsv4_launch l = { .grid = { (uint32_t)(n + 63) / 64, 1, 1 }, .block = { 64, 1, 1 }, .args = &args,
				       .args_bytes = sizeof args };

	IS(s->host.gpu->launch(queue_exec(s->queue), s->copy, &l), 0);
}

static float side_number(int rank, int pass, int i)
{
	return (float)(pass * 1000 + rank * 100 + i);
}

/* New numbers, through a kernel, gathered; what came is written over before the next. */
static void side_queue(struct side *s, int pass)
{
	float *fresh = queue_stage(s->queue, s->src, RANKS_BYTES);
	void *there = device_scratch(queue_exec(s->queue), RANKS_BYTES);

	for (int i = 0; i < RANKS_FLOATS; i++)
		fresh[i] = side_number(s->rank, pass, i);
	queue_put(s->queue, s->src, fresh, RANKS_BYTES);
	side_launch(s, s->src, there, RANKS_FLOATS);
	IS(ranks_agree(s->ranks, s->rank, queue_failed(s->queue)), 0);
	ranks_gather(s->ranks, s->rank, s->queue, s->dst, there, RANKS_BYTES);
}

static void side_right(const struct side *s, int pass)
{
	for (int i = 0; i < RANKS_N * RANKS_FLOATS; i++)
		IS(s->dst[i], side_number(i / RANKS_FLOATS, pass, i % RANKS_FLOATS));
}

/* ---- what is tested; each in a process of its own ---- */

static void side_gathers(struct side *s)
{
	for (int pass = 0; pass < RANKS_PASSES; pass++) {
		queue_next_op(s->queue);
		side_queue(s, pass);
		if (pass % 2)
			side_queue(s, pass + 100); /* two in a row */
		IS(queue_sync(s->queue, &s->why), 0);
		side_right(s, pass % 2 ? pass + 100 : pass);
	}
}

static void ranks_gather_eagerly(void)
{
	sides_open();
	sides_run(side_gathers);
	sides_close();
}

static void side_gathers_in_graphs(struct side *s)
{
	for (int pass = 0; pass < RANKS_PASSES; pass++) {
		queue_next_op(s->queue);
		queue_graph(s->queue, pass < RANKS_PASSES / 2 ? 7 : 8);
		side_queue(s, pass);
		IS(queue_end(s->queue, &s->why), 0);
		side_right(s, pass);
	}
}

static void ranks_gather_in_graphs(void)
{
	struct device_view v;

	sides_open();
	sides_run(side_gathers_in_graphs);
	for (int i = 0; i < RANKS_N; i++) {
		device_view(side[i].device, &v);
		IS(v.graph_steps, RANKS_PASSES);
		IS(v.graphs, 2);
	}
	sides_run(side_gathers); /* and without, on the same communicators */
	sides_close();
}

static void side_only_gathers(struct side *s)
{
	IS(ranks_agree(s->ranks, s->rank, 0), 0);
	ranks_gather(s->ranks, s->rank, s->queue, s->dst, s->src, RANKS_BYTES);
	s->rc = queue_sync(s->queue, &s->why);
}

/* Rank 1 launches what loses it; a gather follows, for which rank 0 waits. */
static void side_loses(struct side *s)
{
	if (s->rank == 1)
		side_launch(s, s->src, s->src, RANKS_FLOATS);
	IS(ranks_agree(s->ranks, s->rank, 0), 0);
	ranks_gather(s->ranks, s->rank, s->queue, s->dst, s->src, RANKS_BYTES);
	s->rc = queue_end(s->queue, &s->why);
}

static void side_loses_in_a_graph(struct side *s)
{
	queue_graph(s->queue, 7);
	side_loses(s);
}

static void ranks_are_lost(const char *words)
{
	for (int i = 0; i < RANKS_N; i++) {
		IS(side[i].rc, RC_DEVICE);
		IS(device_broken(side[i].device), 1);
		SAYS(&side[i].why, words);
	}
}

static void ranks_lose_one(void)
{
	sides_open();
	sides_run(side_loses);
	ranks_are_lost("cuda:1: the GPU's work: CUDA_ERROR_LAUNCH_FAILED");
	SAYS(&side[0].why, "cuda:0 stops: cuda:1: ");
	sides_run(side_only_gathers); /* and stay so */
	ranks_are_lost("cuda:");
	sides_close();
}

static void ranks_lose_one_in_a_graph(void)
{
	sides_open();
	sides_run(side_gathers_in_graphs); /* graphs that are kept: a communicator's end waits for them */
	for (int i = 0; i < RANKS_N; i++)
		buf_clear(&side[i].why);
	sides_run(side_loses_in_a_graph);
	ranks_are_lost("cuda:1: ");
	sides_close();
}

static void ranks_meet_an_error_of_nccl(void)
{
	sides_open();
	sides_run(side_only_gathers);
	ranks_are_lost("NCCL: unhandled system error");
	sides_close();
}

/* One is short of memory for something, when both have agreed to go on: the other must not wait for it. */
static void side_is_short(struct side *s)
{
	queue_graph(s->queue, 7);
	IS(ranks_agree(s->ranks, s->rank, 0), 0);
	ranks_gather(s->ranks, s->rank, s->queue, s->dst, s->src, RANKS_BYTES);
	if (s->rank == 1)
		IS(queue_stage(s->queue, NULL, SIZE_MAX / 2) == NULL, 1);
	s->rc = queue_end(s->queue, &s->why);
}

static void ranks_do_not_wait_for_what_is_not_launched(void)
{
	sides_open();
	sides_run(side_is_short);
	IS(side[0].rc, RC_DEVICE);
	SAYS(&side[0].why, "cuda:0 stops: cuda:1: pinned memory: CUDA_ERROR_OUT_OF_MEMORY");
	IS(side[1].rc, -ENOMEM);
	sides_close();
}

/* The same, but they ask each other first. */
static void side_agrees_on_an_error(struct side *s)
{
	queue_graph(s->queue, 7);
	IS(ranks_agree(s->ranks, s->rank, 0), 0);
	ranks_gather(s->ranks, s->rank, s->queue, s->dst, s->src, RANKS_BYTES);
	if (s->rank == 1)
		IS(queue_stage(s->queue, NULL, SIZE_MAX / 2) == NULL, 1);
	IS(ranks_agree(s->ranks, s->rank, queue_failed(s->queue)), -ENOMEM);
	queue_drop(s->queue);
	IS(queue_end(s->queue, &s->why), s->rank == 1 ? -ENOMEM : 0);
	buf_clear(&s->why);
}

static void ranks_go_on_after_an_error_that_all_know(void)
{
	sides_open();
	sides_run(side_agrees_on_an_error);
	sides_run(side_gathers_in_graphs);
	sides_close();
}

static void side_gathers_less(struct side *s)
{
	ranks_gather(s->ranks, s->rank, s->queue, s->dst, s->src, s->rank == 1 ? 64 : 128);
	s->rc = queue_sync(s->queue, &s->why);
}

static void ranks_differ(void)
{
	sides_open();
	sides_run(side_gathers_less);
	ranks_are_lost("cuda:");
	sides_close();
}

static void side_gathers_nothing(struct side *s)
{
	void *there = device_scratch(queue_exec(s->queue), RANKS_BYTES);

	ranks_gather(s->ranks, s->rank, s->queue, s->dst, there, RANKS_BYTES);
	s->rc = queue_sync(s->queue, &s->why);
}

static void ranks_gather_what_nobody_wrote(void)
{
	sides_open();
	sides_run(side_gathers_nothing);
	ranks_are_lost("cuda:");
	sides_close();
}

static void ranks_graph_alone(struct side *s)
{
	if (s->rank == 1)
		queue_graph(s->queue, 7);
	ranks_gather(s->ranks, s->rank, s->queue, s->dst, s->src, RANKS_BYTES);
	s->rc = queue_end(s->queue, &s->why);
}

static void ranks_graph_one(void)
{
	sides_open();
	sides_run(ranks_graph_alone);
	ranks_are_lost("cuda:");
	sides_close();
}

/* ---- what does not open ---- */

static const char *opened, *refused;

static void ranks_refuse(void)
{
	struct ranks *r = NULL;
	struct buf why = { 0 };

	IS(ranks_open(opened, 60, &r, &why), RC_UNAVAILABLE);
	SAYS(&why, refused);
	IS(r == NULL, 1);
	buf_fini(&why);
}

static void ranks_hang(void)
{
	struct ranks *r = NULL;
	struct buf why = { 0 };

	IS(ranks_hung(), 0);
	IS(ranks_open("cuda:0-1", 1, &r, &why), RC_UNAVAILABLE);
	SAYS(&why, "cuda:0 and 1 more: NCCL has not connected them within 1 s");
	IS(r == NULL && ranks_hung(), 1);
	buf_fini(&why);
}

/* A driver would give managed memory beyond the device's, moving pages to the host and back. */
static void ranks_memory_of_nccl(void)
{
	struct ranks *r = NULL;

	setenv("CUSIM_MEMORY", "67108864", 1);
	setenv("CUSIM_MANAGED", "268435456", 1);
	IS(ranks_open("cuda:0-1", 60, &r, NULL), 0);
	for (int i = 0; i < 2; i++) {
		struct device *d = ranks_device(r, i);
		void *p = device_alloc(d, 1, 8 << 20);

		IS(p != NULL, 1); /* of sixteen */
		IS(device_alloc(d, 1, 12 << 20) == NULL, 1);
		device_free(d, p);
	}
	ranks_close(&r);
}

static void ranks_one(void)
{
	struct ranks *r = NULL;

	IS(ranks_open("cuda:1", 60, &r, NULL), 0);
	IS(ranks_n(r), 1);
	IS(strcmp(device_name(ranks_device(r, 0)), "cuda:1"), 0);
	ranks_close(&r);
}

/* ---- running ---- */

/* `setting` for that process alone; it may say `words` on stderr, and otherwise nothing of the simulator's. */
static int ranks_run(void (*test)(void), const char *name, const char *setting, const char *words)
{
	char said[8192];
	FILE *f = tmpfile();
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		dup2(fileno(f), 2);
		if (setting)
			putenv((char *)(uintptr_t)setting);
		alarm(60); /* who waits for ever has failed */
		test();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	rewind(f);
	said[fread(said, 1, sizeof said - 1, f)] = '\0';
	fclose(f);
	if (status == 0 && (words ? strstr(said, words) != NULL : !*said)) {
		printf("ok %s\n", name);
		return 0;
	}
	printf("FAILED %s: status %d, and it said \"%s\"\n", name, status, said);
	return 1;
}

static int ranks_refused(const char *names, const char *words, const char *name, const char *setting)
{
	opened = names;
	refused = words;
	return ranks_run(ranks_refuse, name, setting, NULL);
}

static int ranks_all(void)
{
	int failed = 0;

	failed |= ranks_run(ranks_gather_eagerly, "what each has all have", NULL, NULL);
	failed |= ranks_run(ranks_gather_in_graphs, "and in graphs", NULL, NULL);
	failed |= ranks_run(ranks_one, "one alone needs no other", NULL, NULL);
	failed |= ranks_run(ranks_lose_one, "one that is lost ends all", "CUSIM_LOSE_AT=1", NULL);
	failed |= ranks_run(ranks_lose_one_in_a_graph, "and in a graph", "CUSIM_LOSE_AT=13", NULL);
	failed |= ranks_run(ranks_meet_an_error_of_nccl, "so does an error of NCCL", "CUSIM_NCCL_FAIL_AT=4", NULL);
	failed |= ranks_run(ranks_do_not_wait_for_what_is_not_launched, "and a graph that is not launched", NULL, NULL);
	failed |= ranks_run(ranks_go_on_after_an_error_that_all_know, "but no error that all know of", NULL, NULL);
	failed |= ranks_run(ranks_differ, "the stand-in finds other sizes", NULL,
			    "nccl: rank 1 gathers 64 bytes where rank 0 gathers 128\n");
	failed |= ranks_run(ranks_graph_one, "a graph of one alone", NULL,
			    "nccl: rank 1 gathers in a graph where rank 0 does not\n");
	failed |= ranks_run(ranks_gather_what_nobody_wrote, "and what nobody wrote", NULL,
			    "cusim: nccl rank 0 reads 256 bytes, which nobody wrote, at 0 of the ");
	failed |= ranks_refused("cuda:0-2", "cuda:2: the driver has 2 GPUs", "a GPU that is not there is named", NULL);
	failed |= ranks_refused("cuda:0-1", "has compute capability 9.0, cuda:1 (cusim, no GPU) 8.0",
				"all must be alike", "CUSIM_SM=90,80");
	failed |= ranks_run(ranks_memory_of_nccl, "what NCCL takes of a GPU is not there for others",
			    "CUSIM_NCCL_MEMORY=50331648", NULL);
	failed |= ranks_run(ranks_hang, "NCCL that does not connect is given up on", "CUSIM_NCCL_HANG=1", NULL);
	failed |= ranks_refused("cuda:0-1", "cuda:0: NCCL: unhandled system error", "the first gather is told",
				"CUSIM_NCCL_FAIL_AT=1");
	return failed;
}

/* A libnccl.so.2 that is none hides one of the system's. */
static int ranks_no_nccl(char **argv)
{
	char folder[] = "/tmp/dsv4-ranks-XXXXXX", from[4096], to[4200], *path = getenv("LD_LIBRARY_PATH");
	int status;
	FILE *f;

	if (!mkdtemp(folder))
		return 1;
	snprintf(from, sizeof from, "%s/libcuda.so.1", path);
	snprintf(to, sizeof to, "%s/libcuda.so.1", folder);
	if (symlink(from, to))
		return 1;
	snprintf(to, sizeof to, "%s/libnccl.so.2", folder);
	f = fopen(to, "w");
	if (!f)
		return 1;
	fclose(f);
	if (fork() == 0) {
		setenv("LD_LIBRARY_PATH", folder, 1);
		setenv("RANKS_GPU", "no nccl", 1);
		execv("/proc/self/exe", argv);
		_exit(1);
	}
	wait(&status);
	unlink(to);
	snprintf(to, sizeof to, "%s/libcuda.so.1", folder);
	unlink(to);
	rmdir(folder);
	return status != 0;
}

int main(int argc, char **argv)
{
	const char *top = getenv("top_builddir"), *gpu = getenv("RANKS_GPU");
	char path[4096];

	(void)argc;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	puts("the simulator's threads are fibres that sanitizers do not know");
	return 77;
#endif
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!gpu) { /* the loader reads the path at the start */
		if (!realpath(top ? top : ".", path))
			return 1;
		strncat(path, "/tests/cusim", sizeof path - strlen(path) - 1);
		setenv("LD_LIBRARY_PATH", path, 1);
		setenv("CUSIM_DEVICES", "2", 1);
		setenv("RANKS_GPU", "two", 1);
		execv("/proc/self/exe", argv);
		return 1;
	}
	if (strcmp(gpu, "two"))
		return ranks_refused("cuda:0-1", "no NCCL: ", "without NCCL one line says so", NULL);
	return ranks_all() | ranks_no_nccl(argv);
}
