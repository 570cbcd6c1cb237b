/* SPDX-License-Identifier: MIT
 * varlink.c - the wire format and the verb table: what is accepted, what is refused, and by which name.
 * Threads: one. Locks: none. */
#include "ctl/varlink.h"
#include "ctl/iface.h"
#include "ctl/verb.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- frames ---- */

static void frame_by_frame(void **state)
{
	struct buf in = { 0 };
	size_t scanned = 0, len = 99;

	(void)state;
	assert_int_equal(varlink_frame(&in, 10, &scanned, &len), -EAGAIN);
	buf_add(&in, "ab", 2);
	assert_int_equal(varlink_frame(&in, 10, &scanned, &len), -EAGAIN);
	assert_int_equal(scanned, 2);
	buf_add(&in, "c\0\0xyz", 6);
	assert_int_equal(varlink_frame(&in, 10, &scanned, &len), 0);
	assert_int_equal(len, 3);
	buf_drop(&in, len + 1);
	assert_int_equal(varlink_frame(&in, 10, &scanned, &len), 0);
	assert_int_equal(len, 0);
	buf_drop(&in, 1);
	assert_int_equal(varlink_frame(&in, 10, &scanned, &len), -EAGAIN);
	buf_fini(&in);
}

static void frame_limit(void **state)
{
	struct buf in = { 0 };
	size_t scanned = 0, len;

	(void)state;
	buf_add(&in, "0123456789", 10);
	assert_int_equal(varlink_frame(&in, 10, &scanned, &len), -EAGAIN);
	buf_add(&in, "", 1);
	assert_int_equal(varlink_frame(&in, 10, &scanned, &len), 0);
	assert_int_equal(len, 10);
	buf_clear(&in);
	scanned = 0;
	buf_add(&in, "0123456789a", 11);
	assert_int_equal(varlink_frame(&in, 10, &scanned, &len), RC_TOO_LARGE);
	buf_fini(&in);
}

/* ---- calls ---- */

static const struct {
	const char *text, *why; /* why NULL: accepted */
	int rc;
} call_cases[] = {
	{ "{\"method\":\"a.B\"}", NULL, 0 },
	{ "{\"method\":\"a.B\",\"parameters\":{},\"more\":true}", NULL, 0 },
	{ "{\"method\":\"a.B\",\"parameters\":null,\"oneway\":null}", NULL, 0 },
	{ "{\"method\":\"a.B\",\"parameters\":{\"x\":\"[[[[\\\"[[[\"}}", NULL, 0 },
	{ "", "byte 0", RC_JSON },
	{ "[]", "must be an object", RC_JSON },
	{ "{\"method\":\"a.B\"", "byte", RC_JSON },
	{ "{\"method\":\"a.B\"} x", "byte", RC_JSON },
	{ "{\"method\":\"a.B\",\"method\":\"a.C\"}", "duplicate", RC_JSON },
	{ "{\"method\":\"a.B\",\"parameters\":{\"x\":1,\"x\":2}}", "duplicate", RC_JSON },
	{ "{\"method\":\"a.B\",\"parameters\":{\"x\":\"\\u0000\"}}", "byte", RC_JSON },
	{ "{\"method\":\"a.B\",\"parameters\":{\"x\":\"\xff\"}}", "byte", RC_JSON },
	{ "{}", "method", RC_INVALID },
	{ "{\"method\":3}", "method", RC_INVALID },
	{ "{\"method\":\"nodot\"}", "INTERFACE.METHOD", RC_INVALID },
	{ "{\"method\":\".B\"}", "INTERFACE.METHOD", RC_INVALID },
	{ "{\"method\":\"a.\"}", "INTERFACE.METHOD", RC_INVALID },
	{ "{\"method\":\"a.B\",\"parameters\":[]}", "parameters", RC_INVALID },
	{ "{\"method\":\"a.B\",\"more\":1}", "more", RC_INVALID },
	{ "{\"method\":\"a.B\",\"more\":true,\"oneway\":true}", "more", RC_INVALID },
	{ "{\"method\":\"a.B\",\"upgrade\":true}", "upgrade", RC_INVALID },
	{ "{\"method\":\"a.B\",\"extra\":1}", "extra", RC_INVALID },
};

static void calls(void **state)
{
	(void)state;
	for (size_t i = 0; i < mem_countof(call_cases); i++) {
		struct varlink_call c = { 0 };
		struct buf why = { 0 };
		int r = varlink_parse_call(call_cases[i].text, strlen(call_cases[i].text), &c, &why);

		if (r != call_cases[i].rc || (call_cases[i].why && !strstr(buf_str(&why), call_cases[i].why)))
			fail_msg("%s: %s, \"%s\"", call_cases[i].text, rc_name(r), buf_str(&why));
		varlink_call_fini(&c);
		buf_fini(&why);
	}
}

