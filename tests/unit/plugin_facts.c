/* SPDX-License-Identifier: MIT
 * plugin_facts.c - tests of a plugin's facts: what DSV4_PLUGIN writes is read, what is malformed is not.
 * Threads: one. Locks: none. */
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/plugin/plugin_facts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- one plugin, as the macro makes it ---- */

static int norm(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_rms_norm *a)
{
	(void)x;
	(void)host;
	(void)a;
	return 0;
}

static int matmul(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_linear *a)
{
	(void)x;
	(void)host;
	(void)a;
	return 0;
}

static int experts(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_moe_experts *a)
{
	(void)x;
	(void)host;
	(void)a;
	return 0;
}

#define OPS(OP) \
	OP(rms_norm, BOTH, ANY, EXACT, "fp32", norm) \
	OP(linear, PREFILL, QUANT, ORDER, "fp32-split", matmul) \
	OP(linear, DECODE, FLOAT, LOSSY, "bf16", matmul) \
	OP(moe_experts, BOTH, FP4, ORDER, "fp32", experts, PACKED)
DSV4_PLUGIN("facts-test", "2.13.1", "", "", OPS, NULL, NULL, NULL)

static struct plugin_facts read_own(void)
{
	struct plugin_facts f = { 0 };
	struct buf why = { 0 };

	if (plugin_facts_read(&f, dsv4_facts, sizeof dsv4_facts, &why))
		fail_msg("%s", buf_str(&why));
	return f;
}

static void test_the_macro_s_facts_are_read(void **state)
{
	struct plugin_facts f = read_own();

	(void)state;
	assert_int_equal(f.abi_major, DSV4_ABI_MAJOR);
	assert_int_equal(f.abi_minor, DSV4_ABI_MINOR);
	assert_string_equal(f.signature, DSV4_BUILD_SIGNATURE);
	assert_string_equal(f.name, "facts-test");
	assert_string_equal(f.version, "2.13.1");
	assert_string_equal(f.cpu, "");
	assert_int_equal(f.n_op, 4);
	assert_int_equal(f.op[0].op, DSV4_OP_rms_norm);
	assert_int_equal(f.op[0].phases, DSV4_PHASES_BOTH);
	assert_int_equal(f.op[0].wfmts, ~0u);
	assert_int_equal(f.op[1].op, DSV4_OP_linear);
	assert_int_equal(f.op[1].wfmts, DSV4_WEIGHTS_FP8 | DSV4_WEIGHTS_FP4 | DSV4_WEIGHTS_NVFP4);
	assert_int_equal(f.op[1].numerics, DSV4_ORDER);
	assert_string_equal(f.op[2].tag, "bf16");
	assert_int_equal(f.op[2].phases, 1 << DSV4_DECODE);
	assert_int_equal(f.op[2].reads, DSV4_READS_NATIVE);
	assert_int_equal(f.op[3].reads, DSV4_READS_PACKED);
	assert_int_equal(plugin_facts_fit(&f, device_cpu(), NULL), 0);
	assert_int_equal(plugin_facts_match(&f, &dsv4_plugin_descriptor, NULL), 0);
}

/* On several devices experts without matrices are another's: before 1.3 no plugin knew. */
static void test_experts_of_an_older_plugin_are_for_one_device(void **state)
{
	struct plugin_facts f = read_own();
	struct ranks *one = ranks_cpu(1), *two = ranks_cpu(2);
	struct buf why = { 0 };

	(void)state;
	f.op[3].op = DSV4_OP_moe_experts;
	assert_int_equal(plugin_facts_fit_ranks(&f, two, &why), 0);
	f.abi_minor = 2;
	assert_int_equal(plugin_facts_fit_ranks(&f, one, &why), 0);
	assert_int_equal(plugin_facts_fit_ranks(&f, two, &why), RC_PLUGIN);
	assert_string_equal(buf_str(&why), "one-gpu-only: moe_experts of ABI 1.2; on 2 GPUs it takes 1.3");
	f.op[3].op = DSV4_OP_attn;
	assert_int_equal(plugin_facts_fit_ranks(&f, two, &why), 0);
	ranks_close(&one);
	ranks_close(&two);
	buf_fini(&why);
}

