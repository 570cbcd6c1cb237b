/* SPDX-License-Identifier: MIT
 * kcheck.c - the kcheck command: is every op of a plugin right, inside its bounds, bit-identical; and how fast?
 * Threads: main, and the check library's. Locks: none. */
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/options.h"
#include "engine/base/rc.h"
#include "engine/plugin/plugin_map.h"
#include "plugins/check/check.h"
#include "plugins/check/kcheck_device.h"
#include "plugins/check/kcheck_print.h"
#include "plugins/ref/ref.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum kcheck_exit { KCHECK_OK, KCHECK_WRONG, KCHECK_USAGE = OPTIONS_USAGE, KCHECK_UNAVAILABLE = 69,
		   KCHECK_TEMPORARY = 75 };

/* The command line; OPT(long name, argument or "", text). */
#define KCHECK_OPTS(OPT) \
	OPT(op, "OP", "only this op, e.g. linear") \
	OPT(seed, "N", "other values for every N; \"random\": any, printed (default 1)") \
	OPT(quick, "", "seconds, not minutes: fewer cases") \
	OPT(shape, "NAME", "tiny or flash (default: both)") \
	OPT(device, "NAME", "check plugins for GPUs on this one, e.g. cuda:0") \
	OPT(bench, "", "time each op against ref and the machine's roofs, instead of checking") \
	OPT(threads, "N", "bench: threads (default: one per CPU)") \
	OPT(json, "", "one JSON object per line and row") \
	OPT(help, "", "this text") \
	OPT(version, "", "the version")

enum kcheck_opt {
#define OPT(name, arg, text) KCHECK_OPT_##name,
	KCHECK_OPTS(OPT)
#undef OPT
};

static const struct options_row kcheck_rows[] = { KCHECK_OPTS(OPTIONS_ROW) };
static const struct options kcheck_options = { "kcheck", kcheck_rows, (int)mem_countof(kcheck_rows) };

struct kcheck_args {
	int op, threads;
	uint64_t seed;
	const struct check_shape *shape;
	bool quick, bench, json;
	const char *device;
	struct kcheck_device gpu;  /* gpu.device NULL: none */
};

static void kcheck_help(void)
{
	printf("usage: kcheck [OPTION]... [FILE.so|ref]...\n\n"
	       "Checks the kernels of plugins against ref. Without a file: ref against itself, which checks the\n"
	       "check. Exit status: 0 all pass, 1 something is wrong, 2 usage, 69 a plugin cannot be loaded.\n\n");
	options_help(&kcheck_options);
}

/* ---- where it was when a kernel died ---- */

static struct {
	char plugin[64], doing[CHECK_DOING];
} kcheck_where;

static void kcheck_put(const char *s)
{
	if (write(STDERR_FILENO, s, strlen(s)) < 0)
		_exit(KCHECK_WRONG);
}

static void kcheck_died(int signal)
{
	kcheck_put("kcheck: ");
	kcheck_put(kcheck_where.plugin);
	kcheck_put(signal == SIGSEGV || signal == SIGBUS ?
			   ": touched memory that is not there, or wrote what is only to be read, in " :
			   ": died of a signal, in ");
	kcheck_put(kcheck_where.doing);
	kcheck_put("\n");
	_exit(KCHECK_WRONG);
}

static void kcheck_catch(void)
{
	static const int signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT };
	struct sigaction act = { .sa_handler = kcheck_died, .sa_flags = (int)SA_RESETHAND };

	for (size_t i = 0; i < mem_countof(signals); i++)
		sigaction(signals[i], &act, NULL);
}

/* ---- one plugin ---- */

static void kcheck_log(const struct provider *p, int level, const char *text)
{
	(void)level;
	fprintf(stderr, "kcheck: %s: %s\n", p->plugin->name, text);
}

static int kcheck_rc(int rc)
{
	if (rc >= 0)
		return rc ? KCHECK_WRONG : KCHECK_OK;
	fprintf(stderr, "kcheck: %s\n", rc_text(rc));
	return KCHECK_TEMPORARY;
}

/* Else a plugin would pass by offering nothing. */
static int kcheck_nothing(const struct dsv4_plugin *p)
{
	fprintf(stderr, "kcheck: %s has no op to check\n", p->name);
	return KCHECK_WRONG;
}

static int kcheck_run(const struct kcheck_args *a, const struct dsv4_plugin *p, const struct dsv4_host *host)
{
	struct kcheck_print out = { .f = stdout, .plugin = p, .json = a->json };
	const struct check_options o = { .shape = a->shape, .n_shape = 1, .seed = a->seed, .quick = a->quick,
					 .op = a->op, .fence = true, .device = *p->gpu ? &a->gpu.check : NULL,
					 .doing = kcheck_where.doing, .report = kcheck_print_row, .arg = &out };
	const struct check_bench_options b = { .shape = a->shape, .n_shape = 1, .op = a->op,
					       .n_threads = a->threads, .report = kcheck_print_speed, .arg = &out };
	int rc;

	snprintf(kcheck_where.plugin, sizeof kcheck_where.plugin, "%s", p->name);
	if (!a->bench) {
		kcheck_print_head(&out, a->seed);
		rc = check_plugin(p, host, &o);
		kcheck_print_end(&out);
		return out.n_row || rc < 0 ? kcheck_rc(rc) : kcheck_nothing(p);
	}
	if (*p->gpu) {
		fprintf(stderr, "kcheck: %s: --bench knows no GPU\n", p->name);
		return KCHECK_USAGE;
	}
	rc = check_roof_measure(a->threads, &out.roof);
	if (rc < 0)
		return kcheck_rc(rc);
	kcheck_print_bench_head(&out);
	return kcheck_rc(check_bench(p, host, &b));
}

