/* SPDX-License-Identifier: MIT
 * bench_main.c - the dsv4-bench command: roofs of the machine, and how near to them kernels,
 * the model and the server are.
 * Threads: main; pools of the engine. Locks: none. */
#include "tests/bench/bench.h"
#include "engine/base/mem.h"
#include "engine/base/options.h"
#include "engine/base/rc.h"
#include "engine/kernels/pool.h"
#include "plugins/op/op_name.h"
#include "tests/bench/mkmodel.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum bench_exit { BENCH_OK, BENCH_FAILED, BENCH_USAGE = OPTIONS_USAGE };

/* The command line; OPT(long name, argument or "", text). */
#define BENCH_OPTS(OPT) \
	OPT(json, "", "one JSON object instead of tables") \
	OPT(threads, "N", "threads (default: one per CPU)") \
	OPT(seconds, "X", "how long each item is measured (default 1)") \
	OPT(device, "NAME", "roof, op, model: what computes, cpu (default), cuda or cuda:N") \
	OPT(memory, "SIZE", "working set (default 1G)") \
	OPT(op, "NAME", "op: only this one") \
	OPT(format, "NAME", "op: only this weight format, one of f32, bf16, fp8, fp4, nvfp4") \
	OPT(shape, "ROWSxCOLS", "op: linear, and an expert's first matrix, have this shape instead of the model's") \
	OPT(tokens, "LIST", "op: tokens of a call (default 1,512)") \
	OPT(plugin, "FILE", "model, serve: load kernels, and use all of them without --kernels; may be repeated") \
	OPT(kernels, "SLOT", "model, serve: FAMILY|OP[.PHASE]=PLUGIN or all=PLUGIN; may be repeated, later ones win") \
	OPT(contexts, "LIST", "model: tokens before those that are measured (default 100,4k,32k,128k)") \
	OPT(prefill, "LIST", "model: tokens of a prefill step (default 128,512,2048), 0: none") \
	OPT(batch, "LIST", "model: sequences of a decoding step (default 1)") \
	OPT(repack, "", "model: first make the copies of FP4 experts that a server makes while it serves") \
	OPT(streams, "LIST", "serve: requests at once (default 1,2,8,32)") \
	OPT(answer, "N", "serve: tokens of an answer (default 64)") \
	OPT(words, "N", "serve: words of a prompt (default 32)") \
	OPT(beside, "N", "serve: words of a long prompt that comes to seven streams (default 1000), 0: none") \
	OPT(max_gap, "MS", "serve: the server's max_gap (default: its own)") \
	OPT(help, "", "this text") \
	OPT(version, "", "the version")

enum bench_opt {
#define OPT(name, arg, text) BENCH_OPT_##name,
	BENCH_OPTS(OPT)
#undef OPT
};

static const struct options_row bench_rows[] = { BENCH_OPTS(OPTIONS_ROW) };
static const struct options bench_options = { "dsv4-bench", bench_rows, (int)mem_countof(bench_rows) };

typedef int bench_f(struct bench *b, struct buf *why);

/* What it measures, of what, and by whom. */
static const struct bench_mode {
	const char *name, *what, *text;
	bench_f *fn;
} bench_modes[] = {
	{ "roof", "", "what the machine can read and compute at best", bench_roof },
	{ "op", "PLUGIN.so", "each kernel of a plugin (or of ref) beside a plain read of as many bytes, or the peak",
	  bench_op },
	{ "model", "DIR", "a checkpoint's decoding and prefill behind contexts of any length", bench_model },
	{ "serve", "URL|DIR", "a server's streams: one that runs, or one started for a checkpoint", bench_serve },
};

static void bench_help(void)
{
	for (size_t i = 0; i < mem_countof(bench_modes); i++)
		printf("%s dsv4-bench %s%s%s [OPTION]...\n", i ? "      " : "usage:", bench_modes[i].name,
		       bench_modes[i].what[0] ? " " : "", bench_modes[i].what);
	putchar('\n');
	for (size_t i = 0; i < mem_countof(bench_modes); i++)
		printf("  %-8s %s\n", bench_modes[i].name, bench_modes[i].text);
	putchar('\n');
	options_help(&bench_options);
	printf("\nExit status: 0 measured, 1 not measured, 2 wrong usage.\n");
}

static int bench_usage(const char *text, const char *arg)
{
	return options_usage(&bench_options, text, arg);
}

/* ---- options ---- */