/* ---- a descriptor that says something else ---- */

static void lies(const struct dsv4_plugin *p, const char *what)
{
	struct plugin_facts f = read_own();
	struct buf why = { 0 };

	assert_int_equal(plugin_facts_match(&f, p, &why), RC_PLUGIN);
	assert_int_equal(plugin_refusal_find(buf_str(&why)), PLUGIN_REFUSED_facts_lie);
	if (!strstr(buf_str(&why), what))
		fail_msg("%s, but nothing of %s", buf_str(&why), what);
	buf_fini(&why);
}

static void test_every_field_of_the_descriptor_counts(void **state)
{
	struct dsv4_plugin p;

	(void)state;
#define LIE(field, value) \
	p = dsv4_plugin_descriptor; \
	p.field = value; \
	lies(&p, #field)
	LIE(magic, 1);
	LIE(size, sizeof p - 8);
	p = dsv4_plugin_descriptor;
	p.abi_major++;
	lies(&p, "abi");
	p = dsv4_plugin_descriptor;
	p.abi_minor++;
	lies(&p, "abi");
	LIE(signature, "other");
	LIE(name, "other");
	LIE(name, NULL);
	LIE(version, "2.13");
	LIE(cpu, "avx2");
	LIE(gpu, "sm_90");
	LIE(gpu, NULL);
#undef LIE
	p = dsv4_plugin_descriptor;
	p.n_op--;
	lies(&p, "number of ops");
	p.n_op += 2;
	lies(&p, "number of ops");
	p = dsv4_plugin_descriptor;
	p.op = NULL;
	lies(&p, "number of ops");
}

static void test_every_field_of_every_row_counts(void **state)
{
	struct dsv4_op_entry op[4];
	struct dsv4_plugin p = dsv4_plugin_descriptor;

	(void)state;
	p.op = op;
	for (int row = 0; row < 4; row++) {
#define LIE(field, value, what) \
		memcpy(op, dsv4_entries, sizeof op); \
		op[row].field = value; \
		lies(&p, what)
		LIE(size, 0, "size");
		LIE(op, DSV4_OP_attn, "op");
		LIE(phases, 0, "phases");
		LIE(reads, 2, "reads");
		LIE(wfmts, 1u << 30, "weights");
		LIE(numerics, 9, "numerics");
		LIE(tag, "fp64", "tag");
		LIE(tag, NULL, "tag");
		LIE(fn, NULL, "function");
#undef LIE
	}
}

/* ---- can it run here ---- */

static void unfit(const struct plugin_facts *f, enum plugin_refusal r)
{
	struct buf why = { 0 };

	assert_int_equal(plugin_facts_fit(f, device_cpu(), &why), RC_PLUGIN);
	assert_int_equal(plugin_refusal_find(buf_str(&why)), r);
	buf_fini(&why);
}

static void test_versions_that_do_not_fit(void **state)
{
	struct plugin_facts f = read_own();

	(void)state;
	f.abi_major = DSV4_ABI_MAJOR + 1;
	unfit(&f, PLUGIN_REFUSED_major);
	f.abi_major = DSV4_ABI_MAJOR - 1;
	unfit(&f, PLUGIN_REFUSED_major);
	f.abi_major = DSV4_ABI_MAJOR;
	f.abi_minor = DSV4_ABI_MINOR + 1;
	unfit(&f, PLUGIN_REFUSED_minor);
	f.abi_minor = DSV4_ABI_MINOR - 1;
	assert_int_equal(plugin_facts_fit(&f, device_cpu(), NULL), 0);
	f.abi_minor = DSV4_ABI_MINOR;
	strcpy(f.signature, "dsv4-abi-1 ilp32 be");
	unfit(&f, PLUGIN_REFUSED_signature);
}

static void test_features_that_are_missing(void **state)
{
	struct plugin_facts f = read_own();
	struct buf why = { 0 };

	(void)state;
#ifdef __x86_64__
	strcpy(f.cpu, "fpu sse2");
	assert_int_equal(plugin_facts_fit(&f, device_cpu(), NULL), 0);
	strcpy(f.cpu, "fpu sse2 warp9 fpu");
	assert_int_equal(plugin_facts_fit(&f, device_cpu(), &why), RC_PLUGIN);
	assert_string_equal(buf_str(&why), "cpu-lacks: needs warp9");
	strcpy(f.cpu, "fp"); /* part of a word */
	unfit(&f, PLUGIN_REFUSED_cpu);
	strcpy(f.cpu, "pu");
	unfit(&f, PLUGIN_REFUSED_cpu);
#else
	strcpy(f.cpu, "warp9");
	unfit(&f, PLUGIN_REFUSED_cpu);
#endif
	strcpy(f.cpu, "");
	strcpy(f.gpu, "sm_90");
	unfit(&f, PLUGIN_REFUSED_gpu);
	buf_fini(&why);
}

/* ---- hostile text ---- */

#define PLUGIN_(abi, signature, name, version, cpu) \
	"{\"abi\":\"" abi "\",\"signature\":\"" signature "\",\"name\":\"" name "\",\"version\":\"" version \
	"\",\"cpu\":\"" cpu "\",\"gpu\":\"\"}"
#define P PLUGIN_("1.0", "s", "n", "1", "")
#define OP_(op, phases, weights, numerics, tag) \
	"{\"op\":\"" op "\",\"phases\":\"" phases "\",\"weights\":\"" weights "\",\"numerics\":\"" numerics \
	"\",\"tag\":\"" tag "\"}"
#define READS_(reads) \
	"{\"op\":\"attn\",\"phases\":\"BOTH\",\"weights\":\"ANY\",\"numerics\":\"EXACT\",\"tag\":\"t\"," \
	"\"reads\":\"" reads "\"}"
#define O OP_("attn", "BOTH", "ANY", "EXACT", "t")
#define M(text) DSV4_FACTS_BEGIN text DSV4_FACTS_END
#define T32 "abcdefghijklmnopqrstuvwxyz012345"

/* The text, and a word of the complaint; NULL: it is accepted. */
static const struct {
	const char *text, *complaint;
} texts[] = {
	{ M("[" P "," O "]"), NULL },
	{ M(" [ " P " , " O " ] "), NULL },
	{ "before" M("[" P "," O "]") "behind", NULL },
	{ "", "markers" },
	{ "text", "markers" },
	{ DSV4_FACTS_BEGIN "[" P "," O "]", "markers" },
	{ "[" P "," O "]" DSV4_FACTS_END, "markers" },
	{ DSV4_FACTS_END "[" P "," O "]" DSV4_FACTS_BEGIN, "markers" },
	{ M("[" P "," O "]") M("[" P "," O "]"), "markers" },
	{ DSV4_FACTS_BEGIN M("[" P "," O "]"), "markers" },
	{ M("[" P "," O "]") DSV4_FACTS_BEGIN, "markers" },
	{ M(""), "JSON" },
	{ M("[" P "," O), "JSON" },
	{ M("[" P "," O "]]"), "JSON" },
	{ M("[" P "," O ",]"), "JSON" },
	{ M("null"), "JSON" },
	{ M("{}"), "form" },
	{ M("[]"), "form" },
	{ M("[" P "]"), "form" },
	{ M("[" O "," P "]"), "element 0" },
	{ M("[[]," O "]"), "element 0" },
	{ M("[" P ",[]]"), "an op" },
	{ M("[" P "," P "]"), "op" },
	{ M("[" P "," O ",7]"), "an op" },
	{ M("[{\"abi\":\"1.0\"}," O "]"), "element 0" },
	{ M("[" PLUGIN_("1", "s", "n", "1", "") "," O "]"), "abi" },
	{ M("[" PLUGIN_("1.0.0", "s", "n", "1", "") "," O "]"), "abi" },
	{ M("[" PLUGIN_("+1.0", "s", "n", "1", "") "," O "]"), "abi" },
	{ M("[" PLUGIN_("1.-1", "s", "n", "1", "") "," O "]"), "abi" },
	{ M("[" PLUGIN_("99999.0", "s", "n", "1", "") "," O "]"), "abi" },
	{ M("[" PLUGIN_("1.4294967296", "s", "n", "1", "") "," O "]"), "abi" },
	{ M("[" PLUGIN_("1.0", "", "n", "1", "") "," O "]"), "signature" },
	{ M("[" PLUGIN_("1.0", T32 T32, "n", "1", "") "," O "]"), "signature" },
	{ M("[" PLUGIN_("1.0", "s\\n", "n", "1", "") "," O "]"), "signature" },
	{ M("[" PLUGIN_("1.0", "s", "", "1", "") "," O "]"), "name" },
	{ M("[" PLUGIN_("1.0", "s", T32, "1", "") "," O "]"), "name" },
	{ M("[" PLUGIN_("1.0", "s", "../n", "1", "") "," O "]"), "name" },
	{ M("[" PLUGIN_("1.0", "s", "a.so", "1", "") "," O "]"), "name" },
	{ M("[" PLUGIN_("1.0", "s", "N", "1", "") "," O "]"), "name" },
	{ M("[" PLUGIN_("1.0", "s", "n\\u0000x", "1", "") "," O "]"), "JSON" },
	{ M("[" PLUGIN_("1.0", "s", "\xff", "1", "") "," O "]"), "JSON" },
	{ M("[" PLUGIN_("1.0", "s", "-n", "1", "") "," O "]"), "name" },
	/* Taken for something else where a plugin is named. */
	{ M("[" PLUGIN_("1.0", "s", "ref", "1", "") "," O "]"), "name" },
	{ M("[" PLUGIN_("1.0", "s", "last-good", "1", "") "," O "]"), "name" },
	{ M("[" PLUGIN_("1.0", "s", "17", "1", "") "," O "]"), "name" },
	{ M("[" PLUGIN_("1.0", "s", "n", "", "") "," O "]"), "version" },
	{ M("[" PLUGIN_("1.0", "s", "n", "1a", "") "," O "]"), "version" },
	{ M("[" PLUGIN_("1.0", "s", "n", "1", "avx2  fma") "," O "]"), "cpu" },
	{ M("[" PLUGIN_("1.0", "s", "n", "1", " avx2") "," O "]"), "cpu" },
	{ M("[" PLUGIN_("1.0", "s", "n", "1", "AVX2") "," O "]"), "cpu" },
	{ M("[" PLUGIN_("1.0", "s", "n", "1", T32 T32 T32 T32) "," O "]"), "cpu" },
	{ M("[" PLUGIN_("1.0", "s", "n", "1", "avx2 fma") "," O "]"), NULL },
	{ M("[{\"abi\":\"1.0\",\"signature\":\"s\",\"name\":\"n\",\"version\":1,\"cpu\":\"\",\"gpu\":\"\"}," O "]"),
	  "version" },
	{ M("[{\"abi\":\"1.0\",\"signature\":\"s\",\"name\":\"n\",\"name\":\"m\",\"version\":\"1\",\"cpu\":\"\","
	    "\"gpu\":\"\"}," O "]"), "JSON" },
	{ M("[" P "," OP_("magic", "BOTH", "ANY", "EXACT", "t") "]"), "op" },
	{ M("[" P "," OP_("attn", "both", "ANY", "EXACT", "t") "]"), "phases" },
	{ M("[" P "," OP_("attn", "BOTH", "", "EXACT", "t") "]"), "weights" },
	{ M("[" P "," OP_("attn", "BOTH", "ANY", "SLOPPY", "t") "]"), "numerics" },
	{ M("[" P "," OP_("attn", "BOTH", "ANY", "EXACT", "") "]"), "tag" },
	{ M("[" P "," OP_("attn", "BOTH", "ANY", "EXACT", "a b") "]"), "tag" },
	{ M("[" P "," OP_("attn", "BOTH", "ANY", "EXACT", T32) "]"), "tag" },
	{ M("[" P "," OP_("attn", "BOTH", "ANY", "EXACT", "\\u00e9") "]"), "tag" },
	{ M("[" P "," O "," OP_("attn", "BOTH", "ANY", "EXACT", "t\\\\") "]"), "tag" },
	{ M("[" P ",{\"op\":\"attn\",\"phases\":\"BOTH\",\"weights\":\"ANY\",\"numerics\":\"EXACT\"}]"), "an op" },
	{ M("[" P "," READS_("NATIVE") "," O "," READS_("PACKED") "]"), NULL },
	{ M("[" P "," READS_("packed") "]"), "reads" },
};

static void test_hostile_texts(void **state)
{
	struct plugin_facts f;

	(void)state;
	for (size_t i = 0; i < mem_countof(texts); i++) {
		struct buf why = { 0 };
		int rc = plugin_facts_read(&f, texts[i].text, strlen(texts[i].text), &why);

		if (rc != (texts[i].complaint ? RC_PLUGIN : 0))
			fail_msg("row %zu: %d %s: %s", i, rc, buf_str(&why), texts[i].text);
		if (rc && (plugin_refusal_find(buf_str(&why)) != PLUGIN_REFUSED_no_facts ||
			   !strstr(buf_str(&why) + strlen("no-facts: "), texts[i].complaint)))
			fail_msg("row %zu: %s, but nothing of %s", i, buf_str(&why), texts[i].complaint);
		buf_fini(&why);
	}
}

static int read_ops(int n_op, struct plugin_facts *f, struct buf *why)
{
	struct buf text = { 0 };
	int rc;

	buf_adds(&text, DSV4_FACTS_BEGIN "[" P);
	for (int i = 0; i < n_op; i++)
		buf_adds(&text, "," O);
	buf_adds(&text, "]" DSV4_FACTS_END);
	rc = plugin_facts_read(f, text.data, text.len, why);
	buf_fini(&text);
	return rc;
}

static void test_limits(void **state)
{
	struct buf text = { 0 }, why = { 0 };
	struct plugin_facts f;

	(void)state;
	assert_int_equal(read_ops(DSV4_PLUGIN_MAX_OPS, &f, NULL), 0);
	assert_int_equal(f.n_op, DSV4_PLUGIN_MAX_OPS);
	assert_int_equal(f.op[DSV4_PLUGIN_MAX_OPS - 1].op, DSV4_OP_attn);
	assert_int_equal(read_ops(DSV4_PLUGIN_MAX_OPS + 1, &f, &why), RC_PLUGIN);
	assert_string_equal(buf_str(&why), "no-facts: form: too many ops");
	buf_adds(&text, DSV4_FACTS_BEGIN);
	for (int i = 0; i <= PLUGIN_FACTS_MAX; i++)
		buf_addc(&text, '[');
	buf_adds(&text, DSV4_FACTS_END);
	assert_int_equal(plugin_facts_read(&f, text.data, text.len, &why), RC_PLUGIN);
	assert_non_null(strstr(buf_str(&why), "64 KiB"));
	/* Deep, but short enough to be looked at. */
	buf_drop(&text, 1000);
	memcpy(text.data, DSV4_FACTS_BEGIN, strlen(DSV4_FACTS_BEGIN));
	assert_int_equal(plugin_facts_read(&f, text.data, text.len, &why), RC_PLUGIN);
	assert_non_null(strstr(buf_str(&why), "JSON"));
	buf_fini(&text);
	buf_fini(&why);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_experts_of_an_older_plugin_are_for_one_device),
		cmocka_unit_test(test_the_macro_s_facts_are_read),
		cmocka_unit_test(test_every_field_of_the_descriptor_counts),
		cmocka_unit_test(test_every_field_of_every_row_counts),
		cmocka_unit_test(test_versions_that_do_not_fit),
		cmocka_unit_test(test_features_that_are_missing),
		cmocka_unit_test(test_hostile_texts),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests_name("plugin_facts", tests, NULL, NULL);
}
