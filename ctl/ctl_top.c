/* SPDX-License-Identifier: MIT
 * ctl_top.c - a live view of the daemon: what it serves and how fast, its cache, kernels, probes and requests.
 * Threads: one. Locks: none.
 *
 * A page is text, made of replies; on a terminal curses shows it again every second, --once prints it. */
#include "ctl/ask.h"
#include "ctl/client.h"
#include "ctl/ctl.h"
#include "ctl/view.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"

#include <curses.h>
#include <locale.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#define TOP_MS 1000
#define TOP_REQUESTS 100
#define TOP_PROBES 4

struct top {
	struct ctl *c;
	long long at;                /* clock_ms() of the last page; 0: none */
	long long generated, prompt, steps;
};

static const char *top_text(json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

static long long top_int(json_t *o, const char *outer, const char *key)
{
	json_t *in = *outer ? json_object_get(o, outer) : o;

	return json_integer_value(json_object_get(in, key));
}

static void top_uptime(double s, struct buf *out)
{
	long long n = (long long)s;

	if (n >= 86400)
		buf_printf(out, "%lldd ", n / 86400);
	buf_printf(out, "%02lld:%02lld:%02lld", n / 3600 % 24, n / 60 % 60, n % 60);
}

/* Per second since the last page. */
static double top_rate(long long now, long long before, long long ms)
{
	return ms > 0 ? (double)(now - before) * 1000 / (double)ms : 0;
}

static void top_status(struct top *t, json_t *s, struct buf *out)
{
	long long now = clock_ms(), ms = t->at ? now - t->at : 0;
	long long generated = top_int(s, "tokens", "generated"), prompt = top_int(s, "tokens", "prompt");
	long long steps = top_int(s, "", "steps"), cached = top_int(s, "tokens", "cached");

	buf_printf(out, "dsv4d %s   %s   %s   up ", top_text(s, "version"), top_text(s, "model"), top_text(s, "state"));
	top_uptime(json_number_value(json_object_get(s, "uptime_s")), out);
	buf_printf(out, "   %s\n", top_text(s, "http"));
	if (*top_text(s, "error"))
		buf_printf(out, "error    %s\n", top_text(s, "error"));
	buf_printf(out, "requests %lld running, %lld waiting, %lld done, %lld cancelled, %lld failed\n",
		   top_int(s, "requests", "running"), top_int(s, "requests", "queued"),
		   top_int(s, "requests", "finished"),
		   top_int(s, "requests", "cancelled"), top_int(s, "requests", "errors"));
	if (ms)
		buf_printf(out, "speed    %.1f tokens/s generated, %.1f of prompts computed, %.1f steps/s, %lld "
			   "threads\n", top_rate(generated, t->generated, ms), top_rate(prompt - cached, t->prompt, ms),
			   top_rate(steps, t->steps, ms), top_int(s, "", "threads"));
	else
		buf_printf(out, "tokens   %lld generated, %lld of prompts, %lld of these from the cache\n", generated,
			   prompt, cached);
	buf_printf(out, "kernels  %s   generation %lld   from %s%s%s\n", top_text(s, "kernels"),
		   top_int(s, "", "kernels_generation"),
		   top_text(s, "started_from"), *top_text(s, "last_good") ? "   last good " : "",
		   top_text(s, "last_good"));
	t->at = now;
	t->generated = generated;
	t->prompt = prompt - cached;
	t->steps = steps;
}

static void top_cache(json_t *o, struct buf *out)
{
	long long asked = top_int(o, "", "tokens_asked"), reused = top_int(o, "", "tokens_reused");

	buf_printf(out, "cache    %.1f of %.1f MiB, %lld %% of prompt tokens reused, %lld files of %.1f MiB on disk\n",
		   (double)top_int(o, "", "bytes") / 1048576, (double)top_int(o, "", "budget") / 1048576,
		   asked ? 100 * reused / asked : 0, top_int(o, "disk", "files"),
		   (double)top_int(o, "disk", "bytes") / 1048576);
}

static void top_probes(json_t *o, struct buf *out)
{
	json_t *runs = json_object_get(o, "runs"), *one;
	size_t i;

	buf_adds(out, "probes  ");
	json_array_foreach(runs, i, one) {
		json_t *result = json_object_get(one, "result");

		buf_printf(out, " %s %s", top_text(result, "name"), top_text(result, "verdict"));
	}
	buf_adds(out, json_array_size(runs) ? "\n\n" : " none has run\n\n");
}

/* A question's answer put on the page; what may not be seen, or is not there, leaves its line out. */
static int top_part(struct top *t, const char *id, int max, json_t **ret_reply, struct buf *why)
{
	json_t *params = max ? json_pack("{s:i}", "max", max) : NULL;

	buf_clear(why);
	*ret_reply = ask(t->c, id, params, why);
	json_decref(params);
	return *ret_reply ? 0 : -1;
}

/* The page as text. False: the daemon does not answer; why says why. */
static bool top_page(struct top *t, struct buf *out, struct buf *why)
{
	json_t *o;

	if (top_part(t, "status", 0, &o, why))
		return false;
	top_status(t, o, out);
	json_decref(o);
	if (top_part(t, "cache_stats", 0, &o, why) == 0) {
		top_cache(o, out);
		json_decref(o);
	}
	if (top_part(t, "probe_history", TOP_PROBES, &o, why) == 0) {
		top_probes(o, out);
		json_decref(o);
	}
	if (top_part(t, "request_list", TOP_REQUESTS, &o, why) == 0) {
		view_reply(ask_verb("request_list"), o, out);
		json_decref(o);
	}
	view_sanitize(out);
	return true;
}

/* How many of a line's n bytes fill at most `columns`, whole characters only. */
static int top_fit(const char *text, size_t n, int columns)
{
	mbstate_t state = { 0 };
	size_t at = 0;

	while (at < n) {
		wchar_t c = 0;
		size_t len = mbrtowc(&c, text + at, n - at, &state);
		int width = 1;

		if (len > n - at) { /* none of this locale's */
			state = (mbstate_t){ 0 };
			len = 1;
		} else if ((width = wcwidth(c)) < 0) {
			width = 1;
		}
		if (width > columns)
			break;
		columns -= width;
		at += len ? len : 1;
	}
	return (int)at;
}

/* One screenful; longer lines and pages are cut. */
static void top_draw(const char *text)
{
	erase();
	for (int y = 0; *text && y < LINES - 1; y++) {
		size_t n = strcspn(text, "\n");

		if (y == 0)
			attron(A_BOLD);
		mvaddnstr(y, 0, text, top_fit(text, n, COLS));
		attroff(A_BOLD);
		text += n + (text[n] == '\n');
	}
	attron(A_REVERSE);
	mvaddnstr(LINES - 1, 0, " q: end ", COLS);
	attroff(A_REVERSE);
	refresh();
}

/* The next key, ERR when there is none in time; 'q' as well when the terminal is gone: it is readable then all the
 * time, but never has a key. */
static int top_key(void)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	int key = getch();

	if (key == ERR && poll(&p, 1, 0) > 0) {
		key = getch();
		key = key == ERR ? 'q' : key;
	}
	return key;
}

