/* SPDX-License-Identifier: MIT
 * api.c - parsing bodies, chat_run() without a socket, listen addresses, the route table, error bodies.
 * Threads: main and the fake engine's. */
#include "api/chat/chat.h"
#include "api/http/body.h"
#include "api/http/endpoint.h"
#include "api/http/http.h"
#include "api/http/router.h"
#include "api/http/server.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "tests/http/fake_engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void test_body_scan_counts_outside_strings_only(void **state)
{
	static const char *const good = "{\"a\":\"[[[[\\\"{{{{\\\\\",\"b\":[1,2,{\"c\":[]}]}";
	struct error err = { 0 };
	json_t *v = NULL;

	(void)state;
	assert_int_equal(body_parse(good, strlen(good), &v, &err), 0);
	assert_string_equal(json_string_value(json_object_get(v, "a")), "[[[[\"{{{{\\");
	json_decref(v);
	/* Cut anywhere it is refused with a message, and nothing is read past the end. */
	for (size_t n = 0; n < strlen(good); n++) {
		char *cut = malloc(n + 1);

		memcpy(cut, good, n);
		assert_int_equal(body_parse(cut, n, &v, &err), RC_JSON);
		assert_true(err.why.len > 0);
		free(cut);
	}
	error_fini(&err);
}

static void test_error_bodies_name_param_and_code(void **state)
{
	static const struct {
		int rc;
		const char *why, *param, *code;
	} cases[] = {
		{ RC_INVALID, "messages[3].content: expected text", "messages[3].content", "invalid_value" },
		{ RC_INVALID, "messages: no user turn", "messages", "invalid_value" },
		{ RC_INVALID, "messagesx: no", NULL, "invalid_value" },
		{ RC_INVALID, "something else", NULL, "invalid_value" },
		{ RC_BUSY, "messages: many", NULL, "busy" },
		{ RC_CONTEXT, "prompt 5 exceeds context 4", "messages", "context_length_exceeded" },
		{ -12, "", NULL, "internal" },
	};

	(void)state;
	for (size_t i = 0; i < mem_countof(cases); i++) {
		struct buf why = { 0 };
		struct error err = { 0 };
		json_t *body, *e;

		buf_adds(&why, cases[i].why);
		error_from_engine(&err, cases[i].rc, &why);
		body = error_json(&err, "req-1");
		e = json_object_get(body, "error");
		assert_true(json_string_length(json_object_get(e, "message")) > 0);
		assert_string_equal(json_string_value(json_object_get(e, "code")), cases[i].code);
		assert_string_equal(json_string_value(json_object_get(e, "request_id")), "req-1");
		if (cases[i].param)
			assert_string_equal(json_string_value(json_object_get(e, "param")), cases[i].param);
		else
			assert_true(json_is_null(json_object_get(e, "param")));
		json_decref(body);
		error_fini(&err);
		buf_fini(&why);
	}
}

static void test_listen_addresses(void **state)
{
	static const char *const bad[] = { "",
					   ":80",
					   "127.0.0.1",
					   "127.0.0.1:",
					   "127.0.0.1:x",
					   "127.0.0.1:99999",
					   "example.org:80",
					   "[::1:80",
					   "1.2.3:",
					   "127.0.0.1:-1",
					   "300.0.0.1:80" };
	static const char *const good[] = { "127.0.0.1:0", "localhost:0" };
	struct buf why = { 0 };
	char name[ENDPOINT_MAX];
	int fd, again;

	(void)state;
	for (size_t i = 0; i < mem_countof(bad); i++) {
		assert_int_not_equal(endpoint_open(bad[i], &fd, &why), 0);
		assert_non_null(strstr(buf_str(&why), bad[i]));
	}
	for (size_t i = 0; i < mem_countof(good); i++) {
		assert_int_equal(endpoint_open(good[i], &fd, &why), 0);
		assert_int_equal(endpoint_name(fd, name, &why), 0);
		assert_int_equal(strncmp(name, "127.0.0.1:", 10), 0);
		/* Taken: the error names the address. */
		assert_true(endpoint_open(name, &again, &why) < 0);
		assert_non_null(strstr(buf_str(&why), name));
		close(fd);
	}
	buf_fini(&why);
}

static void test_only_health_is_open(void **state)
{
	(void)state;
	for (int i = 0; i < router_count; i++) {
		assert_true((router_table[i].access == ROUTE_OPEN) ==
			    !strcmp(router_table[i].path, "/health"));
		assert_true(strlen(router_table[i].text) > 0);
	}
}

static void test_silence_is_short_by_default(void **state)
{
	const char *src = getenv("top_srcdir");
	struct buf path = { 0 }, why = { 0 };
	struct engine *e;
	struct http *h;

	(void)state;
	buf_printf(&path, "%s/etc/tiny", src ? src : ".");
	e = fake_engine_open(buf_str(&path));
	assert_int_equal(http_start(&(struct http_options){ .listen = "127.0.0.1:0" }, e, &h, &why), 0);
	assert_true(http_keep_alive(h) > 0 && http_keep_alive(h) <= 5);
	http_stop(&h);
	fake_engine_close(&e);
	buf_fini(&path);
	buf_fini(&why);
}

struct chat_seen {
	int n, cancel_at;
};

static int chat_see(void *arg, const struct gen_event *ev)
{
	struct chat_seen *seen = arg;

	return ev && ++seen->n == seen->cancel_at;
}

static int chat_try(struct engine *e, const char *script, struct chat_seen *seen, json_t **ret_response,
		    struct buf *why)
{
	json_t *body = json_pack("{s:[{s:s, s:s}]}", "messages", "role", "user", "content", script);
	int rc = chat_run(e, NULL, body, chat_see, seen, ret_response, why);

	json_decref(body);
	return rc;
}

static void test_chat_run_without_a_socket(void **state)
{
	const char *src = getenv("top_srcdir");
	struct buf path = { 0 }, why = { 0 };
	struct chat_seen seen = { 0, 0 };
	struct engine *e;
	json_t *r;
	const char *text;

	(void)state;
	buf_printf(&path, "%s/etc/tiny", src ? src : ".");
	e = fake_engine_open(buf_str(&path));
	assert_int_equal(chat_try(e, "rwhy|cone|c two|s", &seen, &r, &why), 0);
	assert_int_equal(json_unpack(r, "{s:[{s:{s:s}}]}", "choices", "message", "content", &text), 0);
	assert_string_equal(text, "one two");
	assert_int_equal(seen.n, 4);
	json_decref(r);
	assert_int_equal(chat_try(e, "xbroken", &seen, &r, &why), RC_KERNEL);
	assert_string_equal(buf_str(&why), "broken");
	assert_int_equal(chat_try(e, "P", &seen, &r, &why), RC_CONTEXT);
	seen = (struct chat_seen){ 0, 2 };
	assert_int_equal(chat_try(e, "cone|ctwo|w|s", &seen, &r, &why), RC_CANCELLED);
	fake_engine_close(&e);
	buf_fini(&path);
	buf_fini(&why);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_body_scan_counts_outside_strings_only),
		cmocka_unit_test(test_error_bodies_name_param_and_code),
		cmocka_unit_test(test_listen_addresses),
		cmocka_unit_test(test_only_health_is_open),
		cmocka_unit_test(test_silence_is_short_by_default),
		cmocka_unit_test(test_chat_run_without_a_socket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
