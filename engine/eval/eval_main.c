/* SPDX-License-Identifier: MIT
 * eval_main.c - the dsv4-eval command: numbers out of a checkpoint without a server, and their comparison.
 * Threads: main, and the pool's. Locks: none. */
#include "engine/base/mem.h"
#include "engine/base/options.h"
#include "engine/base/rc.h"
#include "engine/eval/eval.h"
#include "engine/eval/eval_plugins.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EVAL_CHUNK 512
#define EVAL_MAX_SETS 64

enum eval_exit { EVAL_OK, EVAL_BEYOND, EVAL_USAGE = OPTIONS_USAGE, EVAL_UNAVAILABLE = 69, EVAL_TEMPORARY = 75 };

/* The command line; OPT(long name, argument or "", text). */
#define EVAL_OPTS(OPT) \
	OPT(model, "DIR", "checkpoint directory") \
	OPT(in, "FILE", "cases: NAME.tokens and NAME.positions, .safetensors") \
	OPT(out, "FILE", "results, .safetensors") \
	OPT(profile, "NAME", "native (default) or exact numerics") \
	OPT(set, "P=V", "one numerics parameter; may be repeated") \
	OPT(device, "NAME", "what computes: cpu (default), cuda or cuda:N") \
	OPT(plugin, "FILE", "load kernels, for --kernels to name; may be repeated") \
	OPT(kernels, "SLOT", "FAMILY|OP[.PHASE]=PLUGIN or all=PLUGIN; may be repeated, later ones win") \
	OPT(chunk, "N", "tokens per step (default 512); 1 runs the decode kernels") \
	OPT(threads, "N", "threads (default: one per CPU)") \
	OPT(top_only, "", "only the logits: no layers, no MTP") \
	OPT(diff, "", "compare two result files A and B") \
	OPT(tolerance, "X", "diff: largest relative RMS at any position; beyond it the exit status is 1") \
	OPT(median, "X", "diff: largest median over a tensor's positions") \
	OPT(gap, "X", "diff: top-1 may differ where B's two best logits are this close (default 1e-3)") \
	OPT(sets, "X", "diff: share of all positions whose experts, and whose rows, are equal (default 1)") \
	OPT(margin, "X", "diff: rows are judged where B's margin is above this (default 1e-4)") \
	OPT(only, "LIST", "diff: only these of logits,mtp,streams,experts,rows,margin") \
	OPT(help, "", "this text") \
	OPT(version, "", "the version")

enum eval_opt {
#define OPT(name, arg, text) EVAL_OPT_##name,
	EVAL_OPTS(OPT)
#undef OPT
};

static const struct options_row eval_rows[] = { EVAL_OPTS(OPTIONS_ROW) };
static const struct options eval_options = { "dsv4-eval", eval_rows, (int)mem_countof(eval_rows) };

struct eval_args {
	const char *model, *in, *out, *device;
	const char *set[EVAL_MAX_SETS], *plugin[EVAL_MAX_SETS], *kernels[EVAL_MAX_SETS];
	int n_set, n_plugin, n_kernels, chunk, threads;
	enum numerics_profile profile;
	bool top_only, diff;
	struct eval_limits limits;
};

/* ---- usage ---- */

static void eval_help(void)
{
	printf("usage: dsv4-eval --model DIR --in FILE --out FILE [OPTION]...\n"
		   "       dsv4-eval --diff A B [OPTION]...\n\n"
		   "Runs token sequences through a model and writes its numbers layer by layer, under the\n"
		   "names NAME.logits, .streams.L, .experts.L, .rows.L, .margin.L and .mtp; or compares two\n"
		   "such files.\n\n");
	options_help(&eval_options);
	printf("\nParameters of --set:\n");
	for (int i = 0; i < numerics_count; i++)
		printf("  %-18s %-18s %s\n", numerics_table[i].name, numerics_table[i].choices,
			numerics_table[i].text);
	printf("\nExit status: 0 done, 1 beyond the tolerance, 2 wrong usage or input file,\n"
		   "69 model or kernels unavailable, 75 out of memory.\n");
}

static int eval_usage(const char *text, const char *arg)
{
	return options_usage(&eval_options, text, arg);
}

/* ---- options ---- */

static int eval_real(enum eval_opt opt, const char *text, double *ret_x)
{
	char name[32], *end;
	double v = strtod(text, &end);

	if (end == text || *end || !isfinite(v) || v < 0) {
		fprintf(stderr, "dsv4-eval: --%s: \"%s\" is not a number of 0 or more\n",
			options_name(&eval_options, (int)opt, name), text);
		return EVAL_USAGE;
	}
	*ret_x = v;
	return 0;
}

static int eval_append(const char *what, const char **list, int *n, const char *text)
{
	if (*n == EVAL_MAX_SETS)
		return eval_usage("too many of --", what);
	list[(*n)++] = text;
	return 0;
}