/* Maps a copy of the file, in a directory of our own. */
static int kcheck_map(const struct kcheck_args *a, const char *file, const char *tmp, struct plugin_map **ret_m,
		      struct buf *why)
{
	const char *slash = strrchr(file, '/');
	char *dir = slash ? mem_strndup(file, slash == file ? 1 : (size_t)(slash - file)) : mem_strdup(".");
	struct device *d = a->gpu.device ? a->gpu.device : device_cpu();
	struct plugin_file *pf = NULL;
	char *copy;
	int rc = plugin_file_open(dir, slash ? slash + 1 : file, getuid(), &pf, why);

	if (!rc)
		rc = plugin_facts_fit(&pf->facts, d, why);
	if (!rc)
		rc = plugin_file_copy(pf, tmp, &copy, why);
	if (!rc)
		rc = plugin_map_new(copy, pf, kcheck_log, ret_m, why);
	if (!rc)
		plugin_map_on(*ret_m, d);
	plugin_file_free(&pf);
	free(dir);
	return rc;
}

static int kcheck_file(const struct kcheck_args *a, const char *file)
{
	char tmp[] = "/tmp/kcheck-XXXXXX";
	struct plugin_map *m = NULL;
	struct buf why = { 0 };
	int exit_code = KCHECK_UNAVAILABLE, rc;

	if (!mkdtemp(tmp)) {
		fprintf(stderr, "kcheck: %s: %s\n", tmp, strerror(errno));
		return KCHECK_TEMPORARY;
	}
	rc = kcheck_map(a, file, tmp, &m, &why);
	if (!rc)
		rc = plugin_map_open(m, &why);
	if (!rc)
		rc = plugin_map_warm(m, &why);
	if (!rc)
		exit_code = kcheck_run(a, m->provider.plugin, &m->provider.host);
	else
		fprintf(stderr, "kcheck: %s: %s\n", file, why.len ? buf_str(&why) : rc_text(rc));
	buf_clear(&why);
	if (plugin_map_free(&m, &why)) {
		fprintf(stderr, "kcheck: %s: %s\n", file, buf_str(&why));
		exit_code = exit_code == KCHECK_OK ? KCHECK_WRONG : exit_code;
	}
	rmdir(tmp);
	buf_fini(&why);
	return exit_code;
}

/* ---- command line ---- */

static int kcheck_op_find(const char *name)
{
#define OP(op, family, args, text) \
	if (!strcmp(name, #op)) \
		return DSV4_OP_##op;
#include "plugins/ops.def"
#undef OP
	return -1;
}

static int kcheck_refuse(int opt, const char *value)
{
	char name[32], text[128];

	snprintf(text, sizeof text, "--%s does not take \"%.64s\"", options_name(&kcheck_options, opt, name), value);
	return options_usage(&kcheck_options, text, "");
}

static int kcheck_seed(struct kcheck_args *a, int opt, const char *value)
{
	int64_t n = (int64_t)(clock_ns() % 1000000007) + 1;
	int rc = strcmp(value, "random") ? options_number(&kcheck_options, opt, value, 1, INT64_MAX, &n) : 0;

	a->seed = (uint64_t)n;
	return rc;
}

/* One option; 0, KCHECK_USAGE, or -1 to end the program well. */
static int kcheck_option(void *args, int opt, const char *value)
{
	struct kcheck_args *a = args;

	switch ((enum kcheck_opt)opt) {
	case KCHECK_OPT_op:
		a->op = kcheck_op_find(value);
		return a->op < 0 ? kcheck_refuse(opt, value) : 0;
	case KCHECK_OPT_seed: return kcheck_seed(a, opt, value);
	case KCHECK_OPT_shape:
		a->shape = strcmp(value, "tiny") ? &check_shape_flash : &check_shape_tiny;
		return strcmp(value, a->shape->name) ? kcheck_refuse(opt, value) : 0;
	case KCHECK_OPT_device: a->device = value; return 0;
	case KCHECK_OPT_threads: return options_int(&kcheck_options, opt, value, 1, 1024, &a->threads);
	case KCHECK_OPT_quick: a->quick = true; return 0;
	case KCHECK_OPT_bench: a->bench = true; return 0;
	case KCHECK_OPT_json: a->json = true; return 0;
	case KCHECK_OPT_help: kcheck_help(); return -1;
	case KCHECK_OPT_version: puts("kcheck " PACKAGE_VERSION); return -1;
	}
	return KCHECK_USAGE;
}

static int kcheck_device(struct kcheck_args *a)
{
	struct buf why = { 0 };
	int rc = a->device ? kcheck_device_open(&a->gpu, a->device, &why) : 0;

	if (rc)
		fprintf(stderr, "kcheck: %s: %s\n", a->device, why.len ? buf_str(&why) : rc_text(rc));
	buf_fini(&why);
	return !rc ? KCHECK_OK : rc == RC_INVALID ? KCHECK_USAGE : KCHECK_UNAVAILABLE;
}

int main(int argc, char **argv)
{
	struct kcheck_args a = { .op = -1, .seed = 1 };
	int worst = options_read(&kcheck_options, argc, argv, kcheck_option, &a);

	if (worst)
		return worst < 0 ? KCHECK_OK : worst;
	worst = kcheck_device(&a);
	if (worst)
		return worst;
	kcheck_catch();
	if (optind == argc)
		worst = kcheck_run(&a, &ref_plugin, &provider_ref.host);
	for (int i = optind; i < argc; i++) {
		int rc = strcmp(argv[i], "ref") ? kcheck_file(&a, argv[i]) :
						  kcheck_run(&a, &ref_plugin, &provider_ref.host);

		worst = rc > worst ? rc : worst;
	}
	kcheck_device_close(&a.gpu);
	return worst;
}