/* A number with an optional K, M or G behind it, which are powers of `unit`; *ret_end is what follows. */
static bool bench_number(const char *text, double unit, double *ret_x, const char **ret_end)
{
	static const char units[] = "kmg";
	char *end;

	errno = 0;
	*ret_x = strtod(text, &end);
	if (end == text || errno || !isfinite(*ret_x) || *ret_x < 0)
		return false;
	for (int i = 0; *end && i < 3; i++)
		if ((*end | 32) == units[i]) {
			*ret_x *= pow(unit, i + 1);
			end++;
			break;
		}
	*ret_end = end;
	return true;
}

static int bench_real_option(int opt, const char *text, double unit, double min, double max, double *ret_x)
{
	const char *end;
	char message[96], name[32];

	if (bench_number(text, unit, ret_x, &end) && !*end && *ret_x >= min && *ret_x <= max)
		return 0;
	snprintf(message, sizeof message, "--%s: not a number from %g to %g: ", options_name(&bench_options, opt, name),
		 min, max);
	return bench_usage(message, text);
}

static int bench_int_option(int opt, const char *text, int low, int *ret_n)
{
	double x = 0;
	int rc = bench_real_option(opt, text, 1024, low, 1 << 24, &x);

	*ret_n = (int)x;
	return rc;
}

/* Several whole numbers; k is 1024 here. */
static int bench_list_option(int opt, const char *text, struct bench_list *ret_l)
{
	const char *p = text;
	char message[96], name[32];
	double x;

	for (ret_l->n = 0; ret_l->n < BENCH_MAX_LIST && bench_number(p, 1024, &x, &p) && x >= 1 && x <= 1e9;) {
		ret_l->v[ret_l->n++] = (int64_t)x;
		if (!*p)
			return 0;
		if (*p++ != ',')
			break;
	}
	snprintf(message, sizeof message, "--%s: expected numbers with commas between them, found ",
		 options_name(&bench_options, opt, name));
	return bench_usage(message, text);
}

static int bench_text_option(int opt, const char *text, struct bench_texts *ret_t)
{
	char name[32];

	if (ret_t->n == BENCH_MAX_LIST)
		return bench_usage("too many of --", options_name(&bench_options, opt, name));
	ret_t->v[ret_t->n++] = text;
	return 0;
}

static int bench_op_option(struct bench_args *a, const char *text)
{
	for (int op = 0; op < DSV4_N_OP; op++)
		if (strcmp(op_name((enum dsv4_op)op), text) == 0) {
			a->op = op;
			return 0;
		}
	return bench_usage("--op: there is no op ", text);
}

static int bench_format_option(struct bench_args *a, const char *text)
{
	for (int f = 0; f < DSV4_N_WFMT; f++)
		if (strcmp(op_wfmt_name((enum dsv4_wfmt)f), text) == 0) {
			a->format = f;
			return 0;
		}
	return bench_usage("--format: expected f32, bf16, fp8, fp4 or nvfp4, found ", text);
}

static int bench_shape_option(struct bench_args *a, const char *text)
{
	long rows = 0, cols = 0;
	int end = 0;

	if (sscanf(text, "%ldx%ld%n", &rows, &cols, &end) != 2 || text[end] || rows < 1 || cols < 1 || rows > 1 << 24 ||
	    cols > 1 << 24)
		return bench_usage("--shape: expected ROWSxCOLS, found ", text);
	a->rows = rows;
	a->cols = cols;
	return 0;
}

