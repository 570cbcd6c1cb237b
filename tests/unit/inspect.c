/* SPDX-License-Identifier: MIT
 * inspect.c (test) - descriptions of whole published inventories, made as sparse files.
 * Threads: one. */
#include "engine/base/rc.h"
#include "engine/checkpoint/inspect.h"
#include "engine/checkpoint/weights.h"
#include "tests/lib/flash.h"

#include <errno.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64];

/* CPU time: the promised second must hold on a busy machine too, and files of holes cost no input. */
static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Resident KiB: file pages (mapped weights) and everything else apart. */
static void resident(long *ret_file, long *ret_other)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	long kib;

	*ret_file = *ret_other = 0;
	assert_non_null(f);
	while (fgets(line, sizeof line, f)) {
		if (sscanf(line, "RssFile: %ld", &kib) == 1 || sscanf(line, "RssShmem: %ld", &kib) == 1)
			*ret_file += kib; /* files on tmpfs count as the latter */
		if (sscanf(line, "RssAnon: %ld", &kib) == 1)
			*ret_other = kib;
	}
	fclose(f);
}

static void make(enum flash_kind kind, bool data, struct flash_total *ret_total)
{
	const char *tmp = getenv("TMPDIR");
	int rc;

	/* Disk file systems can take minutes to delete 160 GB of holes. */
	if (!tmp)
		tmp = access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp";
	snprintf(dir, sizeof dir, "%.40s/dsv4-flash-XXXXXX", tmp);
	assert_non_null(mkdtemp(dir));
	rc = flash_make(dir, kind, data, ret_total);
	if (rc == -EFBIG || rc == -ENOSPC || rc == -EINVAL) {
		flash_remove(dir);
		print_message("no sparse files of several GiB here\n");
		skip();
	}
	assert_int_equal(rc, 0);
}

