/* SPDX-License-Identifier: MIT
 * checkpoint_index.h - model.safetensors.index.json: which file holds which tensor.
 * Threads: any. Locks: none. */
#ifndef ENGINE_CHECKPOINT_INDEX_H
#define ENGINE_CHECKPOINT_INDEX_H

#include "engine/base/buf.h"

#include <stddef.h>
#include <stdint.h>

struct checkpoint_index_entry {
	const char *tensor;
	int file;                   /* into file[] */
};

struct checkpoint_index {
	char **file;                /* plain names, in order of first use */
	int n_files;
	struct checkpoint_index_entry *entry;
	int n;
	int64_t total_size;         /* metadata.total_size, or -1 */
	char *text;                 /* owns the tensors' names */
};

/* Takes over *json (malloc'd) whatever happens. A file name with a '/' is RC_MODEL. */
int checkpoint_index_parse(char **json, size_t len, struct checkpoint_index *ret_ix, struct buf *why);
void checkpoint_index_fini(struct checkpoint_index *ix);

#endif
