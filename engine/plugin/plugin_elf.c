/* SPDX-License-Identifier: MIT
 * plugin_elf.c - do these bytes look like a shared object that this machine can map?
 * Threads: any. Locks: none. */
#include "engine/plugin/plugin_elf.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#define PLUGIN_ELF_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define PLUGIN_ELF_MACHINE EM_AARCH64
#else
#error "name this machine's ELF number here"
#endif

static const char *plugin_elf_header(const ElfW(Ehdr) *h)
{
	if (memcmp(h->e_ident, ELFMAG, SELFMAG) != 0)
		return "not an ELF file";
	if (h->e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) ||
	    h->e_ident[EI_DATA] != ELFDATA2LSB || h->e_machine != PLUGIN_ELF_MACHINE)
		return "built for another machine";
	if (h->e_type != ET_DYN)
		return "an ELF file, but no shared object";
	if (h->e_phentsize != sizeof(ElfW(Phdr)) || h->e_phnum == 0)
		return "no program headers";
	return NULL;
}

static bool plugin_elf_inside(uint64_t off, uint64_t len, size_t n)
{
	return off <= n && len <= n - off;
}

int plugin_elf_check(const void *bytes, size_t n, size_t *ret_loaded, struct buf *why)
{
	const char *error = "shorter than an ELF header";
	size_t loaded = 0;
	ElfW(Ehdr) h;
	ElfW(Phdr) p;

	if (n >= sizeof h) {
		memcpy(&h, bytes, sizeof h);
		error = plugin_elf_header(&h);
	}
	if (error)
		return plugin_refuse(why, PLUGIN_REFUSED_not_file, "%s", error);
	if (!plugin_elf_inside(h.e_phoff, (uint64_t)h.e_phnum * sizeof p, n))
		return plugin_refuse(why, PLUGIN_REFUSED_not_file, "cut short: program headers end behind its end");
	for (size_t i = 0; i < h.e_phnum; i++) {
		memcpy(&p, (const char *)bytes + h.e_phoff + i * sizeof p, sizeof p);
		if (p.p_type != PT_LOAD)
			continue;
		if (!plugin_elf_inside(p.p_offset, p.p_filesz, n))
			return plugin_refuse(why, PLUGIN_REFUSED_not_file, "cut short: a segment ends behind its end");
		if (p.p_offset + p.p_filesz > loaded)
			loaded = p.p_offset + p.p_filesz;
	}
	if (!loaded)
		return plugin_refuse(why, PLUGIN_REFUSED_not_file, "no segment to map");
	*ret_loaded = loaded;
	return 0;
}
