/* SPDX-License-Identifier: MIT
 * model_id.c (test) - which changes of a checkpoint make another model of it.
 * Threads: main. Locks: none. */
#include "engine/checkpoint/model_id.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct id { char hex[SHA256_HEX]; };

static char dir[] = "/tmp/model_id.XXXXXX";
static char path[64];                  /* of the second file, where the largest tensors are */
static struct stat before;
static uint64_t start, bytes;          /* of the largest tensor in it */
static int n_tensors;

static struct id id_of_copy(void)
{
	struct checkpoint *ck = NULL;
	struct buf why = { 0 };
	struct id id = { 0 };

	if (checkpoint_open(dir, CHECKPOINT_MAP, &ck, &why) || model_id(ck, id.hex, &why))
		fail_msg("%s", buf_str(&why));
	checkpoint_free(&ck);
	return id;
}

static void put_time_back(void)
{
	const struct timespec t[2] = { before.st_atim, before.st_mtim };

	assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}

/* One bit, and the file's time as it was. */
static void flip(uint64_t at)
{
	int fd = open(path, O_RDWR);
	char byte;

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
	byte ^= 1;
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
	close(fd);
	put_time_back();
}

static int begin(void **state)
{
	struct checkpoint *ck = NULL;
	struct buf b = { 0 };

	(void)state;
	if (!mkdtemp(dir))
		return -1;
	buf_printf(&b, "cp -p '%s'/etc/tiny/*.json '%s'/etc/tiny/*.safetensors %s && chmod 600 %s/*",
		getenv("top_srcdir"), getenv("top_srcdir"), dir, dir);
	snprintf(path, sizeof path, "%s/model-00002-of-00002.safetensors", dir);
	if (system(buf_str(&b)) || stat(path, &before) || checkpoint_open(dir, CHECKPOINT_MAP, &ck, NULL))
		return -1;
	n_tensors = ck->n_tensors;
	for (int i = 0; i < ck->n_tensors; i++)
		if (ck->tensor[i].file == 1 && ck->tensor[i].t->bytes > bytes) {
			start = ck->tensor[i].t->offset;
			bytes = ck->tensor[i].t->bytes;
		}
	checkpoint_free(&ck);
	buf_fini(&b);
	return 0;
}

static int end(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof command, "rm -rf %s", dir);
	return system(command);
}

/* Only the two ends of a file counted: an edited weight went on with the cache of the one before. */
static void test_a_changed_middle_is_another_model(void **state)
{
	struct id was = id_of_copy();
	uint64_t at[] = { start, start + bytes / 2, start + bytes - 1 };

	(void)state;
	assert_true(n_tensors * 3 <= MODEL_ID_SAMPLES); /* or not all would be seen */
	assert_true(bytes > 4 * MODEL_ID_PAGE);
	for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
		struct id now;

		flip(at[i]);
		now = id_of_copy();
		if (strcmp(was.hex, now.hex) == 0)
			fail_msg("a change at byte %llu is not seen", (unsigned long long)(at[i] - start));
		flip(at[i]);
		assert_string_equal(was.hex, id_of_copy().hex);
	}
}

/* Between the samples the time tells. */
static void test_a_write_anywhere_is_another_model(void **state)
{
	const struct timespec later[2] = { before.st_atim, { before.st_mtim.tv_sec, before.st_mtim.tv_nsec ^ 1 } };
	struct id was = id_of_copy();
	uint64_t at = start + bytes / 4;

	(void)state;
	flip(at);
	assert_string_equal(was.hex, id_of_copy().hex); /* what model_id.h says is not seen */
	assert_int_equal(utimensat(AT_FDCWD, path, later, 0), 0);
	assert_string_not_equal(was.hex, id_of_copy().hex);
	flip(at);
	assert_string_equal(was.hex, id_of_copy().hex);
}

static void test_the_configuration_counts(void **state)
{
	struct id was = id_of_copy();
	char config[64];
	FILE *f;

	(void)state;
	snprintf(config, sizeof config, "%s/config.json", dir);
	assert_non_null(f = fopen(config, "a"));
	assert_int_equal(fputc('\n', f), '\n');
	assert_int_equal(fclose(f), 0);
	assert_string_not_equal(was.hex, id_of_copy().hex);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_changed_middle_is_another_model),
		cmocka_unit_test(test_a_write_anywhere_is_another_model),
		cmocka_unit_test(test_the_configuration_counts),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
