/* SPDX-License-Identifier: MIT
 * checkpoint.c - a checkpoint directory as published: configs, index, tensors by name, the mapped data.
 * Threads: one opens and frees, any read in between. Locks: none. */
#include "engine/checkpoint/checkpoint.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/checkpoint/checkpoint_index.h"
#include "engine/checkpoint/generation_config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define CHECKPOINT_MAX_CONFIG (1u << 20)
#define CHECKPOINT_MAX_INDEX (128u << 20)
#define CHECKPOINT_PIECE (128u << 10) /* bytes */
#define CHECKPOINT_INDEX "model.safetensors.index.json"

static char *checkpoint_path(const char *dir, const char *name)
{
	struct buf path = { 0 };

	buf_printf(&path, "%s/%s", dir, name);
	return buf_take(&path);
}

/* With headers only, whatever is absent is noted and the rest described. */
static void checkpoint_note(struct checkpoint *ck, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static void checkpoint_note(struct checkpoint *ck, const char *fmt, ...)
{
	va_list ap;

	if (ck->n_notes < CHECKPOINT_MAX_NOTES) {
		va_start(ap, fmt);
		buf_vprintf(&ck->note[ck->n_notes], fmt, ap);
		va_end(ap);
	}
	ck->n_notes++;
}

/* ---- configs ---- */

/* The text of an optional file; RC_NOT_FOUND when it is not there. */
static int checkpoint_slurp(const char *dir, const char *name, size_t max, struct buf *text, struct buf *why)
{
	char *path = checkpoint_path(dir, name);
	int rc = access(path, F_OK) < 0 && errno == ENOENT ? RC_NOT_FOUND
							   : mapfile_slurp(path, max, text, why);

	free(path);
	return rc;
}

static int checkpoint_configs(struct checkpoint *ck, struct buf *why)
{
	struct buf text = { 0 };
	int rc = checkpoint_slurp(ck->dir, "config.json", CHECKPOINT_MAX_CONFIG, &text, why);

	if (rc == RC_NOT_FOUND)
		rc = buf_why(why, RC_MODEL, "%s/config.json: no such file", ck->dir);
	rc = rc ? rc : model_config_parse(buf_str(&text), text.len, &ck->config, why);
	if (rc == 0) {
		rc = checkpoint_slurp(ck->dir, "generation_config.json", CHECKPOINT_MAX_CONFIG, &text, why);
		rc = rc == RC_NOT_FOUND ? 0 : rc ? rc :
		     generation_config_parse(buf_str(&text), text.len, &ck->config, why);
	}
	buf_fini(&text);
	return rc;
}

/* ---- which files ---- */

static int checkpoint_by_name(const void *a, const void *b)
{
	return strcmp(((const struct checkpoint_file *)a)->name, ((const struct checkpoint_file *)b)->name);
}

static void checkpoint_add_file(struct checkpoint *ck, const char *name)
{
	ck->file = mem_grow(ck->file, (size_t)ck->n_files + 1, sizeof *ck->file);
	ck->file[ck->n_files++] = (struct checkpoint_file){ .name = mem_strdup(name) };
}

/* Without an index: every .safetensors file of the directory. */
static int checkpoint_scan(struct checkpoint *ck, struct buf *why)
{
	static const char suffix[] = ".safetensors";
	DIR *d = opendir(ck->dir);
	struct dirent *e;
	int rc = 0;

	if (!d)
		return buf_why(why, -errno, "%s: %s", ck->dir, strerror(errno));
	while (rc == 0 && (e = readdir(d)) != NULL) {
		size_t n = strlen(e->d_name);

		if (e->d_name[0] == '.' || n < sizeof suffix ||
		    strcmp(e->d_name + n - sizeof suffix + 1, suffix) != 0)
			continue;
		if (ck->n_files == CHECKPOINT_MAX_FILES)
			rc = buf_why(why, RC_MODEL, "%s: more than %d .safetensors files", ck->dir,
				     CHECKPOINT_MAX_FILES);
		else
			checkpoint_add_file(ck, e->d_name);
	}
	closedir(d);
	if (rc == 0 && ck->n_files == 0)
		rc = buf_why(why, RC_MODEL, "%s: no .safetensors file", ck->dir);
	return rc;
}

/* Fills the list of files, from the index (kept in ix for the check against the headers) or the directory. */
static int checkpoint_list(struct checkpoint *ck, struct checkpoint_index *ix, struct buf *why)
{
	struct buf text = { 0 };
	int rc = checkpoint_slurp(ck->dir, CHECKPOINT_INDEX, CHECKPOINT_MAX_INDEX, &text, why), i;
	size_t len = text.len;
	char *json = buf_take(&text);

	if (rc == 0) {
		ck->has_index = true;
		rc = checkpoint_index_parse(&json, len, ix, why);
		for (i = 0; rc == 0 && i < ix->n_files; i++)
			checkpoint_add_file(ck, ix->file[i]);
	} else if (rc == RC_NOT_FOUND) {
		rc = checkpoint_scan(ck, why);
	}
	free(json);
	if (rc == 0 && ck->n_files > 1)
		qsort(ck->file, (size_t)ck->n_files, sizeof *ck->file, checkpoint_by_name);
	return rc;
}

/* ---- headers ---- */

static int checkpoint_header(struct checkpoint *ck, struct checkpoint_file *f, enum checkpoint_mode mode,
			     struct buf *why)
{
	char *path = checkpoint_path(ck->dir, f->name);
	int rc = safetensors_open(path, f->name, &f->st, mode == CHECKPOINT_HEADERS ? &f->missing : NULL,
				  why);

	if (rc == -ENOENT && mode == CHECKPOINT_HEADERS) {
		f->absent = true;
		rc = 0;
	} else if (rc == 0 && f->missing) {
		checkpoint_note(ck, "%s: %" PRIu64 " of %" PRIu64 " bytes are not there", f->name, f->missing,
				f->st.size);
	}
	if (rc == 0 && mode == CHECKPOINT_MAP)
		rc = mapfile_open(&f->map, path, why);
	/* The file may have shrunk since its header was read. */
	if (rc == 0 && mode == CHECKPOINT_MAP && f->map.size < f->st.size)
		rc = buf_why(why, RC_MODEL, "%s: changed while it was opened", f->name);
	free(path);
	return rc;
}

static int checkpoint_names(struct checkpoint *ck, struct buf *why)
{
	int f, i, at = 0, old, rc;
	size_t n = 0;

	for (f = 0; f < ck->n_files; f++)
		n += (size_t)ck->file[f].st.n;
	if (n > SAFETENSORS_MAX_TENSORS)
		return buf_why(why, RC_MODEL, "%s: more than %d tensors", ck->dir, SAFETENSORS_MAX_TENSORS);
	ck->tensor = mem_try(n, sizeof *ck->tensor);
	if (!ck->tensor)
		return buf_why(why, -ENOMEM, "%s: out of memory for %zu tensors", ck->dir, n);
	for (f = 0; f < ck->n_files; f++) {
		for (i = 0; i < ck->file[f].st.n; i++, at++) {
			const struct safetensors_tensor *t = &ck->file[f].st.tensor[i];

			ck->tensor[at] = (struct checkpoint_tensor){ t, f };
			ck->bytes += t->bytes;
			rc = nametab_put(&ck->names, t->name, at, &old);
			if (rc == 0)
				return buf_why(why, RC_MODEL, "%s: tensor %s: also in %s", ck->file[f].name,
					       t->name, ck->file[ck->tensor[old].file].name);
			if (rc < 0)
				return buf_why(why, rc, "%s: out of memory for %zu tensors", ck->dir, n);
		}
	}
	ck->n_tensors = at;
	return 0;
}

/* One row of the index that the headers do not bear out: an error, or a note where its file is absent. */
static int checkpoint_astray(struct checkpoint *ck, const char *tensor, const char *file,
			     const struct checkpoint_tensor *t, struct buf *why)
{
	const char *found = t ? ck->file[t->file].name : "no file";
	struct checkpoint_file key = { .name = (char *)file }, *f;

	f = bsearch(&key, ck->file, (size_t)ck->n_files, sizeof key, checkpoint_by_name);
	must(f != NULL);
	if (!f->absent)
		return buf_why(why, RC_MODEL, CHECKPOINT_INDEX ": tensor %s: expected in %s, found in %s",
			       tensor, file, found);
	if (!f->lacks) {
		f->lacks = mem_strdup(tensor);
		checkpoint_note(ck, "%s: no such file; the index expects tensor %s in it, found in %s", file,
				tensor, found);
	}
	return 0;
}

/* Index and headers must tell the same: a tensor that either lacks means that files of two releases are
 * mixed. */
static int checkpoint_agree(struct checkpoint *ck, const struct checkpoint_index *ix, struct buf *why)
{
	uint8_t *seen = mem_try((size_t)ck->n_tensors, 1); /* [n_tensors] named by the index */
	int i, rc = 0;

	if (!seen)
		return buf_why(why, -ENOMEM, "%s: out of memory for %d tensors", ck->dir, ck->n_tensors);
	for (i = 0; rc == 0 && i < ix->n; i++) {
		const char *tensor = ix->entry[i].tensor, *file = ix->file[ix->entry[i].file];
		const struct checkpoint_tensor *t = checkpoint_find(ck, tensor);

		if (t)
			seen[t - ck->tensor] = 1;
		if (!t || strcmp(ck->file[t->file].name, file) != 0)
			rc = checkpoint_astray(ck, tensor, file, t, why);
	}
	for (i = 0; rc == 0 && i < ck->n_tensors; i++)
		if (!seen[i])
			rc = buf_why(why, RC_MODEL, "%s: tensor %s: not in " CHECKPOINT_INDEX,
				     ck->file[ck->tensor[i].file].name, ck->tensor[i].t->name);
	free(seen);
	return rc;
}

/* Blocks mtp.0, mtp.1, ...; the config's own count is wrong on DSpark checkpoints. */
static void checkpoint_count_mtp(struct checkpoint *ck)
{
	int i, n;

	ck->config.n_mtp = 0;
	for (i = 0; i < ck->n_tensors; i++) {
		const char *name = ck->tensor[i].t->name;

		if (strncmp(name, "mtp.", 4) != 0 || name[4] < '0' || name[4] > '9' || name[5] != '.')
			continue;
		n = name[4] - '0' + 1;
		if (n > ck->config.n_mtp && n <= MODEL_MAX_MTP)
			ck->config.n_mtp = n;
	}
}

int checkpoint_open(const char *dir, enum checkpoint_mode mode, struct checkpoint **ret_ck, struct buf *why)
{
	struct checkpoint *ck = mem_new(sizeof *ck);
	struct checkpoint_index ix = { 0 };
	int rc, i;

	ck->dir = mem_strdup(dir);
	rc = checkpoint_configs(ck, why);
	rc = rc ? rc : checkpoint_list(ck, &ix, why);
	for (i = 0; rc == 0 && i < ck->n_files; i++)
		rc = checkpoint_header(ck, &ck->file[i], mode, why);
	rc = rc ? rc : checkpoint_names(ck, why);
	if (rc == 0 && ck->has_index)
		rc = checkpoint_agree(ck, &ix, why);
	if (rc == 0 && ix.total_size >= 0 && ck->has_index && (uint64_t)ix.total_size != ck->bytes)
		checkpoint_note(ck,
				CHECKPOINT_INDEX ": total_size is %" PRId64 ", the tensors have %" PRIu64
						 " bytes",
				ix.total_size, ck->bytes);
	checkpoint_index_fini(&ix);
	if (rc) {
		checkpoint_free(&ck);
		return rc;
	}
	checkpoint_count_mtp(ck);
	*ret_ck = ck;
	return 0;
}

void checkpoint_free(struct checkpoint **ck)
{
	struct checkpoint *c = *ck;
	int i;

	*ck = NULL;
	if (!c)
		return;
	for (i = 0; i < c->n_files; i++) {
		mapfile_close(&c->file[i].map);
		safetensors_fini(&c->file[i].st);
		free(c->file[i].name);
		free(c->file[i].lacks);
	}
	for (i = 0; i < CHECKPOINT_MAX_NOTES; i++)
		buf_fini(&c->note[i]);
	nametab_fini(&c->names);
	free(c->tensor);
	free(c->file);
	free(c->dir);
	free(c);
}

const struct checkpoint_tensor *checkpoint_find(const struct checkpoint *ck, const char *name)
{
	int at = nametab_find(&ck->names, name);

	return at < 0 ? NULL : &ck->tensor[at];
}

const char *checkpoint_file_name(const struct checkpoint *ck, const struct checkpoint_tensor *t)
{
	return ck->file[t->file].name;
}

const void *checkpoint_data(const struct checkpoint *ck, const struct checkpoint_tensor *t)
{
	const struct checkpoint_file *f = &ck->file[t->file];

	must(f->map.data != NULL);
	return (const char *)f->map.data + t->t->offset;
}

/* ---- memory ---- */

int checkpoint_lock(const struct checkpoint *ck, struct buf *why)
{
	struct rlimit limit = { 0 };

	for (int i = 0; i < ck->n_files; i++) {
		const struct mapfile *m = &ck->file[i].map;
		int rc = m->data && mlock2(m->data, m->size, MLOCK_ONFAULT) < 0 ? -errno : 0;

		if (rc == 0)
			continue;
		(void)getrlimit(RLIMIT_MEMLOCK, &limit);
		return buf_why(why, rc, "%s: cannot be locked in memory: %s (the weights have %" PRIu64
			       " bytes, the memlock limit is %llu)", ck->file[i].name, strerror(-rc), ck->bytes,
			       (unsigned long long)limit.rlim_cur);
	}
	return 0;
}

void checkpoint_fetch(const struct checkpoint *ck, const void *data, size_t bytes)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)data / page * page;

	uintptr_t end = (uintptr_t)data + bytes;

	(void)ck;
	/* the system takes no more of one call than the device reads at once, and forgets the rest */
	for (; begin < end; begin += CHECKPOINT_PIECE)
		(void)madvise((void *)begin, end - begin < CHECKPOINT_PIECE ? end - begin : CHECKPOINT_PIECE,
			      MADV_WILLNEED);
}

static const struct checkpoint_file *checkpoint_holder(const struct checkpoint *ck, const char *data)
{
	for (int i = 0; i < ck->n_files; i++) {
		const char *map = ck->file[i].map.data;

		if (map && data >= map && data < map + ck->file[i].map.size)
			return &ck->file[i];
	}
	return NULL;
}

/* Out of this process first, then out of the page cache, which keeps what somebody has mapped. */
void checkpoint_forget(const struct checkpoint *ck, const void *data, size_t bytes)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = ((uintptr_t)data + page - 1) / page * page;
	uintptr_t end = ((uintptr_t)data + bytes) / page * page;
	const struct checkpoint_file *f = checkpoint_holder(ck, data);
	char *path;
	int fd;

	if (!f || begin >= end)
		return;
	(void)munlock((void *)begin, end - begin);
	(void)madvise((void *)begin, end - begin, MADV_DONTNEED);
	path = checkpoint_path(ck->dir, f->name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	free(path);
	if (fd < 0)
		return;
	(void)posix_fadvise(fd, (off_t)(begin - (uintptr_t)f->map.data), (off_t)(end - begin), POSIX_FADV_DONTNEED);
	close(fd);
}
