/* SPDX-License-Identifier: MIT
 * kcheck_print.c - kcheck's tables, for people and for programs.
 * Threads: one. Locks: none. */
#include "plugins/check/kcheck_print.h"

#include <inttypes.h>
#include <math.h>

/* ---- JSON ---- */

static void kcheck_json_text(FILE *f, const char *key, const char *s)
{
	fprintf(f, "\"%s\":\"", key);
	for (; *s; s++)
		if (*s == '"' || *s == '\\')
			fprintf(f, "\\%c", *s);
		else if ((unsigned char)*s >= 0x20)
			fputc(*s, f);
	fputc('"', f);
}

/* JSON has no infinity: null. */
static void kcheck_json_number(FILE *f, const char *key, double v)
{
	if (isfinite(v))
		fprintf(f, ",\"%s\":%.9g", key, v);
	else
		fprintf(f, ",\"%s\":null", key);
}

static void kcheck_json_slot(const struct kcheck_print *out, const char *op, const char *phase, const char *wfmt)
{
	fputc('{', out->f);
	kcheck_json_text(out->f, "plugin", out->plugin->name);
	fputc(',', out->f);
	kcheck_json_text(out->f, "op", op);
	fputc(',', out->f);
	kcheck_json_text(out->f, "phase", phase);
	fputc(',', out->f);
	kcheck_json_text(out->f, "weights", wfmt);
}

static void kcheck_json_row(const struct kcheck_print *out, const struct check_row *r)
{
	kcheck_json_slot(out, op_name(r->op), op_phase_name(r->phase), check_wfmt_name(r->op, r->wfmt));
	fputc(',', out->f);
	kcheck_json_text(out->f, "numerics", op_numerics_name((enum dsv4_numerics)r->entry->numerics));
	fputc(',', out->f);
	kcheck_json_text(out->f, "class", check_class_name(r->class));
	fputc(',', out->f);
	kcheck_json_text(out->f, "verdict", check_verdict_name(r->verdict));
	fprintf(out->f, ",\"cases\":%d", r->n_case);
	kcheck_json_number(out->f, "figure", r->figure);
	kcheck_json_number(out->f, "limit", r->limit);
	fputc(',', out->f);
	kcheck_json_text(out->f, "detail", r->detail);
	fputs("}\n", out->f);
}

/* ---- checks ---- */

void kcheck_print_head(const struct kcheck_print *out, uint64_t seed)
{
	if (out->json)
		return;
	fprintf(out->f, "%s %s, seed %" PRIu64 "\n", out->plugin->name, out->plugin->version, seed);
	fprintf(out->f, "  %-12s %-8s %-6s %-9s %-6s %5s  %-9s %-9s %s\n", "op", "phase", "weight", "numerics",
		"class", "cases", "figure", "limit", "verdict");
}

void kcheck_print_row(void *arg, const struct check_row *r)
{
	struct kcheck_print *out = arg;

	out->n_row++;
	out->n_failed += r->verdict != CHECK_PASS;
	if (out->json) {
		kcheck_json_row(out, r);
		return;
	}
	fprintf(out->f, "  %-12s %-8s %-6s %-9s %-6s %5d  %-9.3g %-9.3g %s\n", op_name(r->op),
		op_phase_name(r->phase), check_wfmt_name(r->op, r->wfmt),
		op_numerics_name((enum dsv4_numerics)r->entry->numerics),
		check_class_name(r->class), r->n_case, r->figure, r->limit, check_verdict_name(r->verdict));
	if (r->detail[0])
		fprintf(out->f, "      %s\n", r->detail);
	fflush(out->f);
}

void kcheck_print_end(const struct kcheck_print *out)
{
	if (!out->json)
		fprintf(out->f, "%s: %d of %d pass\n", out->plugin->name, out->n_row - out->n_failed, out->n_row);
}

/* ---- speeds ---- */

void kcheck_print_bench_head(const struct kcheck_print *out)
{
	if (out->json)
		return;
	fprintf(out->f, "%s %s, %d threads; roofs: %.1f GB/s read, %.1f GFLOP/s multiply-add\n", out->plugin->name,
		out->plugin->version, out->roof.n_threads, out->roof.bytes_s / 1e9, out->roof.flops_s / 1e9);
	fprintf(out->f, "  %-12s %-8s %-6s %-6s %5s %12s %8s %8s %10s %s\n", "op", "phase", "weight", "shape", "tok",
		"ns", "ref/this", "GB/s", "GFLOP/s", "of roof");
}

void kcheck_print_speed(void *arg, const struct check_speed *s)
{
	const struct kcheck_print *out = arg;
	double read = s->bytes / s->ns * 1e9, flop = s->flops / s->ns * 1e9;
	double share = fmax(read / out->roof.bytes_s, flop / out->roof.flops_s);

	if (!out->json) {
		fprintf(out->f, "  %-12s %-8s %-6s %-6s %5d %12.0f %8.2f %8.2f %10.2f %5.1f%%\n", op_name(s->op),
			op_phase_name(s->phase), check_wfmt_name(s->op, s->wfmt), s->shape, s->n_tok, s->ns,
			s->ref_ns / s->ns, read / 1e9, flop / 1e9, 100 * share);
		fflush(out->f);
		return;
	}
	kcheck_json_slot(out, op_name(s->op), op_phase_name(s->phase), check_wfmt_name(s->op, s->wfmt));
	fputc(',', out->f);
	kcheck_json_text(out->f, "shape", s->shape);
	fprintf(out->f, ",\"tokens\":%d", s->n_tok);
	kcheck_json_number(out->f, "ns", s->ns);
	kcheck_json_number(out->f, "ref_ns", s->ref_ns);
	kcheck_json_number(out->f, "gb_s", read / 1e9);
	kcheck_json_number(out->f, "gflop_s", flop / 1e9);
	kcheck_json_number(out->f, "of_roof", share);
	fputs("}\n", out->f);
}
