/* SPDX-License-Identifier: MIT
 * plugin_file.h - a plugin's file: policy, bytes, facts; read without running any of it.
 * Threads: any. Locks: none. */
#ifndef ENGINE_PLUGIN_FILE_H
#define ENGINE_PLUGIN_FILE_H

#include "engine/base/buf.h"
#include "plugins/dsv4_plugin.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum plugin_refusal {
	PLUGIN_ACCEPTED,
#define REFUSAL(id, name, text) PLUGIN_REFUSED_##id,
#include "engine/plugin/refusals.def"
#undef REFUSAL
	PLUGIN_N_REFUSAL
};
const char *plugin_refusal_name(enum plugin_refusal r); /* "" when accepted */
/* Writes "name: what was found" into why and returns RC_PLUGIN. */
int plugin_refuse(struct buf *why, enum plugin_refusal r, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

struct plugin_fact_op {
	int op, numerics;          /* enum dsv4_op, enum dsv4_numerics */
	uint16_t phases;
	uint32_t wfmts;
	char tag[32];
};

struct plugin_facts {
	int abi_major, abi_minor;
	char signature[64], name[32], version[32], cpu[128], gpu[128];
	int n_op;
	struct plugin_fact_op op[DSV4_PLUGIN_MAX_OPS];
};

/* Reads the facts out of a file's bytes. Checks form only, not whether this daemon can run it. Parses hostile
 * input (fuzzed). RC_PLUGIN no-facts. */
int plugin_facts_read(struct plugin_facts *ret_f, const void *bytes, size_t n, struct buf *why);
/* Can this daemon on this CPU run it: major, minor, signature, features. RC_PLUGIN. */
int plugin_facts_fit(const struct plugin_facts *f, struct buf *why);

/* A file as it was when it was opened: its bytes are in memory, what happens to the path later is no matter. */
struct plugin_file {
	char *path;                /* as named, below the directory */
	uint8_t *bytes;
	size_t size;
	char sha256[65];
	struct plugin_facts facts;
};

/* Opens `name` (relative to dir, or absolute and below it; no component may be a symlink out of it), checks
 * owner (root or `self`) and mode of file and of every directory from dir down, reads it whole, reads its facts.
 * RC_NOT_FOUND, RC_PLUGIN (refusals.def), -ENOMEM, -errno. Runs nothing of it. */
int plugin_file_open(const char *dir, const char *name, uid_t self, struct plugin_file **ret_pf,
		     struct buf *why);
void plugin_file_free(struct plugin_file **pf);
/* Writes the bytes to a new file in to_dir whose name was never used before by this process: NAME.PID.N.so,
 * mode 0500. The caller unlinks and frees *ret_path. */
int plugin_file_copy(const struct plugin_file *pf, const char *to_dir, char **ret_path, struct buf *why);

#endif