static int eval_profile(const char *text, enum numerics_profile *ret_p)
{
	if (strcmp(text, "native") && strcmp(text, "exact"))
		return eval_usage("--profile: expected native or exact, found ", text);
	*ret_p = text[0] == 'e' ? NUMERICS_EXACT : NUMERICS_NATIVE;
	return 0;
}

/* One option; 0, EVAL_USAGE, or -1 to end the program well. */
static int eval_option(void *args, int opt, const char *arg)
{
	struct eval_args *a = args;

	switch ((enum eval_opt)opt) {
	case EVAL_OPT_model: a->model = arg; return 0;
	case EVAL_OPT_in: a->in = arg; return 0;
	case EVAL_OPT_out: a->out = arg; return 0;
	case EVAL_OPT_profile: return eval_profile(arg, &a->profile);
	case EVAL_OPT_set: return eval_append("set", a->set, &a->n_set, arg);
	case EVAL_OPT_device: a->device = arg; return 0;
	case EVAL_OPT_plugin: return eval_append("plugin", a->plugin, &a->n_plugin, arg);
	case EVAL_OPT_kernels: return eval_append("kernels", a->kernels, &a->n_kernels, arg);
	case EVAL_OPT_chunk: return options_int(&eval_options, opt, arg, 1, 1 << 20, &a->chunk);
	case EVAL_OPT_threads: return options_int(&eval_options, opt, arg, 1, POOL_MAX_THREADS, &a->threads);
	case EVAL_OPT_top_only: a->top_only = true; return 0;
	case EVAL_OPT_diff: a->diff = true; return 0;
	case EVAL_OPT_tolerance: return eval_real((enum eval_opt)opt, arg, &a->limits.worst);
	case EVAL_OPT_median: return eval_real((enum eval_opt)opt, arg, &a->limits.median);
	case EVAL_OPT_gap: return eval_real((enum eval_opt)opt, arg, &a->limits.gap);
	case EVAL_OPT_sets: return eval_real((enum eval_opt)opt, arg, &a->limits.sets);
	case EVAL_OPT_margin: return eval_real((enum eval_opt)opt, arg, &a->limits.margin);
	case EVAL_OPT_only: a->limits.only = arg; return 0;
	case EVAL_OPT_help: eval_help(); return -1;
	case EVAL_OPT_version: puts("dsv4-eval " PACKAGE_VERSION); return -1;
	}
	return EVAL_USAGE;
}

/* ---- running ---- */

static int eval_fail(int status, int rc, const char *text, struct buf *why)
{
	fprintf(stderr, "dsv4-eval: %s%s\n", text, why->len ? buf_str(why) : rc_text(rc));
	return rc == -ENOMEM ? EVAL_TEMPORARY : status;
}

static int eval_numerics(const struct eval_args *a, const struct model_config *c, struct numerics *n,
	struct buf *why)
{
	numerics_init(n, a->profile, c->index_topk);
	for (int i = 0; i < a->n_set; i++) {
		const char *eq = strchr(a->set[i], '=');
		char name[64];

		if (!eq || (size_t)(eq - a->set[i]) >= sizeof name)
			return eval_usage("--set: expected PARAMETER=VALUE, found ", a->set[i]);
		snprintf(name, sizeof name, "%.*s", (int)(eq - a->set[i]), a->set[i]);
		if (numerics_set(n, name, eq + 1, why) < 0)
			return eval_fail(EVAL_USAGE, 0, "--set: ", why);
	}
	return 0;
}

static int eval_kernels(const struct eval_args *a, struct eval_plugins *p, struct kset **ret_ks, struct buf *why)
{
	struct kset_overlay ov[KSET_MAX_OVERLAYS];
	int rc, n = 0;

	for (int i = 0; i < a->n_plugin; i++) {
		rc = eval_plugins_load(p, a->plugin[i], why);
		if (rc < 0)
			return eval_fail(rc == RC_INVALID ? EVAL_USAGE : EVAL_UNAVAILABLE, rc,
				"--plugin: ", why);
	}
	for (int i = 0; i < a->n_kernels; i++) {
		rc = eval_plugins_overlay(p, a->kernels[i], ov, &n, why);
		if (rc < 0)
			return eval_fail(rc == RC_INVALID ? EVAL_USAGE : EVAL_UNAVAILABLE, rc,
				"--kernels: ", why);
	}
	rc = kset_build(ov, n, ret_ks, why);
	return rc < 0 ? eval_fail(EVAL_UNAVAILABLE, rc, "--kernels: ", why) : 0;
}

static int eval_write(const struct eval_args *a, const struct eval_options *o, const struct tensorfile *out,
	struct buf *why)
{
	const char *meta[2 * (2 + 16) + 1];
	char text[16][32];
	int n = 0, rc;

