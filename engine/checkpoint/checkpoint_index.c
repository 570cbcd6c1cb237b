/* SPDX-License-Identifier: MIT
 * checkpoint_index.c - model.safetensors.index.json: which file holds which tensor.
 * Threads: any. Locks: none. */
#include "engine/checkpoint/checkpoint_index.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/base/jscan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define INDEX_NAME "model.safetensors.index.json"

struct checkpoint_index_reader {
	struct jscan s;
	struct checkpoint_index ix;
	struct nametab files;
	size_t used;         /* bytes of tensor names, compacted to the front of the text */
	int cap;
	int last;            /* file of the previous entry: neighbours mostly share it */
};

/* Names a file of the directory itself, and a safetensors one. */
static bool checkpoint_index_file_ok(const char *name, size_t len)
{
	static const char suffix[] = ".safetensors";
	size_t n = sizeof suffix - 1, i;

	for (i = 0; i < len; i++)
		if (name[i] <= 0x20 || name[i] > 0x7e || name[i] == '/')
			return false;
	return len > n && name[0] != '.' && strcmp(name + len - n, suffix) == 0;
}

/* The number of a file, added when new; -1 with a scan error. */
static int checkpoint_index_file(struct checkpoint_index_reader *r, const char *name, size_t len)
{
	struct checkpoint_index *ix = &r->ix;
	int at;

	if (ix->n_files > 0 && strcmp(name, ix->file[r->last]) == 0)
		return r->last;
	at = nametab_find(&r->files, name);
	if (at < 0) {
		if (!checkpoint_index_file_ok(name, len))
			return jscan_fail(&r->s, "not the plain name of a .safetensors file"), -1;
		if (ix->n_files == CHECKPOINT_MAX_FILES)
			return jscan_fail(&r->s, "too many files"), -1;
		at = ix->n_files++;
		ix->file = mem_grow(ix->file, (size_t)ix->n_files, sizeof *ix->file);
		ix->file[at] = mem_strndup(name, len);
		if (nametab_put(&r->files, ix->file[at], at, NULL) < 0)
			return jscan_fail(&r->s, "out of memory"), -1;
	}
	return r->last = at;
}

static bool checkpoint_index_add(struct checkpoint_index_reader *r, size_t len, int file)
{
	struct checkpoint_index *ix = &r->ix;
	void *p;

	if (ix->n == SAFETENSORS_MAX_TENSORS)
		return jscan_fail(&r->s, "too many tensors");
	if (ix->n == r->cap) {
		r->cap = r->cap ? r->cap * 2 : 1024;
		p = realloc(ix->entry, (size_t)r->cap * sizeof *ix->entry);
		if (!p)
			return jscan_fail(&r->s, "out of memory");
		ix->entry = p;
	}
	ix->entry[ix->n++] = (struct checkpoint_index_entry){ ix->text + r->used, file };
	r->used += len + 1;
	return true;
}

static bool checkpoint_index_map(struct checkpoint_index_reader *r)
{
	char file[SAFETENSORS_MAX_NAME + 1];
	size_t len, file_len;
	int at;

	jscan_enter(&r->s, '{');
	while (jscan_key(&r->s, r->ix.text + r->used, SAFETENSORS_MAX_NAME + 1, &len)) {
		if (!jscan_string(&r->s, file, sizeof file, &file_len))
			return false;
		at = checkpoint_index_file(r, file, file_len);
		if (at < 0 || !checkpoint_index_add(r, len, at))
			return false;
	}
	return !r->s.error;
}

static bool checkpoint_index_metadata(struct checkpoint_index_reader *r)
{
	char key[64];

	jscan_enter(&r->s, '{');
	while (jscan_key(&r->s, key, sizeof key, NULL)) {
		char c = jscan_peek(&r->s);

		if (strcmp(key, "total_size") == 0 && c >= '0' && c <= '9') {
			if (!jscan_count(&r->s, &r->ix.total_size))
				return false;
		} else if (!jscan_skip(&r->s)) {
			return false;
		}
	}
	return !r->s.error;
}

static bool checkpoint_index_object(struct checkpoint_index_reader *r)
{
	bool map = false;
	char key[64];

	jscan_enter(&r->s, '{');
	while (jscan_key(&r->s, key, sizeof key, NULL)) {
		if (strcmp(key, "weight_map") == 0) {
			if (map)
				return jscan_fail(&r->s, "weight_map twice");
			map = true;
			if (!checkpoint_index_map(r))
				return false;
		} else if (strcmp(key, "metadata") == 0 ? !checkpoint_index_metadata(r)
							: !jscan_skip(&r->s)) {
			return false;
		}
	}
	return jscan_done(&r->s) && (map || jscan_fail(&r->s, "no weight_map"));
}

int checkpoint_index_parse(char **json, size_t len, struct checkpoint_index *ret_ix, struct buf *why)
{
	struct checkpoint_index_reader r = { .ix = { .text = *json, .total_size = -1 } };
	int rc = 0;

	*json = NULL;
	jscan_init(&r.s, r.ix.text, len);
	if (!checkpoint_index_object(&r))
		rc = buf_why(why, RC_MODEL, INDEX_NAME ": byte %zu: %s", jscan_at(&r.s), r.s.error);
	nametab_fini(&r.files);
	if (rc) {
		checkpoint_index_fini(&r.ix);
		return rc;
	}
	*ret_ix = r.ix;
	return 0;
}

void checkpoint_index_fini(struct checkpoint_index *ix)
{
	int i;

	for (i = 0; i < ix->n_files; i++)
		free(ix->file[i]);
	free(ix->file);
	free(ix->entry);
	free(ix->text);
	*ix = (struct checkpoint_index){ 0 };
}
