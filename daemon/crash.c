/* SPDX-License-Identifier: MIT
 * crash.c - one line in the log when a signal ends the daemon: which kernel it was in.
 * Threads: main sets it up; the handler runs on whichever crashes. Locks: none.
 *
 * The handler calls nothing that is not async-signal-safe: no stdio, no allocation, no lock. */
#include "daemon/crash.h"
#include "engine/base/altstack.h"
#include "engine/base/mem.h"
#include "engine/engine.h"
#include "plugins/check/check.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CRASH_LINE 1024
#define CRASH_KERNELS 256

static const struct crash_signal {
	int number;
	const char *name;
} crash_signals[] = { { SIGSEGV, "SEGV" }, { SIGBUS, "BUS" }, { SIGILL, "ILL" }, { SIGFPE, "FPE" },
		    { SIGABRT, "ABRT" } };

static struct sigaction crash_before[mem_countof(crash_signals)]; /* a sanitizer's, or the default */
static atomic_flag crash_told = ATOMIC_FLAG_INIT;
static _Atomic(const struct running *) crash_watched;

/* Written in turns, so that the one which is read stands still. */
struct crash_text {
	char text[2][CRASH_KERNELS];
	atomic_int at;
};
static struct crash_text crash_set, crash_loaded;

static const char *crash_text_now(struct crash_text *t)
{
	return t->text[atomic_load(&t->at)];
}

static void crash_text_say(struct crash_text *t, const char *s)
{
	int at = !atomic_load(&t->at);

	snprintf(t->text[at], sizeof t->text[at], "%s", s);
	atomic_store(&t->at, at);
}

struct crash_line {
	size_t len;
	char text[CRASH_LINE];
};

/* ---- text without stdio ---- */

static void crash_add(struct crash_line *l, const char *s)
{
	while (*s && l->len < sizeof l->text - 1)
		l->text[l->len++] = *s++;
}

static void crash_add_number(struct crash_line *l, uint64_t n, unsigned base)
{
	char digits[24];
	size_t at = sizeof digits - 1;

	digits[at] = '\0';
	do {
		digits[--at] = "0123456789abcdef"[n % base];
		n /= base;
	} while (n);
	crash_add(l, digits + at);
}

static void crash_describe(struct crash_line *l, const char *signal, const siginfo_t *info)
{
	const struct running *engine = atomic_load(&crash_watched);
	struct running_view v = running_now();

	if (!v.provider && engine)
		v = running_look(engine);
	crash_add(l, "<2>crashed signal=");
	crash_add(l, signal);
	/* What another process sent has that one's PID in the place of an address. */
	crash_add(l, info->si_code > 0 ? " address=0x" : " from_pid=");
	crash_add_number(l, info->si_code > 0 ? (uint64_t)(uintptr_t)info->si_addr : (uint64_t)info->si_pid,
			 info->si_code > 0 ? 16 : 10);
	crash_add(l, " op=");
	if (!v.provider) {
		crash_add(l, "none");
		return;
	}
	crash_add(l, op_name(v.op));
	crash_add(l, " phase=");
	crash_add(l, op_phase_name(v.phase));
	crash_add(l, v.layer < 0 ? " layer=head" : " layer=");
	if (v.layer >= 0)
		crash_add_number(l, (uint64_t)v.layer, 10);
	crash_add(l, " provider=");
	crash_add(l, v.provider);
	crash_add(l, " set_generation=");
	crash_add_number(l, v.generation, 10);
	crash_add(l, " request=");
	crash_add(l, v.request ? v.request : "none");
}

static void crash_describe_sets(struct crash_line *l)
{
	crash_add(l, " kernels=\"");
	crash_add(l, crash_text_now(&crash_set));
	crash_add(l, "\" plugins=\"");
	crash_add(l, crash_text_now(&crash_loaded));
	crash_add(l, "\"\n");
}

/* ---- the handler ---- */

static const char *crash_restore(int number)
{
	const char *name = "?";

	for (size_t i = 0; i < mem_countof(crash_signals); i++) {
		sigaction(crash_signals[i].number, &crash_before[i], NULL);
		if (crash_signals[i].number == number)
			name = crash_signals[i].name;
	}
	return name;
}

/* What was the action before is again, first of all: a fault in here ends the process too. */
static void crash_on_signal(int number, siginfo_t *info, void *context)
{
	struct crash_line l = { 0 };
	const char *name;
	ssize_t n = 0;

	(void)context;
	if (atomic_flag_test_and_set(&crash_told))
		for (;;)
			pause(); /* until the thread that is telling ends us all */
	name = crash_restore(number);
	crash_describe(&l, name, info);
	crash_describe_sets(&l);
	n = write(STDERR_FILENO, l.text, l.len);
	(void)n;
	/* A fault happens again as soon as this returns, where it happened; a signal that was sent does not. */
	if (info->si_code <= 0)
		raise(number);
}

void crash_engine(const struct running *r)
{
	atomic_store(&crash_watched, r);
}

void crash_kernels(const char *name)
{
	crash_text_say(&crash_set, name);
}

void crash_plugins(const char *names)
{
	if (strcmp(crash_text_now(&crash_loaded), names))
		crash_text_say(&crash_loaded, names);
}

void crash_log(void)
{
	struct sigaction a = { .sa_sigaction = crash_on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK };

	altstack_use();
	sigemptyset(&a.sa_mask);
	for (size_t i = 0; i < mem_countof(crash_signals); i++)
		sigaction(crash_signals[i].number, &a, &crash_before[i]);
}