/* One option; 0, BENCH_USAGE, or -1 to end the program well. */
static int bench_option(void *args, int opt, const char *arg)
{
	struct bench_args *a = args;
	double x = 0;
	int rc;

	switch ((enum bench_opt)opt) {
	case BENCH_OPT_json: a->json = true; return 0;
	case BENCH_OPT_threads:
		rc = bench_real_option(opt, arg, 1024, 1, POOL_MAX_THREADS, &x);
		a->threads = (int)x;
		return rc;
	case BENCH_OPT_seconds: return bench_real_option(opt, arg, 1000, 0, 1e5, &a->seconds);
	case BENCH_OPT_device: a->device = arg; return 0;
	case BENCH_OPT_memory:
		rc = bench_real_option(opt, arg, 1024, 1 << 20, 1e13, &x);
		a->memory = (size_t)x;
		return rc;
	case BENCH_OPT_op: return bench_op_option(a, arg);
	case BENCH_OPT_format: return bench_format_option(a, arg);
	case BENCH_OPT_shape: return bench_shape_option(a, arg);
	case BENCH_OPT_tokens: return bench_list_option(opt, arg, &a->tokens);
	case BENCH_OPT_plugin: return bench_text_option(opt, arg, &a->plugins);
	case BENCH_OPT_kernels: return bench_text_option(opt, arg, &a->kernels);
	case BENCH_OPT_contexts: return bench_list_option(opt, arg, &a->contexts);
	case BENCH_OPT_prefill:
		a->prefill.n = 0;
		return strcmp(arg, "0") == 0 ? 0 : bench_list_option(opt, arg, &a->prefill);
	case BENCH_OPT_batch: return bench_list_option(opt, arg, &a->batch);
	case BENCH_OPT_repack: a->repack = true; return 0;
	case BENCH_OPT_streams: return bench_list_option(opt, arg, &a->streams);
	case BENCH_OPT_answer: return bench_int_option(opt, arg, 1, &a->answer);
	case BENCH_OPT_words: return bench_int_option(opt, arg, 1, &a->words);
	case BENCH_OPT_beside: return bench_int_option(opt, arg, 0, &a->beside);
	case BENCH_OPT_max_gap: return bench_int_option(opt, arg, 0, &a->max_gap);
	case BENCH_OPT_help: bench_help(); return -1;
	case BENCH_OPT_version: puts("dsv4-bench " PACKAGE_VERSION); return -1;
	}
	return BENCH_USAGE;
}

static int bench_parse(struct bench_args *a, int argc, char **argv, const struct bench_mode **ret_mode)
{
	int rc = options_read(&bench_options, argc, argv, bench_option, a);

	if (rc)
		return rc;
	if (optind == argc)
		return bench_usage("what is to be measured?", "");
	for (size_t i = 0; i < mem_countof(bench_modes); i++)
		if (strcmp(argv[optind], bench_modes[i].name) == 0)
			*ret_mode = &bench_modes[i];
	if (!*ret_mode)
		return bench_usage("nothing to measure is called ", argv[optind]);
	a->what = argv[optind + 1];
	if ((argc - optind == 2) != ((*ret_mode)->what[0] != 0))
		return bench_usage((*ret_mode)->what[0] ? "needed behind the mode, once: " :
				   "nothing more is taken by ",
				   (*ret_mode)->what[0] ? (*ret_mode)->what : (*ret_mode)->name);
	return 0;
}

/* With the GPU, if one is asked for. */
static int bench_run(struct bench *b, const struct bench_mode *mode, struct buf *why)
{
	struct bench_gpu gpu = { 0 };
	int rc;

	if (strcmp(b->args.device, "cpu") == 0)
		return mode->fn(b, why);
	if (mode->fn == bench_serve)
		return buf_why(why, RC_INVALID, "serve has no --device: start dsv4d --device %s, and give its URL",
			       b->args.device);
	rc = bench_gpu_open(&gpu, b->args.device, why);
	if (rc == 0) {
		b->gpu = &gpu;
		bench_print_gpu(&b->out, gpu.device);
		rc = mode->fn(b, why);
	}
	bench_gpu_close(&gpu);
	return rc;
}

int main(int argc, char **argv)
{
	struct bench b = { .args = { .device = "cpu", .seconds = 1, .memory = (size_t)1 << 30, .op = -1, .format = -1,
				     .tokens = { 2, { 1, 512 } }, .contexts = { 4, { 100, 4096, 32768, 131072 } },
				     .prefill = { 3, { 128, 512, 2048 } }, .batch = { 1, { 1 } },
				     .streams = { 4, { 1, 2, 8, 32 } }, .answer = 64, .words = 32, .beside = 1000,
				     .max_gap = -1 } };
	const struct bench_mode *mode = NULL;
	struct buf why = { 0 };
	int rc = bench_parse(&b.args, argc, argv, &mode);

	if (rc)
		return rc < 0 ? BENCH_OK : rc;
	bench_host_read(&b.host);
	b.args.threads = b.args.threads ? b.args.threads : b.host.cpus;
	mkmodel_fill_init();
	bench_progress_init(&b.bar);
	bench_print_init(&b.out, b.args.json, mode->name, &b.bar);
	bench_print_host(&b.out, &b.host, b.args.threads);
	rc = bench_run(&b, mode, &why);
	bench_print_end(&b.out, rc == 0);
	if (rc)
		fprintf(stderr, "dsv4-bench: %s\n", why.len ? buf_str(&why) : rc_text(rc));
	buf_fini(&why);
	return rc == RC_INVALID ? BENCH_USAGE : rc ? BENCH_FAILED : BENCH_OK;
}
