/* SPDX-License-Identifier: MIT
 * fake_server.c - the HTTP front on the fake engine, led by commands on standard input.
 * Threads: main and those of the server and the fake. */
#include "api/http/http.h"
#include "api/http/keys.h"
#include "engine/base/log.h"
#include "engine/base/must.h"
#include "tests/http/fake_ask.h"
#include "tests/http/fake_engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* fake_server MODEL_DIR MAX_BODY KEEP_ALIVE_SECONDS THREADS [NAME=VALUE...]; prints its address, then answers each
 * command with a line: tick | release | wait-live N | counts | last | drain | fail TEXT | stall SECONDS | well |
 * reload | asked N | answer | stop. The names are those of fake_server_option(). */
static void fake_server_option(struct http_options *o, char *word)
{
	char *value = strchr(word, '=');

	must(value);
	*value++ = '\0';
	if (!strcmp(word, "keys"))
		o->keys = value;
	else if (!strcmp(word, "listen"))
		o->listen = value;
	else if (!strcmp(word, "tls_cert"))
		o->tls_cert = value;
	else if (!strcmp(word, "tls_key"))
		o->tls_key = value;
	else if (!strcmp(word, "cors"))
		o->cors = value;
	else if (!strcmp(word, "max_connections"))
		o->max_connections = atoi(value);
	else if (!strcmp(word, "max_connections_per_address"))
		o->max_connections_per_address = atoi(value);
	else if (!strcmp(word, "head"))
		o->head = atof(value);
	else if (!strcmp(word, "body"))
		o->body = atof(value);
	else if (!strcmp(word, "idle"))
		o->idle = atof(value);
	else if (!strcmp(word, "unread"))
		o->unread = atof(value);
	else if (!strcmp(word, "ask"))
		o->ask = fake_ask;
	else if (!strcmp(word, "repetition_guard"))
		o->repetition_guard = true;
	else if (!strcmp(word, "allow_no_keys"))
		o->allow_no_keys = true;
	else
		must(false && "an option");
}

static void fake_server_reload(struct http *h, const struct http_options *o)
{
	struct http_next *next;
	struct buf why = { 0 };

	if (http_next_read(h, o, &next, &why)) {
		puts(buf_str(&why));
	} else {
		struct keys_change c;

		(void)http_next_use(h, &next, &c);
		puts("ok");
	}
	buf_fini(&why);
}

static void fake_server_status(struct engine *e, const char *word, const char *arg)
{
	struct engine_status s = { 0 };

	if (!strcmp(word, "drain"))
		s.draining = 1;
	else if (!strcmp(word, "fail"))
		s.failed = 1;
	else if (!strcmp(word, "stall"))
		s.running = 1;
	s.step_age = atof(arg);
	snprintf(s.why_failed, sizeof s.why_failed, "%s", arg);
	fake_engine_set(e, &s);
	puts("ok");
}

static void fake_server_command(struct engine *e, struct http **h, const struct http_options *o, const char *word,
				const char *arg)
{
	int submitted, cancelled;
	char *last;

	if (!strcmp(word, "tick")) {
		http_tick(*h);
		puts("ok");
	} else if (!strcmp(word, "release")) {
		fake_engine_release(e);
		puts("ok");
	} else if (!strcmp(word, "wait-live")) {
		fake_engine_wait_live(e, atoi(arg));
		puts("ok");
	} else if (!strcmp(word, "places")) {
		fake_engine_places(e, atoi(arg));
		puts("ok");
	} else if (!strcmp(word, "counts")) {
		fake_engine_counts(e, &submitted, &cancelled);
		printf("%d %d\n", submitted, cancelled);
	} else if (!strcmp(word, "last")) {
		last = fake_engine_last(e);
		puts(last);
		free(last);
	} else if (!strcmp(word, "reload")) {
		fake_server_reload(*h, o);
	} else if (!strcmp(word, "asked")) {
		fake_ask_wait(atoi(arg));
		puts("ok");
	} else if (!strcmp(word, "answer")) {
		fake_ask_answer();
		puts("ok");
	} else if (!strcmp(word, "stop")) {
		http_stop(h);
		puts("ok");
	} else {
		fake_server_status(e, word, arg);
	}
}

int main(int argc, char **argv)
{
	struct http_options o = { .listen = "127.0.0.1:0", .version = "0.0-test" };
	struct engine *e;
	struct http *h;
	struct buf why = { 0 };
	char line[256], word[32], arg[200];

	must(argc >= 5);
	o.max_body = (size_t)atol(argv[2]);
	o.keep_alive = atof(argv[3]);
	o.threads = atoi(argv[4]);
	for (int i = 5; i < argc; i++)
		fake_server_option(&o, argv[i]);
	fake_ask_init();
	e = fake_engine_open(argv[1]);
	if (http_start(&o, e, &h, &why)) {
		fprintf(stderr, "%s\n", buf_str(&why));
		return 1;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	puts(http_address(h));
	while (fgets(line, sizeof line, stdin)) {
		arg[0] = '\0';
		if (sscanf(line, "%31s %199[^\n]", word, arg) > 0)
			fake_server_command(e, &h, &o, word, arg);
	}
	http_stop(&h);
	fake_engine_close(&e);
	fake_ask_fini();
	buf_fini(&why);
	return 0;
}
