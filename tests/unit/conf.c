/* SPDX-License-Identifier: MIT
 * conf.c - the configuration file: what is accepted, and errors with their lines.
 * Threads: one. Locks: none. */
#include "daemon/conf_file.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void defaults_pass_their_own_checks(void **state)
{
	struct conf c;
	struct buf why = { 0 };

	(void)state;
	conf_init(&c);
	for (int i = 0; i < CONF_COUNT; i++)
		if (*conf_table[i].def && conf_set(&c, (enum conf_key)i, conf_table[i].def, &why))
			fail_msg("%s", buf_str(&why));
	conf_fini(&c);
}

static void all_kinds(void **state)
{
	static const char text[] =
		"# a comment\n"
		"; another\n"
		"\n"
		"[daemon]\n"
		"  model =  /a path/with = sign  \r\n"
		"threads=3\n"
		"listen = [::1]:80\n"
		"ring_bytes = 2M\n"
		"log_level = debug\n"
		"[numerics]\n"
		"index_key = bf16\n"
		"[control]\n"
		"mode = 0666\n"
		"[probe.longgen]\n"
		"maxrun_fail = 20\n"
		"quick = 0\n"
		"every = 90m\n"
		"[probes]\n"
		"max_load = 0.25\n"
		"[daemon]\n"
		"state = /s\n"
		"[cache]\n"
		"memory = 3K\n"
		"disk = /d";
	struct conf c;
	struct buf why = { 0 };
	int n = 0;

	(void)state;
	conf_init(&c);
	if (conf_file_parse(&c, "f", text, sizeof text - 1, &why))
		fail_msg("%s", buf_str(&why));
	assert_string_equal(conf_text(&c, CONF_model), "/a path/with = sign");
	assert_int_equal(conf_int(&c, CONF_threads), 3);
	assert_string_equal(conf_text(&c, CONF_listen), "[::1]:80");
	assert_int_equal(conf_int(&c, CONF_ring_bytes), 2 << 20);
	assert_int_equal(conf_int(&c, CONF_mode), 0666);
	assert_string_equal(conf_text(&c, CONF_state), "/s");
	assert_int_equal(conf_int(&c, CONF_memory), 3 << 10);
	assert_string_equal(conf_text(&c, CONF_disk), "/d");
	assert_int_equal(conf_set(&c, CONF_memory, "auto", &why), 0);
	assert_int_equal(conf_int(&c, CONF_memory), CONF_AUTO);
	assert_true(c.given[CONF_state]);
	assert_false(c.given[CONF_control]);
	for (int i = 0; i < CONF_MAX_NUMERICS; i++)
		n += c.numeric[i] != NULL;
	assert_int_equal(n, 1);
	assert_int_equal(c.n_option, 3);
	assert_int_equal(conf_every(&c, "longgen"), 90 * 60 * 1000);
	assert_int_equal(conf_every(&c, "recall"), 0);
	assert_true(conf_part(&c, CONF_max_load) == 0.25);
	assert_int_equal(conf_int(&c, CONF_max_waiting), 0);
	assert_string_equal(c.option[0].value, "20");
	conf_fini(&c);
}

