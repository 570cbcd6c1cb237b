/* SPDX-License-Identifier: MIT
 * stepkit.c - the tiny model on the CPU and on the stand-in for a GPU, with cuda-base: for tests of steps there.
 * Threads: the test's. Locks: none. */
#include "tests/cuda/stepkit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct stepkit kit;

struct kset *stepkit_set(const char *const *spec, int n)
{
	struct kset_overlay ov[KSET_MAX_OVERLAYS];
	struct kset *ks = NULL;
	int n_ov = 0, rc = 0;

	for (int i = 0; i < n && rc == 0; i++)
		rc = eval_plugins_overlay(&kit.plugins, spec[i], ov, &n_ov, &kit.gpu.why);
	if (rc || kset_build(ov, n_ov, &ks, &kit.gpu.why))
		fail_msg("%s", buf_str(&kit.gpu.why));
	return ks;
}

/* A plugin's file lies where only its owner writes. */
static void stepkit_plugin(void)
{
	const char *top = getenv("top_builddir");
	struct buf command = { 0 };

	snprintf(kit.dir, sizeof kit.dir, "/tmp/dsv4-step-XXXXXX");
	assert_non_null(mkdtemp(kit.dir));
	buf_printf(&command, "install -m 0755 %s/plugins/cuda-base.so %s", top ? top : ".", kit.dir);
	assert_int_equal(system(buf_str(&command)), 0);
	buf_clear(&command);
	buf_printf(&command, "%s/cuda-base.so", kit.dir);
	kit.plugins.device = kit.device;
	kit.plugins.ranks = kit.ranks;
	if (eval_plugins_load(&kit.plugins, buf_str(&command), &kit.gpu.why))
		fail_msg("%s", buf_str(&kit.gpu.why));
	unlink(buf_str(&command));
	rmdir(kit.dir);
	buf_fini(&command);
}

static const char *stepkit_devices(void)
{
	const char *said = getenv("STEP_DEVICES");

	return said ? said : strcmp(getenv("STEP_RUN"), "two") ? "cuda" : "cuda:0-1";
}

int stepkit_setup(void **state)
{
	int n = STEP_PROMPT + STEP_DECODE;

	(void)state;
	tinykit_init(&kit.cpu, 1);
	tinykit_tokens(&kit.cpu, 7, kit.token, n);
	kit.want = tinykit_prefill(&kit.cpu, kit.cpu.ref, &kit.cpu.exact, kit.token, n);
	tinykit_init(&kit.gpu, 1);
	if (ranks_open(stepkit_devices(), 60, &kit.ranks, &kit.gpu.why) ||
	    model_place_ranks(kit.gpu.model, kit.ranks, &kit.gpu.why))
		fail_msg("%s", buf_str(&kit.gpu.why));
	kit.device = ranks_device(kit.ranks, 0);
	forward_free(&kit.gpu.forward);
	kit.gpu.forward = forward_new(kit.gpu.model, kit.gpu.pool);
	stepkit_plugin();
	return 0;
}

int stepkit_teardown(void **state)
{
	(void)state;
	tinykit_fini(&kit.gpu);
	assert_int_equal(eval_plugins_fini(&kit.plugins, NULL), 0);
	ranks_close(&kit.ranks);
	tinykit_fini(&kit.cpu);
	free(kit.want);
	return 0;
}

struct device_view stepkit_view(void)
{
	struct device_view v;

	device_view(kit.device, &v);
	return v;
}

/* ---- runs ---- */

const char *stepkit_run(char **argv, const char *first)
{
	const char *top = getenv("top_builddir"), *run = getenv("STEP_RUN");
	char path[4096];

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	puts("the simulator's threads are fibres that sanitizers do not know");
	return NULL;
#endif
	if (run)
		return run;
	snprintf(path, sizeof path, "%s/tests/cusim", top ? top : ".");
	setenv("LD_LIBRARY_PATH", path, 1); /* the loader reads it at the start */
	exit(stepkit_again(argv, first));
}

int stepkit_again(char **argv, const char *run)
{
	setenv("STEP_RUN", run, 1);
	if (!strcmp(run, "two"))
		setenv("CUSIM_DEVICES", "2", 1);
	execv("/proc/self/exe", argv);
	return 1;
}
