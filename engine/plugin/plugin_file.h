/* SPDX-License-Identifier: MIT
 * plugin_file.h - a plugin's file: policy, bytes, facts; read without running any of it.
 * Threads: any. Locks: none. */
#ifndef ENGINE_PLUGIN_FILE_H
#define ENGINE_PLUGIN_FILE_H

#include "engine/base/sha256.h"
#include "engine/plugin/plugin_facts.h"

#include <sys/stat.h>
#include <sys/types.h>

#define PLUGIN_FILE_MAX ((size_t)64 << 20)

/* A file as it was when it was opened: its bytes are in memory, what happens to the path later is no matter. */
struct plugin_file {
	char *path;                /* the directory and what is below it */
	uint8_t *bytes;
	size_t size;
	char sha256[SHA256_HEX];
	struct plugin_facts facts;
};

/* Opens `name` (relative to dir, or absolute and below it; symbolic links below dir are refused), checks owner
 * (root or `self`) and mode of file and of every directory from dir down, reads it whole, reads its facts.
 * RC_NOT_FOUND, RC_PLUGIN (refusals.def), -ENOMEM, -errno. Runs nothing of it. */
int plugin_file_open(const char *dir, const char *name, uid_t self, struct plugin_file **ret_pf,
		     struct buf *why);
void plugin_file_free(struct plugin_file **pf);
/* Writes the bytes to a new file in to_dir whose name was never used before by this process: NAME.PID.N.so,
 * mode 0500. to_dir keeps to the same rule as a plugin's directories. The caller unlinks and frees *ret_path. */
int plugin_file_copy(const struct plugin_file *pf, const char *to_dir, char **ret_path, struct buf *why);

/* ---- the two steps of plugin_file_open(), apart so that a test can do something in between ---- */

/* Walks from dir to the file and opens it; the file itself is not judged. Returns a descriptor. *ret_path is
 * the caller's, also on failure, to name in messages. */
int plugin_file_walk(const char *dir, const char *name, uid_t self, char **ret_path, struct buf *why);
/* Judges and reads what fd is open on. `before` is its fstat() from before; the file must still be that. */
int plugin_file_read(int fd, const struct stat *before, uid_t self, struct plugin_file *pf, struct buf *why);

#endif
