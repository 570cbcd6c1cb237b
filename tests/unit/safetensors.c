/* SPDX-License-Identifier: MIT
 * safetensors.c (test) - headers right and wrong, what was written comes back, files too short or too long.
 * Threads: one. */
#include "engine/base/mapfile.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/safetensors_write.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int parse(const char *text, struct safetensors *st, struct buf *why)
{
	char *copy = malloc(strlen(text)); /* no NUL: the parser has only the length */

	assert_non_null(copy);
	memcpy(copy, text, strlen(text));
	return safetensors_parse("f", &copy, strlen(text), st, why);
}

#define T(dtype, shape, begin, end) \
	"{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"

static const char several[] = "{\"__metadata__\":{\"format\":\"pt\"},"
	" \"b\" : " T("BF16", "[2, 3]", "4", "16") ",\n"
	"\"a\":" T("F32", "[]", "0", "4") ",\"\\u0063\":" T("F4", "[4]", "16", "18") ","
	"\"e\":" T("I64", "[0,7]", "16", "16") "}   ";

static void good_headers_are_read(void **state)
{
	struct safetensors st;

	(void)state;
	assert_int_equal(parse("{}", &st, NULL), 0);
	assert_int_equal(st.n, 0);
	safetensors_fini(&st);
	assert_int_equal(parse(several, &st, NULL), 0);
	assert_int_equal(st.n, 4);
	assert_string_equal(st.tensor[0].name, "a");
	assert_int_equal(st.tensor[0].n_dim, 0);
	assert_string_equal(st.tensor[1].name, "b");
	assert_int_equal(st.tensor[1].dim[1], 3);
	assert_int_equal(st.tensor[1].dtype, ST_BF16);
	assert_int_equal(st.tensor[1].bytes, 12);
	assert_non_null(safetensors_find(&st, "c"));
	assert_null(safetensors_find(&st, "d"));
	assert_int_equal(st.size - st.tensor[0].offset, 18);
	safetensors_fini(&st);
}

static void bad_headers_are_refused(void **state)
{
	static const struct {
		const char *text, *says;
	} rows[] = {
		{ "", "expected an object" },
		{ "[]", "expected an object" },
		{ "{\"a\":1}", "tensor a: expected an object" },
		{ "{\"a\":" T("F99", "[1]", "0", "4") "}", "tensor a: unknown dtype" },
		{ "{\"a\":" T("F32", "[2]", "0", "4") "}",
		  "tensor a: expected 8 bytes for F32 [2], found 4" },
		{ "{\"a\":" T("F32", "[-1]", "0", "4") "}", "expected a count" },
		{ "{\"a\":" T("F32", "[1.0]", "0", "4") "}", "expected a count" },
		{ "{\"a\":" T("F4", "[3]", "0", "1") "}", "no whole number of bytes" },
		{ "{\"a\":" T("F32", "[4294967296,4294967296,4294967296]", "0", "4") "}",
		  "no whole number of bytes" },
		{ "{\"a\":" T("U8", "[1,1,1,1,1,1,1,1,1]", "0", "1") "}", "too many dimensions" },
		{ "{\"a\":" T("U8", "[18446744073709551616]", "0", "1") "}", "number too large" },
		{ "{\"a\":" T("U8", "[4]", "8", "4") "}", "end before begin" },
		{ "{\"a\":" T("U8", "[4]", "0", "4") ",\"a\":" T("U8", "[4]", "4", "8") "}",
		  "tensor a: named twice" },
		{ "{\"a\":" T("U8", "[4]", "0", "4") ",\"b\":" T("U8", "[4]", "2", "6") "}",
		  "it overlaps another tensor" },
		{ "{\"a\":" T("U8", "[4]", "0", "4") ",\"b\":" T("U8", "[4]", "5", "9") "}",
		  "no tensor covers the bytes" },
		{ "{\"a\":" T("U8", "[4]", "1", "5") "}", "expected data_offsets to begin at 0" },
		{ "{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", "data_offsets is missing" },
		{ "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", "a field twice" },
		{ "{\"a\":{\"dtype\":\"U8\",\"x\":1}}", "a field that the format does not have" },
		{ "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,2]}}",
		  "expected two numbers" },
		{ "{\"\":" T("U8", "[1]", "0", "1") "}", "printable" },
		{ "{\"a\\n\":" T("U8", "[1]", "0", "1") "}", "printable" },
		{ "{\"a\\u0000\":" T("U8", "[1]", "0", "1") "}", "header byte" },
		{ "{\"a\":" T("U8", "[1]", "0", "1"), "header byte" },
		{ "{\"a\":" T("U8", "[1]", "0", "1") ",}", "header byte" },
		{ "{\"a\":" T("U8", "[1]", "0", "1") "} x", "header byte" },
		{ "{\"a", "header byte" },
	};
	struct safetensors st = { 0 };
	struct buf why = { 0 };
	size_t i;
	int rc;

	(void)state;
	for (i = 0; i < mem_countof(rows); i++) {
		rc = parse(rows[i].text, &st, &why);
		if (rc != RC_MODEL || !strstr(buf_str(&why), rows[i].says))
			fail_msg("%s: %s, \"%s\"", rows[i].text, rc_name(rc), buf_str(&why));
	}
	assert_null(st.tensor);
	buf_fini(&why);
}