/* As JSON, within so many seconds; `says` is the fault, NULL where there is none. */
static json_t *describe(double limit, const char *says)
{
	struct buf out = { 0 }, why = { 0 };
	double t = now();
	json_t *o;
	int rc = inspect_describe(dir, true, &out, &why);

	if (rc != (says ? RC_MODEL : 0) || (says && !strstr(buf_str(&why), says)))
		fail_msg("%s", buf_str(&why));
	t = now() - t;
	print_message("described in %.3f s\n", t);
	if (t > limit)
		fail_msg("described in %.3f s, expected at most %.1f", t, limit);
	o = json_loads(buf_str(&out), JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(o);
	buf_fini(&out);
	buf_fini(&why);
	return o;
}

static int64_t count(const json_t *o, const char *a, const char *b)
{
	const json_t *v = json_object_get(json_object_get(o, a), b);

	assert_true(json_is_integer(v));
	return json_integer_value(v);
}

static void faults(const json_t *o, int missing, int unexpected, int mismatched)
{
	assert_int_equal(count(o, "missing", "count"), missing);
	assert_int_equal(count(o, "unexpected", "count"), unexpected);
	assert_int_equal(count(o, "mismatched", "count"), mismatched);
}

/* Figures of doc/format.md 2.1, 2.6, 2.9 and 6. */
static void flash_is_described(void **state)
{
	struct flash_total total;
	const json_t *kv, *read;
	json_t *o;

	(void)state;
	make(FLASH_APRIL, true, &total);
	o = describe(1.0, NULL);
	faults(o, 0, 0, 0);
	assert_true(json_is_true(json_object_get(o, "complete")));
	assert_int_equal(json_integer_value(json_object_get(o, "files")), 46);
	assert_int_equal(json_integer_value(json_object_get(o, "tensors")), 69187);
	assert_int_equal(json_integer_value(json_object_get(o, "bytes")), 159609485896);
	assert_int_equal(count(json_object_get(o, "dtypes"), "BF16", "tensors"), 433);
	assert_int_equal(count(json_object_get(o, "dtypes"), "F32", "tensors"), 417);
	assert_int_equal(count(json_object_get(o, "dtypes"), "F8_E4M3", "tensors"), 375);
	assert_int_equal(count(json_object_get(o, "dtypes"), "F8_E8M0", "tensors"), 34167);
	assert_int_equal(count(json_object_get(o, "dtypes"), "I64", "tensors"), 3);
	assert_int_equal(count(json_object_get(o, "dtypes"), "I8", "tensors"), 33792);
	assert_int_equal(count(o, "model", "parameters"), 284334567511);
	assert_int_equal(count(json_object_get(o, "model"), "draft", "tensors"), 1575);
	assert_int_equal(count(json_object_get(o, "model"), "draft", "bytes"), 3593787756);
	kv = json_array_get(json_object_get(o, "kv"), 0);
	assert_true(json_real_value(json_object_get(kv, "bytes_per_token")) == 3514.25);
	assert_true(json_real_value(json_object_get(kv, "bytes_at_full_context")) == 3684958208.0);
	assert_int_equal(json_integer_value(json_object_get(kv, "window_bytes")), 3214336);
	kv = json_array_get(json_object_get(o, "kv"), 2);
	assert_true(json_real_value(json_object_get(kv, "bytes_per_token")) == 6880);
	/* The experts' share of what moe reads: 6 x 43 experts of 13,369,344 bytes, and 43 shared ones. */
	read = json_object_get(json_object_get(json_object_get(o, "families"), "moe"), "read_per_token");
	assert_true(json_real_value(read) > 3449290752.0 + 43 * 25165824.0);
	assert_true(json_real_value(read) < 3449290752.0 + 43 * 25165824.0 + 43 * 2.2e6);
	json_decref(o);
	flash_remove(dir);
}

/* A start maps 160 GB and touches the hash tables (18.6 MB) and small vectors, no more. */
static void flash_opens_without_reading_weights(void **state)
{
	long file0, other0, file1, other1;
	struct model_weights *w = NULL;
	struct flash_total total;
	struct buf why = { 0 };

	(void)state;
	make(FLASH_APRIL, true, &total);
	resident(&file0, &other0);
	if (weights_open(dir, &w, &why))
		fail_msg("%s", buf_str(&why));
	resident(&file1, &other1);
	print_message("resident after opening: +%ld KiB of files, +%ld KiB else\n", file1 - file0,
		      other1 - other0);
	assert_in_range(file1 - file0, 18 * 1024, 64 * 1024);
	assert_int_equal(w->layer[42].expert[255].w3.fmt, DSV4_W_FP4);
	assert_int_equal(w->layer[3].compressor.wkv.rows, 512);
	assert_int_equal(w->layer[42].indexer.wq_b.rows, 8192);
	assert_non_null(w->mtp);
	weights_close(&w);
	buf_fini(&why);
	flash_remove(dir);
}

static void release_is_described(enum flash_kind kind, const char *format, const char *form,
				 struct flash_total *total)
{
	json_t *o, *model, *draft;

	make(kind, true, total);
	o = describe(2.0, NULL);
	faults(o, 0, 0, 0);
	assert_int_equal(json_integer_value(json_object_get(o, "tensors")), total->tensors);
	assert_int_equal(json_integer_value(json_object_get(o, "bytes")), total->bytes);
	model = json_object_get(o, "model");
	draft = json_object_get(model, "draft");
	assert_string_equal(json_string_value(json_object_get(model, "expert_format")), format);
	assert_string_equal(json_string_value(json_object_get(draft, "form")), form);
	json_decref(o);
}

static void other_releases_are_described(void **state)
{
	struct model_weights *w = NULL;
	struct flash_total total;
	struct buf why = { 0 };

	(void)state;
	release_is_described(FLASH_0731, "fp4", "dspark", &total);
	assert_int_equal(total.tensors, 72317);
	assert_int_equal(total.bytes, 166878536440);
	if (weights_open(dir, &w, &why))
		fail_msg("%s", buf_str(&why));
	assert_int_equal(w->config.n_mtp, 3);
	assert_null(w->mtp);
	weights_close(&w);
	flash_remove(dir);
	release_is_described(FLASH_BASE, "fp8", "mtp", &total);
	if (weights_open(dir, &w, &why))
		fail_msg("%s", buf_str(&why));
	assert_int_equal(w->layer[0].wo_a.sfmt, DSV4_S_F32);
	assert_int_equal(w->layer[0].expert[0].w1.fmt, DSV4_W_FP8);
	weights_close(&w);
	flash_remove(dir);
	release_is_described(FLASH_NVFP4, "nvfp4", "mtp", &total);
	if (weights_open(dir, &w, &why))
		fail_msg("%s", buf_str(&why));
	assert_int_equal(w->layer[5].expert[9].w2.fmt, DSV4_W_NVFP4);
	assert_int_equal(w->mtp->layer.expert[9].w2.fmt, DSV4_W_FP4);
	weights_close(&w);
	flash_remove(dir);
	buf_fini(&why);
}

/* Only the headers were fetched, and one file not even that: described, with what is missing. */
static void headers_alone_are_described(void **state)
{
	struct model_weights *w = NULL;
	struct flash_total total;
	struct buf why = { 0 };
	char path[128];
	json_t *o;

	(void)state;
	make(FLASH_APRIL, false, &total);
	snprintf(path, sizeof path, "%s/model-00046-of-00046.safetensors", dir);
	assert_int_equal(unlink(path), 0);
	snprintf(path, sizeof path, "%s/model-00045-of-00046.safetensors", dir);
	assert_int_equal(unlink(path), 0);
	o = describe(1.0, "incomplete: model-00001-of-00046.safetensors: ");
	faults(o, 5, 0, 0); /* head, norm, hc_head_*; the draft block is optional as a whole */
	assert_true(json_is_false(json_object_get(o, "complete")));
	assert_int_equal(json_array_size(json_object_get(o, "notes")), 46 + 1);
	json_decref(o);
	assert_int_equal(weights_open(dir, &w, &why), RC_MODEL);
	assert_non_null(strstr(buf_str(&why), "model-00001-of-00046.safetensors: expected "));
	buf_fini(&why);
	flash_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flash_is_described),
		cmocka_unit_test(flash_opens_without_reading_weights),
		cmocka_unit_test(other_releases_are_described),
		cmocka_unit_test(headers_alone_are_described),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
