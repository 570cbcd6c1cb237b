/* SPDX-License-Identifier: MIT
 * mkmodel_main.c - the dsv4-mkmodel command: a checkpoint of random weights, of any shape, in the published format.
 * Threads: main, and those that write. Locks: none here. */
#include "engine/base/mem.h"
#include "engine/base/options.h"
#include "engine/base/rc.h"
#include "tests/bench/mkmodel.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum mkmodel_exit { MKMODEL_OK, MKMODEL_FAILED, MKMODEL_USAGE = OPTIONS_USAGE };

/* The command line; OPT(long name, argument or "", text). */
#define MKMODEL_OPTS(OPT) \
	OPT(config, "FILE", "begin with this config.json; tokenizer.json beside it is copied") \
	OPT(shape, "NAME", "begin with flash (default) or tiny, which is small and quick") \
	OPT(layers, "N", "so many layers") \
	OPT(ratios, "LIST", "compression ratio of each layer, such as 0,4,128; repeated where layers are more") \
	OPT(experts, "N", "so many routed experts") \
	OPT(hash_layers, "N", "so many layers that route by token") \
	OPT(vocab, "N", "so many tokens, the size of embedding and head") \
	OPT(mtp, "", "with the draft block") \
	OPT(format, "NAME", "of routed experts: fp4 (default), fp8, nvfp4, bf16") \
	OPT(seed, "N", "of the random numbers (default 1); the same seed gives the same bytes") \
	OPT(shard_size, "SIZE", "largest file, such as 5G (default) or 800M") \
	OPT(tokenizer, "FILE", "tokenizer.json to copy (default: the one beside --config, else the embedded model's)") \
	OPT(sparse, "", "headers over holes, which read as zeros: the whole inventory in no time and space") \
	OPT(threads, "N", "threads (default: one per CPU)") \
	OPT(help, "", "this text") \
	OPT(version, "", "the version")

enum mkmodel_opt {
#define OPT(name, arg, text) MKMODEL_OPT_##name,
	MKMODEL_OPTS(OPT)
#undef OPT
};

static const struct options_row mkmodel_rows[] = { MKMODEL_OPTS(OPTIONS_ROW) };
static const struct options mkmodel_options = { "dsv4-mkmodel", mkmodel_rows, (int)mem_countof(mkmodel_rows) };

struct mkmodel_args {
	struct mkmodel_shape shape;
	struct mkmodel_options write;
	uint64_t seed, shard_bytes;
};

static void mkmodel_help(void)
{
	printf("usage: dsv4-mkmodel [OPTION]... DIR\n\n"
	       "Writes a checkpoint of random weights in the published format into DIR, which must be new or "
	       "empty.\n\n");
	options_help(&mkmodel_options);
	printf("\nExit status: 0 done, 1 not done, 2 wrong usage.\n");
}

static int mkmodel_usage(const char *text, const char *arg)
{
	return options_usage(&mkmodel_options, text, arg);
}

/* ---- options ---- */

static int mkmodel_int(int opt, const char *text, int min, int *ret_n)
{
	return options_int(&mkmodel_options, opt, text, min, 1 << 24, ret_n);
}

/* With K, M, G or T, which are powers of 1024. */
static int mkmodel_size(const char *text, uint64_t *ret_bytes)
{
	static const char units[] = "KMGT";
	char *end;
	double n = strtod(text, &end);
	const char *unit = *end ? strchr(units, *end) : NULL;

	if (end == text || !(n > 0) || (*end && (!unit || end[1])))
		return mkmodel_usage("--shard-size: expected a size such as 5G, found ", text);
	for (long i = unit ? unit - units : -1; i >= 0; i--)
		n *= 1024;
	if (n < 1 || n > 1e18)
		return mkmodel_usage("--shard-size: too small or too large: ", text);
	*ret_bytes = (uint64_t)n;
	return 0;
}

static int mkmodel_format(const char *text, enum mkmodel_format *ret_f)
{
	int f = mkmodel_format_find(text);

	if (f < 0)
		return mkmodel_usage("--format: expected fp4, fp8, nvfp4 or bf16, found ", text);
	*ret_f = (enum mkmodel_format)f;
	return 0;
}

