/* SPDX-License-Identifier: MIT
 * main.c - dsv4d's command line.
 * Threads: main. Locks: none. */
#include "daemon/daemon.h"
#include "daemon/journal.h"
#include "daemon/serve.h"
#include "daemon/kernels/start.h"
#include "daemon/kernels/trial.h"
#include "daemon/kernels/trial_shape.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/engine.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Flags that set a configuration key, and the others: MAIN_FLAG(name, key or -1, argument, text). */
#define MAIN_FLAGS \
	MAIN_FLAG("config", -1, "FILE", "configuration file [" DSV4_SYSCONFDIR "/dsv4d/dsv4d.conf]") \
	MAIN_FLAG("model", CONF_model, "DIR", "directory of the model's files") \
	MAIN_FLAG("device", CONF_device, "DEVICE", "what computes: cpu, cuda, cuda:N or a list, cuda:0-3,6 [cpu]") \
	MAIN_FLAG("listen", CONF_listen, "ADDRESS", \
		  "where HTTP is served: ADDR:PORT, unix:/PATH or both [127.0.0.1:8420]") \
	MAIN_FLAG("control", CONF_control, "PATH", "socket of dsv4ctl [/run/dsv4d/control]") \
	MAIN_FLAG("state", CONF_state, "DIR", "directory for what outlives a restart [/var/lib/dsv4d]") \
	MAIN_FLAG("plugins", CONF_dir, "DIR", "directory of the kernel plugins [" DSV4_PLUGINDIR "]") \
	MAIN_FLAG("kernels", CONF_use, "SPEC", \
		  "kernels to start with, ref or FAMILY|OP[.PHASE]=PLUGIN... [the fastest there are]") \
	MAIN_FLAG("threads", CONF_threads, "N", "threads that compute [one per CPU]") \
	MAIN_FLAG("log-level", CONF_log_level, "LEVEL", "err, warn, notice, info or debug [info]") \
	MAIN_FLAG("inspect", -1, "DIR", "describe a checkpoint from its headers, then end; 69 if unusable") \
	MAIN_FLAG("plan", -1, NULL, \
		  "print how the checkpoint DIR would lie on the GPUs of --device (cuda:0-7), then end; " \
		  "69 if it cannot") \
	MAIN_FLAG("gpu-memory", -1, "SIZE", "with --plan: bytes of each GPU, with K, M or G [141G]") \
	MAIN_FLAG("json", -1, NULL, "with --inspect or --plan: as JSON") \
	MAIN_FLAG("test", -1, NULL, "check the configuration, then end (also -t)") \
	MAIN_FLAG("help", -1, NULL, "this text") \
	MAIN_FLAG("version", -1, NULL, "the version")

static const struct main_flag {
	const char *name;
	int key;
	const char *arg, *text;
} main_flags[] = {
#define MAIN_FLAG(name, key, arg, text) { name, key, arg, text },
	MAIN_FLAGS
#undef MAIN_FLAG
};
#define MAIN_N_FLAGS (int)mem_countof(main_flags)

struct main_args {
	struct daemon_flags flags;
	const char *inspect, *dir, *gpu_memory;
	bool json, plan, test, help, version;
};

static void main_help(void)
{
	printf("usage: dsv4d [FLAGS]\n\nServes a DeepSeek-V4-Flash checkpoint over HTTP; dsv4ctl controls it.\n\n");
	for (int i = 0; i < MAIN_N_FLAGS; i++) {
		const struct main_flag *f = &main_flags[i];

		printf("  --%s%s%-*s %s\n", f->name, f->arg ? " " : "",
		       (int)(20 - strlen(f->name) - (f->arg != NULL)), f->arg ? f->arg : "", f->text);
	}
	printf("\nExit status: 0 ended as asked, 1 error, 2 usage, 69 model or plugin unavailable, 75 socket or port "
	       "in use, "
	       "78 bad configuration.\n");
}

static void main_set(struct main_args *a, const struct main_flag *f, const char *value)
{
	if (f->key >= 0)
		a->flags.value[f->key] = value;
	else if (!strcmp(f->name, "config"))
		a->flags.config = value;
	else if (!strcmp(f->name, "inspect"))
		a->inspect = value;
	else if (!strcmp(f->name, "gpu-memory"))
		a->gpu_memory = value;
	a->plan |= !strcmp(f->name, "plan");
	a->json |= !strcmp(f->name, "json");
	a->test |= !strcmp(f->name, "test");
	a->help |= !strcmp(f->name, "help");
	a->version |= !strcmp(f->name, "version");
}

