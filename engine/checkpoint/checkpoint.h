/* SPDX-License-Identifier: MIT
 * checkpoint.h - a checkpoint directory as published: configs, index, tensors by name, the mapped data.
 * Threads: one opens and frees, any read in between. Locks: none. */
#ifndef ENGINE_CHECKPOINT_H
#define ENGINE_CHECKPOINT_H

#include "engine/base/buf.h"
#include "engine/base/mapfile.h"
#include "engine/checkpoint/model_config.h"
#include "engine/checkpoint/nametab.h"
#include "engine/checkpoint/safetensors.h"

#include <stdbool.h>
#include <stdint.h>

#define CHECKPOINT_MAX_FILES 4096
#define CHECKPOINT_MAX_NOTES 64 /* kept; more are only counted */

enum checkpoint_mode {
	CHECKPOINT_HEADERS, /* reads headers only, never maps; absent files and data become notes */
	CHECKPOINT_MAP      /* maps every file; anything absent is an error */
};

struct checkpoint_file {
	char *name;
	struct safetensors st;
	struct mapfile map;      /* CHECKPOINT_MAP only */
	uint64_t missing;        /* bytes of data that the file lacks */
	bool absent;             /* named by the index and not there */
	char *lacks;             /* where absent: the first tensor that the index expects in it */
};

struct checkpoint_tensor {
	const struct safetensors_tensor *t;
	int file;
};

struct checkpoint {
	char *dir;
	struct model_config config;       /* n_mtp filled in from the names */
	struct checkpoint_file *file;     /* in order of name */
	int n_files;
	struct checkpoint_tensor *tensor;
	int n_tensors;
	struct nametab names;             /* tensor name -> index into tensor */
	uint64_t bytes;                   /* of all tensors */
	bool has_index;
	struct buf note[CHECKPOINT_MAX_NOTES];
	int n_notes;
};

/* Reads DIR/config.json, generation_config.json if there, and the headers of the .safetensors files: those
 * that model.safetensors.index.json names, else all in the directory. RC_MODEL, RC_UNSUPPORTED, -ENOMEM,
 * -errno. */
int checkpoint_open(const char *dir, enum checkpoint_mode mode, struct checkpoint **ret_ck, struct buf *why);
void checkpoint_free(struct checkpoint **ck);
/* NULL when absent. */
const struct checkpoint_tensor *checkpoint_find(const struct checkpoint *ck, const char *name);
const char *checkpoint_file_name(const struct checkpoint *ck, const struct checkpoint_tensor *t);
/* From now on, what is read of the data stays in memory; reads nothing itself. -errno; why names the limit. */
int checkpoint_lock(const struct checkpoint *ck, struct buf *why);
/* Hints to the system about mapped data: it is read soon; memory may let it go, and who wants it reads the file again.
 * Only whole pages are let go. */
void checkpoint_fetch(const struct checkpoint *ck, const void *data, size_t bytes);
void checkpoint_forget(const struct checkpoint *ck, const void *data, size_t bytes);
/* CHECKPOINT_MAP only; any alignment. */
const void *checkpoint_data(const struct checkpoint *ck, const struct checkpoint_tensor *t);

#endif