static void call_depth(void **state)
{
	(void)state;
	for (int depth = VARLINK_MAX_DEPTH - 1; depth <= VARLINK_MAX_DEPTH + 1; depth++) {
		struct varlink_call c = { 0 };
		struct buf b = { 0 };
		int r;

		buf_adds(&b, "{\"method\":\"a.B\",\"parameters\":{\"x\":");
		for (int i = 2; i < depth; i++)
			buf_addc(&b, '[');
		for (int i = 2; i < depth; i++)
			buf_addc(&b, ']');
		buf_adds(&b, "}}");
		r = varlink_parse_call(b.data, b.len, &c, NULL);
		assert_int_equal(r, depth > VARLINK_MAX_DEPTH ? RC_JSON : 0);
		varlink_call_fini(&c);
		buf_fini(&b);
	}
}

static void replies_round_trip(void **state)
{
	struct varlink_reply r;
	struct buf out = { 0 };
	json_t *p = varlink_text("message", "no \xff such \xc3\xa9 thing \xed\xa0\x80");

	(void)state;
	varlink_put_reply(&out, "a.b.Error", p, false);
	assert_int_equal(varlink_parse_reply(out.data, out.len - 1, &r, NULL), 0);
	assert_string_equal(r.error, "a.b.Error");
	assert_false(r.continues);
	assert_string_equal(json_string_value(json_object_get(r.params, "message")),
			    "no \xef\xbf\xbd such \xc3\xa9 thing \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
	varlink_reply_fini(&r);
	buf_clear(&out);
	varlink_put_reply(&out, NULL, p, true);
	assert_int_equal(varlink_parse_reply(out.data, out.len - 1, &r, NULL), 0);
	assert_null(r.error);
	assert_true(r.continues);
	varlink_reply_fini(&r);
	json_decref(p);
	buf_fini(&out);
}

/* ---- verbs ---- */

/* Every row's argument column parses, its words are unique, and its interface is described. */
static void verbs_are_sound(void **state)
{
	struct verb_arg a[VERB_MAX_ARGS];

	(void)state;
	for (int i = 0; i < verb_count; i++) {
		const struct verb *v = &verb_table[i];
		const char *dot = strrchr(v->method, '.');
		char *name = mem_strndup(v->method, (size_t)(dot - v->method));
		struct buf text = { 0 };

		verb_args(v, a);
		assert_ptr_equal(verb_find_method(v->method), v);
		assert_non_null(iface_find(name));
		buf_printf(&text, "method %s(", dot + 1);
		assert_non_null(strstr(iface_find(name)->text, buf_str(&text)));
		buf_fini(&text);
		free(name);
	}
}

static const struct {
	const char *line, *params, *why;
} verb_cases[] = {
	{ "status", "{}", NULL },
	{ "status x", NULL, "unexpected 'x'" },
	{ "wait ready", "{\"condition\":\"ready\"}", NULL },
	{ "wait ready --timeout 5", "{\"condition\":\"ready\",\"timeout\":5}", NULL },
	{ "wait --timeout=5 idle", "{\"condition\":\"idle\",\"timeout\":5}", NULL },
	{ "wait", NULL, "condition is missing" },
	{ "wait never", NULL, "ready|idle|drained" },
	{ "wait ready --timeout", NULL, "needs a value" },
	{ "wait ready --timeout x", NULL, "is not a whole number" },
	{ "wait ready --timeout 1 --timeout 2", NULL, "given twice" },
	{ "wait ready --other 1", NULL, "unknown option '--other'" },
	{ "stop --now", "{\"now\":true}", NULL },
	{ "stop --now=1", NULL, "takes no value" },
	{ "kernels show", "{}", NULL },
	{ "kernels show ref", "{\"set\":\"ref\"}", NULL },
	{ "param set a=1 b=x=y", "{\"values\":{\"a\":\"1\",\"b\":\"x=y\"}}", NULL },
	{ "param set a=1 a=2", NULL, "given twice" },
	{ "param set a", NULL, "not NAME=VALUE" },
	{ "param set =1", NULL, "not NAME=VALUE" },
	{ "param set", NULL, "missing" },
	{ "request show -- --id", "{\"id\":\"--id\"}", NULL },
	{ "probe run a b --max-tokens 3 --sizes=1,2",
	  "{\"names\":[\"a\",\"b\"],\"options\":{\"max_tokens\":\"3\",\"sizes\":\"1,2\"}}", NULL },
	{ "probe run a --quick --max-tokens 3", "{\"names\":[\"a\"],\"quick\":true,\"options\":{\"max_tokens\":\"3\"}}",
	  NULL },
	{ "probe run a --x", NULL, "--x needs a value" },
	{ "probe run needle --sizes", NULL, "--sizes needs a value" },
	{ "shadow start mhc-bf16 --share=0.25", "{\"set\": \"mhc-bf16\", \"share\": 0.25}", NULL },
	{ "shadow start ref --share -1", NULL, "share: '-1' is not a number of 0 or more" },
	{ "compare --prompt a/file --b ref,index_topk=5 --tokens 3",
	  "{\"prompt\": \"a/file\", \"b\": \"ref,index_topk=5\", \"tokens\": 3}", NULL },
	{ "wait ready --timeout -1", NULL, "timeout: '-1' is not a whole number of 0 or more" },
};

static int split(char *line, char **word)
{
	char *save = NULL;
	int n = 0;

	for (char *w = strtok_r(line, " ", &save); w && n < 16; w = strtok_r(NULL, " ", &save))
		word[n++] = w;
	return n;
}

static void verb_command_lines(void **state)
{
	(void)state;
	for (size_t i = 0; i < mem_countof(verb_cases); i++) {
		char *line = mem_strdup(verb_cases[i].line), *word[16], bad[VERB_NAME_MAX];
		int n = split(line, word), used = 0, r;
		const struct verb *v = verb_find_words(n, word, &used);
		json_t *params = NULL, *want = NULL;
		struct buf why = { 0 };

		assert_non_null(v);
		r = verb_parse(v, n - used, word + used, &params, &why);
		if (verb_cases[i].params) {
			want = json_loads(verb_cases[i].params, 0, NULL);
			if (r || !json_equal(params, want))
				fail_msg("%s: %s", verb_cases[i].line, buf_str(&why));
			assert_int_equal(verb_check(v, params, bad), 0);
		} else if (r != RC_INVALID || !strstr(buf_str(&why), verb_cases[i].why)) {
			fail_msg("%s: %s \"%s\"", verb_cases[i].line, rc_name(r), buf_str(&why));
		}
		json_decref(params);
		json_decref(want);
		buf_fini(&why);
		free(line);
	}
}

static const struct {
	const char *method, *params, *bad;
} check_cases[] = {
	{ "io.dsv4.Daemon.Status", "{}", NULL },
	{ "io.dsv4.Daemon.Status", "{\"x\":1}", "x" },
	{ "io.dsv4.Daemon.Wait", "{\"condition\":\"ready\",\"timeout\":null}", NULL },
	{ "io.dsv4.Daemon.Wait", "{}", "condition" },
	{ "io.dsv4.Daemon.Wait", "{\"condition\":\"soon\"}", "condition" },
	{ "io.dsv4.Daemon.Wait", "{\"condition\":\"ready\",\"timeout\":1.5}", "timeout" },
	{ "io.dsv4.Daemon.Wait", "{\"condition\":\"ready\",\"timeout\":\"1\"}", "timeout" },
	{ "io.dsv4.Daemon.Stop", "{\"now\":1}", "now" },
	{ "io.dsv4.Engine.ParamSet", "{\"values\":{}}", "values" },
	{ "io.dsv4.Engine.ParamSet", "{\"values\":{\"a\":1}}", "values" },
	{ "io.dsv4.Engine.ParamSet", "{\"values\":[\"a\"]}", "values" },
	{ "io.dsv4.Engine.RequestShow", "{\"id\":null}", "id" },
	{ "io.dsv4.Probes.Run", "{\"names\":[]}", "names" },
	{ "io.dsv4.Probes.Run", "{\"names\":[1]}", "names" },
	{ "io.dsv4.Probes.Run", "{\"names\":[\"a\"],\"a_name_much_longer_than_any_that_could_be_meant\":1}",
	  "a_name_much_longer_than_any_tha" },
};

static void verb_parameters(void **state)
{
	(void)state;
	for (size_t i = 0; i < mem_countof(check_cases); i++) {
		json_t *params = json_loads(check_cases[i].params, 0, NULL);
		char bad[VERB_NAME_MAX] = "";
		int r = verb_check(verb_find_method(check_cases[i].method), params, bad);

		if (check_cases[i].bad ? r != RC_INVALID || strcmp(bad, check_cases[i].bad) : r)
			fail_msg("%s %s: %s '%s'", check_cases[i].method, check_cases[i].params, rc_name(r),
				 bad);
		json_decref(params);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frame_by_frame),  cmocka_unit_test(frame_limit),
		cmocka_unit_test(calls),
		cmocka_unit_test(call_depth),      cmocka_unit_test(replies_round_trip),
		cmocka_unit_test(verbs_are_sound),
		cmocka_unit_test(verb_command_lines), cmocka_unit_test(verb_parameters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
