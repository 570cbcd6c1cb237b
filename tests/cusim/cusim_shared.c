/* SPDX-License-Identifier: MIT
 * cusim_shared.c - which shared variables a kernel has, by the object's own symbols.
 * Threads: one at a time. Locks: none.
 *
 * cusim.h puts every __shared__ variable into one section. To whom each belongs, and where it ends, is in the symbol table:
 * a static variable `part` of the function NAME_body() is called _ZZL<length>NAME_body...E4part. */
#include "tests/cusim/cusim_priv.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

extern char __start_cusim_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_cusim_shared[] __attribute__((weak, visibility("hidden")));

struct cusim_variable {
	char *at;
	size_t size;
	const char *symbol;
	char name[40];
};
static struct cusim_variable *cusim_variable;    /* [cusim_n_variable] of all kernels */
static size_t cusim_n_variable;
#define CUSIM_MAX_VARIABLES 64
/* The kernel whose variables are memory now. */
static struct {
	const struct cusim_kernel *kernel;
	const struct cusim_variable *variable[CUSIM_MAX_VARIABLES];
	size_t n, bytes;
} cusim_shared;

bool cusim_shared_has(uintptr_t p)
{
	return p >= (uintptr_t)__start_cusim_shared && p < (uintptr_t)__stop_cusim_shared;
}

/* ---- the symbol table ---- */

static bool cusim_shared_of_kernel(const struct cusim_variable *v, const char *kernel)
{
	size_t n = strlen(kernel);

	for (const char *s = v->symbol; (s = strstr(s, kernel)) != NULL; s += n)
		if (!strncmp(s + n, "_body", 5) && s > v->symbol && s[-1] >= '0' && s[-1] <= '9')
			return true;
	return false;
}

/* "part" of "_ZZL9norm_bodyRK9norm_argsE4part", which may end in "_0". */
static void cusim_shared_name(struct cusim_variable *v)
{
	const char *last = v->symbol, *s = v->symbol;

	for (; *s; s++)
		if (*s >= '0' && *s <= '9' && (s == v->symbol || s[-1] < '0' || s[-1] > '9') && s[1] && s[-1] != '_')
			last = s;
	while (*last >= '0' && *last <= '9')
		last++;
	snprintf(v->name, sizeof v->name, "%s", *last ? last : v->symbol);
}

static void cusim_shared_symbols(const char *image, uintptr_t base)
{
	const ElfW(Ehdr) *e = (const void *)image;
	const ElfW(Shdr) *section = (const void *)(image + e->e_shoff);

	for (int i = 0; i < e->e_shnum; i++) {
		const ElfW(Sym) *sym = (const void *)(image + section[i].sh_offset);
		const char *names = image + section[section[i].sh_link].sh_offset;

		if (section[i].sh_type != SHT_SYMTAB)
			continue;
		for (size_t k = 0; k < section[i].sh_size / sizeof *sym; k++) {
			struct cusim_variable v = { .at = (char *)base + sym[k].st_value, .size = sym[k].st_size,
						    .symbol = names + sym[k].st_name };

			if (ELF64_ST_TYPE(sym[k].st_info) != STT_OBJECT || !cusim_shared_has((uintptr_t)v.at))
				continue;
			cusim_shared_name(&v);
			cusim_variable = realloc(cusim_variable, (cusim_n_variable + 1) * sizeof v);
			if (!cusim_variable)
				abort();
			cusim_variable[cusim_n_variable++] = v;
		}
	}
}

/* The image stays mapped for its names. */
static void cusim_shared_read(const void *code)
{
	static bool done;
	Dl_info info;
	struct stat st;
	int fd;
	char *image;

	if (done || &__start_cusim_shared[0] == &__stop_cusim_shared[0])
		return;
	done = true;
	if (!dladdr(code, &info))
		return;
	fd = open(info.dli_fname, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st)) {
		perror("cusim: own file");
		abort();
	}
	image = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (image == MAP_FAILED)
		abort();
	cusim_shared_symbols(image, ((const ElfW(Ehdr) *)info.dli_fbase)->e_type == ET_EXEC ? 0 : (uintptr_t)info.dli_fbase);
}

/* ---- of the running kernel ---- */

size_t cusim_shared_of(const struct cusim_kernel *k)
{
	cusim_shared_read(k);
	if (cusim_shared.kernel == k)
		return cusim_shared.bytes;
	for (size_t i = 0; i < cusim_shared.n; i++)
		cusim_memory_drop(cusim_shared.variable[i]->at);
	cusim_shared.kernel = k;
	cusim_shared.n = cusim_shared.bytes = 0;
	for (size_t i = 0; i < cusim_n_variable; i++) {
		const struct cusim_variable *v = &cusim_variable[i];

		if (!cusim_shared_of_kernel(v, k->name))
			continue;
		if (cusim_shared.n == CUSIM_MAX_VARIABLES)
			abort();
		cusim_shared.variable[cusim_shared.n++] = v;
		cusim_shared.bytes += v->size;
		cusim_memory_add_shared(v->at, v->size, v->name);
	}
	return cusim_shared.bytes;
}

uintptr_t cusim_shared_base(void)
{
	uintptr_t first = UINTPTR_MAX;

	for (size_t i = 0; i < cusim_shared.n; i++)
		if ((uintptr_t)cusim_shared.variable[i]->at < first)
			first = (uintptr_t)cusim_shared.variable[i]->at;
	return first & -(uintptr_t)1024;
}

void cusim_shared_fresh(void)
{
	for (size_t i = 0; i < cusim_shared.n; i++) {
		const struct cusim_variable *v = cusim_shared.variable[i];

		memset(v->at, CUSIM_FRESH, v->size);
		cusim_memory_unwritten(v->at, v->size);
	}
}