/* A header cut anywhere is refused, never read beyond. */
static void cut_headers_are_refused(void **state)
{
	static const char whole[] = "{\"__metadata__\":{\"k\":[1,{\"x\":null}]},"
		"\"a\\u0041\":" T("F32", "[1,2]", "0", "8") "}";
	char text[sizeof whole] = { 0 };
	struct safetensors st;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof whole - 1; i++) {
		assert_int_equal(parse(text, &st, NULL), RC_MODEL);
		text[i] = whole[i];
	}
	assert_int_equal(parse(whole, &st, NULL), 0);
	assert_string_equal(st.tensor[0].name, "aA");
	safetensors_fini(&st);
}

static void long_names_and_deep_metadata_are_refused(void **state)
{
	struct buf text = { 0 }, why = { 0 };
	struct safetensors st;
	int i;

	(void)state;
	buf_adds(&text, "{\"");
	for (i = 0; i < SAFETENSORS_MAX_NAME + 1; i++)
		buf_addc(&text, 'n');
	buf_adds(&text, "\":" T("U8", "[1]", "0", "1") "}");
	assert_int_equal(parse(text.data, &st, &why), RC_MODEL);
	assert_non_null(strstr(buf_str(&why), "too long"));
	buf_clear(&text);
	buf_adds(&text, "{\"__metadata__\":");
	for (i = 0; i < 100000; i++)
		buf_addc(&text, '[');
	assert_int_equal(parse(text.data, &st, &why), RC_MODEL);
	assert_non_null(strstr(buf_str(&why), "deep"));
	buf_fini(&text);
	buf_fini(&why);
}

static const float values[6] = { 1, -2, 3.5f, 0, 1e30f, -1e-30f };

static void write_file(const char *path)
{
	const int32_t ids[3] = { 7, 8, 9 };
	const struct safetensors_entry e[] = {
		{ "case.logits", ST_F32, 2, { 2, 3 }, values },
		{ "case.tokens", ST_I32, 1, { 3 }, ids },
		{ "case.none", ST_F32, 2, { 0, 3 }, NULL },
	};
	struct buf why = { 0 };

	if (safetensors_write(path, e, (int)mem_countof(e), &why))
		fail_msg("%s", buf_str(&why));
}

static void what_is_written_is_read(void **state)
{
	char path[] = "/tmp/dsv4-st-XXXXXX";
	const struct safetensors_entry bad = { "a\"b", ST_U8, 1, { 1 }, "x" };
	const struct safetensors_tensor *t;
	struct mapfile m;
	struct safetensors st;
	struct buf why = { 0 };
	uint64_t missing;

	(void)state;
	close(mkstemp(path));
	write_file(path);
	assert_int_equal(safetensors_open(path, "f", &st, NULL, &why), 0);
	assert_int_equal(mapfile_open(&m, path, &why), 0);
	assert_int_equal(m.size, st.size);
	t = safetensors_find(&st, "case.logits");
	assert_non_null(t);
	assert_int_equal(t->dim[0], 2);
	assert_memory_equal((const char *)m.data + t->offset, values, sizeof values);
	mapfile_close(&m);
	safetensors_fini(&st);

	assert_int_equal(truncate(path, (off_t)st.size), 0); /* fini cleared it: an empty file */
	assert_int_equal(safetensors_open(path, "f", &st, NULL, &why), RC_MODEL);
	assert_string_equal(buf_str(&why), "f: not a safetensors file: 0 bytes");
	write_file(path);
	assert_int_equal(safetensors_open(path, "f", &st, NULL, &why), 0);
	assert_int_equal(truncate(path, (off_t)st.size - 1), 0);
	safetensors_fini(&st);
	assert_int_equal(safetensors_open(path, "f", &st, NULL, &why), RC_MODEL);
	assert_non_null(strstr(buf_str(&why), "bytes by its header"));
	assert_int_equal(safetensors_open(path, "f", &st, &missing, &why), 0);
	assert_int_equal(missing, 1);
	assert_int_equal(truncate(path, (off_t)st.size + 1), 0);
	safetensors_fini(&st);
	assert_int_equal(safetensors_open(path, "f", &st, &missing, &why), RC_MODEL);
	assert_int_equal(safetensors_write(path, &bad, 1, &why), RC_INVALID);
	unlink(path);
	buf_fini(&why);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_headers_are_read),
		cmocka_unit_test(bad_headers_are_refused),
		cmocka_unit_test(cut_headers_are_refused),
		cmocka_unit_test(long_names_and_deep_metadata_are_refused),
		cmocka_unit_test(what_is_written_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
