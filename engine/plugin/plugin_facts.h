/* SPDX-License-Identifier: MIT
 * plugin_facts.h - what a plugin's file says of itself, and whether this daemon can run that.
 * Threads: any. Locks: none. */
#ifndef ENGINE_PLUGIN_FACTS_H
#define ENGINE_PLUGIN_FACTS_H

#include "engine/device/ranks.h"
#include "engine/plugin/plugin_refusal.h"
#include "plugins/dsv4_plugin.h"

#include <stddef.h>
#include <stdint.h>

#define PLUGIN_FACTS_MAX 65536 /* bytes between the markers */

struct plugin_fact_op {
	int op, numerics;          /* enum dsv4_op, enum dsv4_numerics */
	uint8_t phases, reads;
	uint32_t wfmts;
	char tag[32];
};

struct plugin_facts {
	int abi_major, abi_minor;
	char signature[64], name[32], version[32], cpu[128], gpu[128];
	int n_op;                  /* 1..DSV4_PLUGIN_MAX_OPS */
	struct plugin_fact_op op[DSV4_PLUGIN_MAX_OPS];
};

/* Could a plugin have this name: its form, and that it stands for nothing else where kernels are named. */
bool plugin_facts_is_name(const char *s);
/* Reads the facts out of a file's bytes. Checks form only (dsv4_plugin.h), not whether this daemon can run it.
 * Parses hostile input (fuzzed). RC_PLUGIN no-facts. */
int plugin_facts_read(struct plugin_facts *ret_f, const void *bytes, size_t n, struct buf *why);
/* Can this daemon on this CPU and this device run it: major, minor, signature, features. d NULL: some GPU, that is not
 * asked what it has. RC_PLUGIN. */
int plugin_facts_fit(const struct plugin_facts *f, const struct device *d, struct buf *why);
/* Can all of these, and if they are several, does it know of experts that another GPU has (moe_experts since ABI 1.3)?
 * RC_PLUGIN. */
int plugin_facts_fit_ranks(const struct plugin_facts *f, struct ranks *r, struct buf *why);
/* Is a mapped descriptor what the facts say, field by field. RC_PLUGIN facts-differ. */
int plugin_facts_match(const struct plugin_facts *f, const struct dsv4_plugin *p, struct buf *why);

#endif
