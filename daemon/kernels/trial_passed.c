/* SPDX-License-Identifier: MIT
 * trial_passed.c - which plugins have passed their trial on this machine, over restarts: a
 * start need not wait for it again.
 * Threads: ops. Locks: none. */
#include "daemon/kernels/trial_passed.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/base/sha256.h"

#include <jansson.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PASSED_FILE "trials.json"
#define PASSED_MAX 32

/* Of what /proc/cpuinfo says of the first CPU, all that is not of this moment or of this CPU among its equals. */
static void passed_cpu(struct buf *out)
{
	static const char *const names[] = { "vendor_id", "cpu family", "model", "stepping", "microcode", "flags",
					     "CPU implementer", "CPU variant", "CPU part", "CPU revision", "Features" };
	FILE *f = fopen("/proc/cpuinfo", "re");
	char *line = NULL;
	size_t cap = 0;

	while (f && getline(&line, &cap, f) > 0 && *line != '\n')
		for (size_t i = 0; i < sizeof names / sizeof *names; i++)
			if (!strncmp(line, names[i], strlen(names[i])))
				buf_adds(out, line);
	free(line);
	if (f)
		fclose(f);
}

static const char *passed_file(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The program, which the loader gives no name, and the libraries whose arithmetic it has. */
static bool passed_counts(const char *path)
{
	const char *name = passed_file(path);

	return !*name || !strncmp(name, "libm.so", 7) || !strncmp(name, "libc.so", 7);
}

static bool passed_is_driver(const char *path)
{
	return !strncmp(passed_file(path), "libcuda.so", 10);
}

/* Under AddressSanitizer what lies between two constants must not be read by any other function. */
__attribute__((no_sanitize("address")))
static void passed_copy(char *to, const volatile char *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = from[i];
}

struct passed_look {
	bool (*counts)(const char *path);
	struct buf *out;
};

/* Code and constants as they are mapped, which an update does not change under a process that runs: versions, sizes and
 * times stay the same over some of them. */
static int passed_code(struct dl_phdr_info *info, size_t size, void *arg)
{
	const struct passed_look *look = arg;
	char hex[SHA256_HEX];

	(void)size;
	if (!look->counts(info->dlpi_name))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *h = &info->dlpi_phdr[i];
		char *copy;

		if (h->p_type != PT_LOAD || (h->p_flags & (PF_R | PF_W)) != PF_R)
			continue;
		copy = mem_new(h->p_filesz + 1);
		passed_copy(copy, (const char *)(info->dlpi_addr + h->p_vaddr), h->p_filesz);
		sha256_hex(hex, copy, h->p_filesz);
		free(copy);
		buf_printf(look->out, "%s %d %s\n", info->dlpi_name, i, hex);
	}
	return 0;
}

/* What the loader and libm are told from outside: which of a function's forms, which other library. */
static void passed_environment(struct buf *out)
{
	static const char *const names[] = { "GLIBC_TUNABLES", "LD_PRELOAD" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const char *value = getenv(names[i]);

		buf_printf(out, "%s %s\n", names[i], value ? value : "");
	}
}

/* One word for the machine and the program, the same all the time. */
static const char *passed_machine(void)
{
	static char machine[SHA256_HEX];
	struct buf all = { 0 };

	if (*machine)
		return machine;
	passed_cpu(&all);
	dl_iterate_phdr(passed_code, &(struct passed_look){ passed_counts, &all });
	passed_environment(&all);
	sha256_hex(machine, all.data, all.len);
	buf_fini(&all);
	return machine;
}

/* One word for the driver's code, the same all the time: the device is open. */
static const char *passed_driver(void)
{
	static char driver[SHA256_HEX];
	struct buf all = { 0 };

	if (*driver)
		return driver;
	dl_iterate_phdr(passed_code, &(struct passed_look){ passed_is_driver, &all });
	sha256_hex(driver, all.data, all.len);
	buf_fini(&all);
	return driver;
}

void trial_passed_key(const char *sha256, bool gpu, const struct device *d, struct buf *out)
{
	buf_adds(out, sha256);
	if (!gpu)
		return;
	buf_adds(out, " on ");
	device_kind(d, out);
	buf_printf(out, " %s", passed_driver());
}

/* The file's list, if it is of this machine and program; an empty one else. */
static json_t *passed_read(const struct state *s)
{
	struct buf text = { 0 };
	json_t *all = NULL, *list = NULL;
	const char *of;

	if (state_read(s, PASSED_FILE, &text, NULL) == 0)
		all = json_loadb(buf_str(&text), text.len, 0, NULL);
	of = json_string_value(json_object_get(all, "machine"));
	if (of && !strcmp(of, passed_machine()) && json_is_array(json_object_get(all, "passed")))
		list = json_incref(json_object_get(all, "passed"));
	json_decref(all);
	buf_fini(&text);
	return list ? list : json_array();
}

static bool passed_has(json_t *list, const char *key, size_t *ret_i)
{
	json_t *one;
	size_t i;

	json_array_foreach(list, i, one)
		if (json_is_string(one) && !strcmp(json_string_value(one), key)) {
			*ret_i = i;
			return true;
		}
	return false;
}

/* Takes the list. */
static int passed_write(const struct state *s, json_t *list, struct buf *why)
{
	json_t *all = json_pack("{s:s, s:o}", "machine", passed_machine(), "passed", list);
	char *text = json_dumps(all, JSON_INDENT(2));
	int r;

	must(text);
	r = state_write(s, PASSED_FILE, text, strlen(text), why);
	free(text);
	json_decref(all);
	return r;
}

bool trial_passed(const struct state *s, const char *key)
{
	json_t *list;
	size_t i;
	bool has;

	if (!s)
		return false;
	list = passed_read(s);
	has = passed_has(list, key, &i);
	json_decref(list);
	return has;
}

int trial_passed_keep(const struct state *s, const char *key, struct buf *why)
{
	json_t *list;
	size_t i;

	if (!s)
		return 0;
	list = passed_read(s);
	if (passed_has(list, key, &i)) {
		json_decref(list);
		return 0;
	}
	if (json_array_size(list) >= PASSED_MAX)
		json_array_remove(list, 0);
	json_array_append_new(list, json_string(key));
	return passed_write(s, list, why);
}

int trial_passed_forget(const struct state *s, const char *key, struct buf *why)
{
	json_t *list;
	size_t i;

	if (!s)
		return 0;
	list = passed_read(s);
	if (!passed_has(list, key, &i)) {
		json_decref(list);
		return 0;
	}
	json_array_remove(list, i);
	return passed_write(s, list, why);
}
