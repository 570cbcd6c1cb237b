/* SPDX-License-Identifier: MIT
 * stepkit.h - the tiny model on the CPU and on the stand-in for a GPU, with cuda-base: for tests of steps there.
 * Threads: the test's. Locks: none. */
#ifndef TESTS_STEPKIT_H
#define TESTS_STEPKIT_H

#include "engine/eval/eval_plugins.h"
#include "tests/unit/tinykit.h"

#define STEP_PROMPT 6
#define STEP_DECODE 5

/* The CPU's kit, and the same model on the GPU with its plugin. */
struct stepkit {
	struct tinykit cpu, gpu;
	struct ranks *ranks;          /* one GPU; of the run "two", two */
	struct device *device;        /* the first */
	struct eval_plugins plugins;
	char dir[64];
	int32_t token[STEP_PROMPT + STEP_DECODE];
	float *want;                  /* [STEP_PROMPT + STEP_DECODE][vocab], ref's */
};
extern struct stepkit kit;

/* For cmocka's groups. In the environment STEP_DEVICES names others than the run's, TINYKIT_MODEL another model. */
int stepkit_setup(void **state);
int stepkit_teardown(void **state);
/* The set that these overlays make. */
struct kset *stepkit_set(const char *const *spec, int n);
struct device_view stepkit_view(void);

/* NULL where a sanitizer forbids the simulator's fibres. Else the program has begun anew with the stand-in in the
 * loader's path, and this is its name for the run: the first, or what stepkit_again() said. */
const char *stepkit_run(char **argv, const char *first);
/* Once more, as another run: the stand-in reads its settings once. Returns only if it cannot. */
int stepkit_again(char **argv, const char *run);

#endif