	meta[n++] = "profile";
	meta[n++] = a->profile == NUMERICS_EXACT ? "exact" : "native";
	meta[n++] = "kernels";
	meta[n++] = kset_name(o->kset);
	for (int i = 0; i < numerics_count && i < 16; i++) {
		meta[n++] = numerics_table[i].name;
		meta[n++] = numerics_get(&o->numerics, &numerics_table[i], text[i]);
	}
	meta[n] = NULL;
	rc = tensorfile_write(out, a->out, meta, why);
	return rc < 0 ? eval_fail(EVAL_USAGE, rc, "", why) : 0;
}

/* Numerics and kernels are there. */
static int eval_with_kernels(const struct eval_args *a, struct eval_options *o, const struct tensorfile *in,
	struct buf *why)
{
	struct tensorfile out = { 0 };
	int status, rc = pool_new(a->threads, &o->pool);

	if (rc < 0)
		return eval_fail(EVAL_TEMPORARY, rc, "threads: ", why);
	pool_hot(o->pool, POOL_PIN_NODE);
	rc = eval_run(o, in, &out, why);
	if (rc < 0)
		status = eval_fail(rc == RC_INVALID ? EVAL_USAGE : EVAL_UNAVAILABLE, rc, "", why);
	else
		status = eval_write(a, o, &out, why);
	pool_free(&o->pool);
	tensorfile_fini(&out);
	return status;
}

/* The model is open; the rest of a run. */
static int eval_with_model(const struct eval_args *a, struct model *m, const struct tensorfile *in,
	struct buf *why)
{
	struct eval_options o = { .model = m, .chunk = a->chunk, .top_only = a->top_only };
	struct eval_plugins plugins = { .device = m->layout.device };
	struct kset *ks = NULL;
	int rc, status = eval_numerics(a, m->config, &o.numerics, why);

	if (status == 0)
		status = eval_kernels(a, &plugins, &ks, why);
	o.kset = ks;
	if (status == 0)
		status = eval_with_kernels(a, &o, in, why);
	kset_unpin(&ks);
	rc = eval_plugins_fini(&plugins, why);
	return status == 0 && rc < 0 ? eval_fail(EVAL_UNAVAILABLE, rc, "--plugin: ", why) : status;
}

/* The cases would be gone: two names, or two links, of one file. */
static bool eval_same_file(const char *a, const char *b)
{
	struct stat x, y;

	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int eval_main_run(const struct eval_args *a, struct buf *why)
{
	struct tensorfile in = { 0 };
	struct device *d = NULL;
	struct model *m = NULL;
	int status, rc;

	if (eval_same_file(a->in, a->out))
		return eval_usage("--out is the file of --in, and would replace the cases: ", a->out);
	rc = tensorfile_read(a->in, &in, why);
	if (rc < 0)
		return eval_fail(EVAL_USAGE, rc, "", why);
	rc = device_open(a->device, &d, why);
	rc = rc ? rc : model_open(a->model, &m, why);
	rc = rc ? rc : model_place(m, d, why);
	status = rc < 0 ? eval_fail(EVAL_UNAVAILABLE, rc, "", why) : eval_with_model(a, m, &in, why);
	model_free(&m);
	device_close(&d);
	tensorfile_fini(&in);
	return status;
}

static int eval_main_diff(const struct eval_args *a, const char *file_a, const char *file_b, struct buf *why)
{
	struct tensorfile ta = { 0 }, tb = { 0 };
	struct buf table = { 0 };
	int beyond = 0, status = 0, rc = tensorfile_read(file_a, &ta, why);

	if (rc == 0)
		rc = tensorfile_read(file_b, &tb, why);
	if (rc < 0) {
		status = eval_fail(EVAL_USAGE, rc, "", why);
	} else {
		beyond = eval_diff(&ta, &tb, &a->limits, &table);
		fputs(buf_str(&table), stdout);
		if (beyond < 0)
			status = eval_usage("the two files have no result in common", "");
		else if (beyond > 0)
			status = EVAL_BEYOND;
		if (beyond >= 0)
			printf("%d tensor%s beyond the tolerance\n", beyond, beyond == 1 ? "" : "s");
	}
	buf_fini(&table);
	tensorfile_fini(&ta);
	tensorfile_fini(&tb);
	return status;
}

int main(int argc, char **argv)
{
	struct eval_args a = { .device = "cpu", .chunk = EVAL_CHUNK, .limits = { -1, -1, 1e-3, 1, 1e-4, NULL } };
	struct buf why = { 0 };
	int status = options_read(&eval_options, argc, argv, eval_option, &a);

	if (status)
		return status < 0 ? EVAL_OK : status;
	if (a.diff && argc - optind != 2)
		status = eval_usage("--diff takes two files", "");
	else if (!a.diff && optind < argc)
		status = eval_usage("what is meant by ", argv[optind]);
	else if (!a.diff && (!a.model || !a.in || !a.out))
		status = eval_usage("--model, --in and --out are needed", "");
	else
		status = a.diff ? eval_main_diff(&a, argv[optind], argv[optind + 1], &why)
				: eval_main_run(&a, &why);
	buf_fini(&why);
	return status;
}
