/* SPDX-License-Identifier: MIT
 * fuzz_plugin_facts.c - any bytes as a plugin's file: header and facts; what is taken keeps its promises.
 * Threads: one. Locks: none. */
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/plugin/plugin_elf.h"
#include "engine/plugin/plugin_facts.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_taken(const struct plugin_facts *f)
{
	must(f->n_op >= 1 && f->n_op <= DSV4_PLUGIN_MAX_OPS);
	must(f->abi_major >= 0 && f->abi_major <= UINT16_MAX && f->abi_minor >= 0 && f->abi_minor <= UINT16_MAX);
	must(*f->name && !strchr(f->name, '/') && strlen(f->name) < sizeof f->name && *f->version && *f->signature);
	must(strcmp(f->name, "ref") != 0);
	for (int i = 0; i < f->n_op; i++) {
		const struct plugin_fact_op *op = &f->op[i];

		must(op->op >= 0 && op->op < DSV4_N_OP && op->phases && op->phases <= DSV4_PHASES_BOTH && op->wfmts);
		must(op->numerics >= DSV4_EXACT && op->numerics <= DSV4_LOSSY && *op->tag && !strchr(op->tag, ' '));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct plugin_facts *f = mem_new(sizeof *f);
	struct buf why = { 0 };
	size_t loaded = 0;

	if (plugin_elf_check(data, size, &loaded, &why) == 0)
		must(loaded > 0 && loaded <= size);
	else
		must(plugin_refusal_find(buf_str(&why)) == PLUGIN_REFUSED_not_file);
	if (plugin_facts_read(f, data, size, &why) == 0) {
		fuzz_taken(f);
		plugin_facts_fit(f, device_cpu(), &why);
	} else {
		must(plugin_refusal_find(buf_str(&why)) == PLUGIN_REFUSED_no_facts);
	}
	buf_fini(&why);
	free(f);
	return 0;
}