/* False for a usage error; getopt has then said what is wrong. */
static bool main_parse(int argc, char **argv, struct main_args *a)
{
	struct option o[MAIN_N_FLAGS + 1] = { 0 };
	int c, i;

	for (i = 0; i < MAIN_N_FLAGS; i++)
		o[i] = (struct option){ main_flags[i].name,
					main_flags[i].arg ? required_argument : no_argument, NULL, 0 };
	while ((c = getopt_long(argc, argv, "th", o, &i)) != -1) {
		if (c == '?')
			return false;
		a->test |= c == 't';
		a->help |= c == 'h';
		if (c == 0)
			main_set(a, &main_flags[i], optarg);
	}
	if (a->plan && optind < argc)
		a->dir = argv[optind++];
	if (optind < argc) {
		fprintf(stderr, "dsv4d: unexpected argument '%s'\n", argv[optind]);
		return false;
	}
	return true;
}

static bool main_fits(const struct main_args *a)
{
	const char *lacks = a->gpu_memory && !a->plan ? "--gpu-memory is for --plan" :
		a->json && !a->plan && !a->inspect ? "--json is for --inspect and --plan" : NULL;

	if (lacks)
		fprintf(stderr, "dsv4d: %s\n", lacks);
	return !lacks;
}

static int main_test(const struct main_args *a)
{
	struct conf c;
	struct buf why = { 0 };
	int r = daemon_configure(&a->flags, &c, &why);

	if (!r && ((r = serve_check(&c, &why)) || (r = start_check(&c, &why))))
		conf_fini(&c);
	if (r) {
		fprintf(stderr, "dsv4d: %s\n", buf_str(&why));
	} else {
		printf("%s: ok\n", daemon_config_path(&a->flags));
		conf_fini(&c);
	}
	buf_fini(&why);
	return r ? DAEMON_CONFIG : DAEMON_OK;
}

/* A checkpoint that cannot be loaded is described too, but not with success. */
static int main_inspect(const char *dir, bool json)
{
	struct buf out = { 0 }, why = { 0 };
	int r = inspect_describe(dir, json, &out, &why);

	fputs(buf_str(&out), stdout);
	if (r)
		fprintf(stderr, "dsv4d: %s\n", why.len ? buf_str(&why) : rc_text(r));
	buf_fini(&out);
	buf_fini(&why);
	return r ? DAEMON_UNAVAILABLE : DAEMON_OK;
}

/* Without a GPU: what a machine would need. What cannot be is described as far as it goes. */
static int main_plan(const struct main_args *a)
{
	const char *device = a->flags.value[CONF_device];
	struct buf out = { 0 }, why = { 0 };
	struct device_list gpus;
	uint64_t memory = 0;
	int r = device_list_parse(device ? device : "cuda", &gpus, &why);

	if (r == 0 && gpus.n == 0)
		r = buf_why(&why, RC_INVALID, "--plan is for GPUs; expected --device cuda:LIST");
	if (r == 0 && !conf_size(a->gpu_memory ? a->gpu_memory : "141G", &memory))
		r = buf_why(&why, RC_INVALID, "--gpu-memory: expected bytes, with K, M or G, found \"%s\"",
			    a->gpu_memory);
	if (r == 0 && !a->dir)
		r = buf_why(&why, RC_INVALID, "--plan: expected the directory of a checkpoint");
	if (r == 0) {
		r = placement_describe(a->dir, gpus.n, memory, a->json, &out, &why);
		fputs(buf_str(&out), stdout);
		r = r ? DAEMON_UNAVAILABLE : DAEMON_OK;
	} else {
		r = DAEMON_USAGE;
	}
	if (r)
		fprintf(stderr, "dsv4d: %s\n", buf_str(&why));
	buf_fini(&out);
	buf_fini(&why);
	return r;
}

static int main_run(const struct daemon_flags *f)
{
	int r = daemon_run(f);

	if (ranks_hung())
		_exit(r);
	return r;
}

int main(int argc, char **argv)
{
	struct main_args a = { 0 };

	if (argc > 1 && !strcmp(argv[1], TRIAL_FLAG)) /* dsv4d itself calls it; nobody else should */
		return trial_child(argc - 2, argv + 2);
	if (!main_parse(argc, argv, &a)) {
		fprintf(stderr, "Try 'dsv4d --help'.\n");
		return DAEMON_USAGE;
	}
	if (a.help) {
		main_help();
		return DAEMON_OK;
	}
	if (a.version) {
		printf("dsv4d %s\n", PACKAGE_VERSION);
		return DAEMON_OK;
	}
	if (!main_fits(&a))
		return DAEMON_USAGE;
	if (a.inspect)
		return main_inspect(a.inspect, a.json);
	if (a.plan)
		return main_plan(&a);
	if (a.test)
		return main_test(&a);
	journal_use();
	return main_run(&a.flags);
}