/* False: curses does not know this terminal. */
static bool top_show(struct top *t)
{
	struct buf page = { 0 }, why = { 0 };
	SCREEN *screen;
	int key = 0;

	setlocale(LC_CTYPE, "");
	screen = newterm(NULL, stdout, stdin); /* initscr() would exit */
	if (!screen)
		return false;
	cbreak();
	noecho();
	curs_set(0);
	timeout(TOP_MS);
	do {
		buf_clear(&page);
		if (!top_page(t, &page, &why)) {
			buf_clear(&page);
			buf_printf(&page, "no answer from %s\n\n%s\n", t->c->socket, buf_str(&why));
			t->at = 0;
		}
		top_draw(buf_str(&page));
		key = top_key();
	} while (key != 'q' && key != 'Q' && key != 3);
	endwin();
	delscreen(screen);
	buf_fini(&page);
	buf_fini(&why);
	return true;
}

int ctl_top(struct ctl *c)
{
	struct top t = { .c = c };
	bool once = c->n_word == 2 && !strcmp(c->word[1], "--once");
	struct buf page = { 0 }, why = { 0 };
	int code = CTL_OK;

	if (c->n_word > 1 && !once)
		return ctl_show_usage("top takes --once");
	if (!once && isatty(STDOUT_FILENO) && isatty(STDIN_FILENO) && top_show(&t)) {
		; /* until its end */
	} else if (top_page(&t, &page, &why)) {
		fputs(buf_str(&page), stdout);
	} else {
		fprintf(stderr, "dsv4ctl: %s\n", buf_str(&why));
		code = CTL_CONNECT;
	}
	client_close(&c->client);
	buf_fini(&page);
	buf_fini(&why);
	return code;
}
