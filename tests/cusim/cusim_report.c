/* SPDX-License-Identifier: MIT
 * cusim_report.c - what the simulator has found, a line each.
 * Threads: one at a time. Locks: none. */
#include "tests/cusim/cusim_priv.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define CUSIM_REPORT_LINES 20

static struct {
	const char *kernel;
	uint32_t block[3], size[3];
	int n, n_seen;
	long all;
	struct { const void *pc; int kind; } seen[CUSIM_REPORT_LINES];
} cusim_report_now;

void cusim_report_launch(const struct cusim_launch *l)
{
	cusim_report_now.kernel = l->kernel->name;
	memcpy(cusim_report_now.size, l->block, sizeof l->block);
	cusim_report_now.n = cusim_report_now.n_seen = 0;
}

void cusim_report_block(const uint32_t block[3])
{
	memcpy(cusim_report_now.block, block, sizeof cusim_report_now.block);
}

int cusim_report_count(void)
{
	return cusim_report_now.n;
}

long cusim_faults(void)
{
	return cusim_report_now.all;
}

static bool cusim_report_again(const void *pc, int kind)
{
	int i = 0;

	while (i < cusim_report_now.n_seen && (cusim_report_now.seen[i].pc != pc || cusim_report_now.seen[i].kind != kind))
		i++;
	if (i < cusim_report_now.n_seen)
		return true;
	if (i < CUSIM_REPORT_LINES) {
		cusim_report_now.seen[i].pc = pc;
		cusim_report_now.seen[i].kind = kind;
		cusim_report_now.n_seen++;
	}
	return false;
}

/* "3", or "3,1,0" where there is more than one dimension. */
static void cusim_report_index(const uint32_t i[3], char text[40])
{
	if (i[1] || i[2])
		snprintf(text, 40, "%u,%u,%u", i[0], i[1], i[2]);
	else
		snprintf(text, 40, "%u", i[0]);
}

/* For addr2line. */
static void cusim_report_place(const void *pc, char *text, size_t size)
{
	Dl_info info;

	*text = 0;
	if (pc && dladdr(pc, &info) && info.dli_fname) {
		const char *slash = strrchr(info.dli_fname, '/');

		snprintf(text, size, " (%s+%#tx)", slash ? slash + 1 : info.dli_fname,
			 (const char *)pc - 1 - (const char *)info.dli_fbase);
	}
}

void cusim_report(const void *pc, int kind, const char *fmt, ...)
{
	char block[40], thread[40], place[160], text[400];
	va_list ap;

	cusim_report_now.n++;
	cusim_report_now.all++;
	if (cusim_report_again(pc, kind) || cusim_report_now.n_seen > CUSIM_REPORT_LINES)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	cusim_report_index(cusim_report_now.block, block);
	cusim_report_index(cusim_lanes[cusim_now.thread].idx, thread);
	cusim_report_place(pc, place, sizeof place);
	fprintf(stderr, "cusim: %s block %s thread %s: %s%s\n", cusim_report_now.kernel, block, thread, text, place);
}