/* One option; 0, MKMODEL_USAGE, or -1 to end the program well. */
static int mkmodel_option(void *args, int opt, const char *arg)
{
	struct mkmodel_args *a = args;
	int64_t n = 0;
	int rc;

	switch ((enum mkmodel_opt)opt) {
	case MKMODEL_OPT_config: a->shape.file = arg; return 0;
	case MKMODEL_OPT_shape: a->shape.name = arg; return 0;
	case MKMODEL_OPT_layers: return mkmodel_int(opt, arg, 1, &a->shape.layers);
	case MKMODEL_OPT_ratios: a->shape.ratios = arg; return 0;
	case MKMODEL_OPT_experts: return mkmodel_int(opt, arg, 1, &a->shape.experts);
	case MKMODEL_OPT_hash_layers: return mkmodel_int(opt, arg, 0, &a->shape.hash_layers);
	case MKMODEL_OPT_vocab: return mkmodel_int(opt, arg, 2, &a->shape.vocab);
	case MKMODEL_OPT_mtp: a->shape.mtp = true; return 0;
	case MKMODEL_OPT_format: return mkmodel_format(arg, &a->shape.format);
	case MKMODEL_OPT_seed:
		rc = options_number(&mkmodel_options, opt, arg, 0, INT64_MAX, &n);
		a->seed = (uint64_t)n;
		return rc;
	case MKMODEL_OPT_shard_size: return mkmodel_size(arg, &a->shard_bytes);
	case MKMODEL_OPT_tokenizer: a->write.tokenizer = arg; return 0;
	case MKMODEL_OPT_sparse: a->write.sparse = true; return 0;
	case MKMODEL_OPT_threads: return mkmodel_int(opt, arg, 1, &a->write.n_threads);
	case MKMODEL_OPT_help: mkmodel_help(); return -1;
	case MKMODEL_OPT_version: puts("dsv4-mkmodel " PACKAGE_VERSION); return -1;
	}
	return MKMODEL_USAGE;
}

static int mkmodel_parse(struct mkmodel_args *a, int argc, char **argv)
{
	int rc = options_read(&mkmodel_options, argc, argv, mkmodel_option, a);

	if (rc)
		return rc;
	if (a->shape.file && a->shape.name)
		return mkmodel_usage("--config and --shape exclude each other", "");
	a->shape.name = a->shape.name ? a->shape.name : "flash";
	if (argc - optind != 1)
		return mkmodel_usage(argc == optind ? "which directory?" : "one directory, not ",
				     argc == optind ? "" : argv[optind + 1]);
	a->write.dir = argv[optind];
	return 0;
}

/* ---- running ---- */

/* A file beside --config, or NULL. */
static const char *mkmodel_beside(const char *config, const char *name, char path[PATH_MAX])
{
	const char *slash = config ? strrchr(config, '/') : NULL;

	if (!config)
		return NULL;
	snprintf(path, PATH_MAX, "%.*s%s", slash ? (int)(slash - config + 1) : 0, config, name);
	return access(path, R_OK) == 0 ? path : NULL;
}

static void mkmodel_texts(struct mkmodel_args *a)
{
	static char tokenizer[PATH_MAX], generation[PATH_MAX];

	a->write.generation = mkmodel_beside(a->shape.file, "generation_config.json", generation);
	if (!a->write.tokenizer)
		a->write.tokenizer = mkmodel_beside(a->shape.file, "tokenizer.json", tokenizer);
	if (!a->write.tokenizer)
		a->write.tokenizer = mkmodel_beside(DSV4_PKGDATADIR "/tiny/", "tokenizer.json", tokenizer);
	if (!a->write.tokenizer)
		fputs("dsv4-mkmodel: no tokenizer.json is copied, without which dsv4d cannot serve; --tokenizer names "
		      "one\n", stderr);
}

static int mkmodel_run(struct mkmodel_args *a, struct buf *why)
{
	struct buf config = { 0 };
	struct model_config c;
	struct mkmodel_plan p;
	int rc = mkmodel_config(&a->shape, &config, &c, why);

	if (rc == 0) {
		mkmodel_texts(a);
		mkmodel_plan_init(&p, &c, a->shape.format, a->seed, a->shard_bytes);
		rc = mkmodel_write(&p, &a->write, &config, why);
		if (rc == 0)
			printf("%s: %d tensors, %.2f GB, %d file%s\n", a->write.dir, p.n, (double)p.bytes / 1e9,
			       p.n_shard, p.n_shard == 1 ? "" : "s");
		mkmodel_plan_fini(&p);
	}
	buf_fini(&config);
	return rc;
}

int main(int argc, char **argv)
{
	struct mkmodel_args a = { .shape = { .hash_layers = -1 }, .seed = 1, .shard_bytes = (uint64_t)5 << 30 };
	struct buf why = { 0 };
	cpu_set_t set;
	int rc;

	a.write.n_threads = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
	rc = mkmodel_parse(&a, argc, argv);
	if (rc)
		return rc < 0 ? MKMODEL_OK : rc;
	rc = mkmodel_run(&a, &why);
	if (rc)
		fprintf(stderr, "dsv4-mkmodel: %s\n", why.len ? buf_str(&why) : rc_text(rc));
	buf_fini(&why);
	return rc == RC_INVALID ? MKMODEL_USAGE : rc ? MKMODEL_FAILED : MKMODEL_OK;
}