static const struct {
	const char *text, *why;
} refused[] = {
	{ "model = x\n", "f:1: 'model' comes before the first [section]" },
	{ "[daemon]\n\nmodle = x\n", "f:3: unknown key 'modle' in [daemon]" },
	{ "[demon]\n", "f:1: unknown section [demon]" },
	{ "[daemon\n", "f:1: a section ends" },
	{ "[", "f:1: a section ends" },
	{ "[]", "f:1: unknown section" },
	{ "[daemon]\nthreads\n", "f:2: 'threads' is not KEY = VALUE" },
	{ "[daemon]\nthreads = 3\nthreads = 3\n", "f:3: threads: given twice" },
	{ "[daemon]\nthreads = -1\n", "f:2: threads: '-1' is not within 0 to 1024" },
	{ "[daemon]\nthreads = 1025\n", "within" },
	{ "[daemon]\nthreads = 3x\n", "within" },
	{ "[daemon]\nthreads = 3K\n", "within" },
	{ "[daemon]\nthreads = 99999999999999999999\n", "within" },
	{ "[daemon]\nthreads =\n", "within" },
	{ "[daemon]\nring_bytes = 9999999999G\n", "within" },
	{ "[daemon]\nmodel =\n", "f:2: model: must not be empty" },
	{ "[daemon]\nlog_level = loud\n", "none of err, warn" },
	{ "[daemon]\nlisten = 8420\n", "not ADDRESS:PORT" },
	{ "[daemon]\nlisten = :8420\n", "no address" },
	{ "[daemon]\nlisten = host:8420\n", "no IP address" },
	{ "[daemon]\nlisten = 127.0.0.1:70000\n", "no port" },
	{ "[control]\nmode = 0888\n", "within 0 to 0777" },
	{ "[cache]\nmemory = some\n", "f:2: memory: 'some' is not within 0 to" },
	{ "[cache]\nmemory = 1T\n", "within" },
	{ "[cache]\ndisk = maybe\n", "f:2: disk: 'maybe' is neither yes, no nor an absolute path" },
	{ "[numerics]\nindex_key = fp5\n", "f:2: " },
	{ "[numerics]\nnothing = 1\n", "f:2: " },
	{ "[numerics]\nindex_topk = 4\nindex_topk = 4\n", "f:3: index_topk: given twice" },
	{ "[probe.none]\n", "unknown section" },
	{ "[probe.longgen]\nsmell = 1\n", "f:2: probe longgen has no option" },
	{ "[probe.longgen]\nmaxrun_warn = x\n", "f:2: option maxrun_warn" },
	{ "[probe.longgen]\nevery = 30\n", "f:2: every: '30' is no number with s, m, h or d, up to 365d" },
	{ "[probe.longgen]\nevery = 1mm\n", "f:2: every: '1mm'" },
	{ "[probe.longgen]\nevery = -1s\n", "f:2: every: '-1s'" },
	{ "[probe.longgen]\nevery = 366d\n", "f:2: every: '366d'" },
	{ "[probe.longgen]\nevery = 9223372036854775807d\n", "f:2: every" },
	{ "[probe.longgen]\nevery = 1s\nevery = 2s\n", "f:3: every: given twice" },
	{ "[probes]\nmax_load = 0\n", "f:2: max_load: '0' is not above 0 and at most 1" },
	{ "[probes]\nmax_load = 1.01\n", "f:2: max_load" },
	{ "[probes]\nmax_load = 0.1x\n", "f:2: max_load" },
	{ "[probes]\nmax_load = nan\n", "f:2: max_load" },
	{ "[probes]\nevery = 1s\n", "f:2: unknown key 'every'" },
};

static void errors_name_line_and_reason(void **state)
{
	(void)state;
	for (size_t i = 0; i < mem_countof(refused); i++) {
		struct conf c;
		struct buf why = { 0 };
		int r;

		conf_init(&c);
		r = conf_file_parse(&c, "f", refused[i].text, strlen(refused[i].text), &why);
		if (r != RC_CONFIG || !strstr(buf_str(&why), refused[i].why))
			fail_msg("%s: %s \"%s\"", refused[i].text, rc_name(r), buf_str(&why));
		conf_fini(&c);
		buf_fini(&why);
	}
}

static void nul_bytes_are_refused(void **state)
{
	struct conf c;
	struct buf why = { 0 };

	(void)state;
	conf_init(&c);
	assert_int_equal(conf_file_parse(&c, "f", "[daemon]\nmodel = a\0b\n", 20, &why), RC_CONFIG);
	assert_string_equal(buf_str(&why), "f:2: a NUL byte");
	conf_fini(&c);
	buf_fini(&why);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_pass_their_own_checks),
		cmocka_unit_test(all_kinds),
		cmocka_unit_test(errors_name_line_and_reason),
		cmocka_unit_test(nul_bytes_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
