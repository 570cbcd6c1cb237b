/* SPDX-License-Identifier: MIT
 * bench_print.c - results as tables for people, line by line as they come, or as one JSON object at the end.
 * Threads: one. Locks: none. */
#include "tests/bench/bench_print.h"
#include "engine/base/buf.h"
#include "engine/base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What kernels choose by, in the order of /proc/cpuinfo's names. */
static const char *const bench_print_flags[] = { "avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512bw", "avx512vl",
						 "avx512vbmi", "avx512_vbmi2", "avx512_vnni", "avx512_bf16",
						 "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "asimd", "asimddp",
						 "i8mm", "bf16", "sve", "sve2" };

/* ---- samples ---- */

void bench_samples_add(struct bench_samples *s, double v)
{
	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 64;
		s->v = mem_grow(s->v, (size_t)s->cap, sizeof *s->v);
	}
	s->v[s->n++] = v;
}

static int bench_samples_order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double bench_samples_at(struct bench_samples *s, double p)
{
	if (s->n == 0)
		return NAN;
	qsort(s->v, (size_t)s->n, sizeof *s->v, bench_samples_order);
	return s->v[(int)(p * (s->n - 1) + 0.5)];
}

void bench_samples_fini(struct bench_samples *s)
{
	free(s->v);
	*s = (struct bench_samples){ 0 };
}

/* ---- output ---- */

void bench_print_init(struct bench_out *o, bool json, const char *mode, struct bench_progress *bar)
{
	*o = (struct bench_out){ .json = json, .root = json_object(), .bar = bar };
	json_object_set_new(o->root, "bench", json_string(mode));
	json_object_set_new(o->root, "version", json_string(PACKAGE_VERSION));
}

void bench_print_note(struct bench_out *o, const char *name, const char *fmt, ...)
{
	struct buf text = { 0 };
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	json_object_set_new(o->root, name, json_string(buf_str(&text)));
	if (!o->json) {
		bench_progress_clear(o->bar);
		printf("%-9s %s\n", name, buf_str(&text));
	}
	buf_fini(&text);
}

void bench_print_host(struct bench_out *o, const struct bench_host *h, int threads)
{
	struct buf features = { 0 };
	time_t now = time(NULL);
	struct tm tm;
	char date[16] = "";

	if (gmtime_r(&now, &tm))
		strftime(date, sizeof date, "%Y-%m-%d", &tm);
	for (size_t i = 0; i < mem_countof(bench_print_flags); i++)
		if (bench_host_has(h, bench_print_flags[i]))
			buf_printf(&features, "%s%s", features.len ? " " : "", bench_print_flags[i]);
	bench_print_note(o, "cpu", "%s", h->model);
	bench_print_note(o, "date", "%s", date);
	bench_print_note(o, "features", "%s", buf_str(&features));
	bench_print_note(o, "caches", "L2 %zu KiB a core, L3 %zu KiB", h->l2 >> 10, h->l3 >> 10);
	bench_print_note(o, "memory", "%.1f GB, huge pages %s", h->memory / 1e9, h->huge[0] ? h->huge : "unknown");
	bench_print_note(o, "threads", "%d of %d CPUs", threads, h->cpus);
	buf_fini(&features);
}

void bench_print_gpu(struct bench_out *o, struct device *d)
{
	struct device_view v;

	device_view(d, &v);
	bench_print_note(o, "device", "%s: %s, sm_%d, %d multiprocessors, %.1f GB", device_name(d), v.model, v.sm,
			 device_gpu(d)->n_sm, (double)v.total / 1e9);
}

void bench_print_table(struct bench_out *o, const char *name, const struct bench_column *column, int n)
{
	o->column = column;
	o->n_column = n;
	o->rows = json_array();
	json_object_set_new(o->root, name, o->rows);
	if (o->json)
		return;
	bench_progress_clear(o->bar);
	putchar('\n');
	for (int i = 0; i < n; i++)
		printf("%s%*s", i ? "  " : "", i + 1 == n && column[i].width < 0 ? 0 : column[i].width,
		       column[i].title);
	putchar('\n');
}

static void bench_print_cell(const struct bench_column *c, const json_t *v, bool last)
{
	char text[128] = "-";

	if (json_is_string(v))
		snprintf(text, sizeof text, "%s", json_string_value(v));
	else if (json_is_number(v))
		snprintf(text, sizeof text, "%.*f", c->digits, json_number_value(v));
	printf("%*s%s", last && c->width < 0 ? 0 : c->width, text, last ? "\n" : "  ");
}

void bench_print_row(struct bench_out *o, json_t *row)
{
	json_array_append_new(o->rows, row);
	if (o->json)
		return;
	bench_progress_clear(o->bar);
	for (int i = 0; i < o->n_column; i++)
		bench_print_cell(&o->column[i], json_object_get(row, o->column[i].key), i + 1 == o->n_column);
	fflush(stdout);
}

json_t *bench_real(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

void bench_print_end(struct bench_out *o, bool whole)
{
	bench_progress_clear(o->bar);
	if (o->json && whole) {
		json_dumpf(o->root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
		putchar('\n');
	}
	json_decref(o->root);
	o->root = NULL;
}
