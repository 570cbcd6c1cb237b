/* SPDX-License-Identifier: MIT
 * mkmodel_write.c - writes a planned checkpoint: threads fill pieces of tensors and write them at their places.
 * Threads: one caller; starts and joins its own. Lock: mkmodel, for the end and the bar. */
#include "engine/base/lock.h"
#include "engine/base/mapfile.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/checkpoint/safetensors_write.h"
#include "tests/bench/bench_progress.h"
#include "tests/bench/mkmodel.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define MKMODEL_PIECE ((uint64_t)4 << 20) /* bytes of a tensor that a thread makes at a time */
#define MKMODEL_SPARE ((uint64_t)64 << 20) /* of the disk that is left alone */
#define MKMODEL_MAX_TEXT ((size_t)256 << 20)
#define MKMODEL_MAX_THREADS 256
#define MKMODEL_BAR_MS 100

struct mkmodel_shard {
	char name[64];
	int fd;
	uint64_t data;             /* where the data begins in the file */
};

struct mkmodel_job {
	const struct mkmodel_plan *p;
	const struct mkmodel_options *o;
	int dir;                   /* the directory, opened */
	bool made;                 /* by this program */
	struct mkmodel_shard *shard; /* [p->n_shard] */
	struct buf *why;
	struct lock lock;
	pthread_cond_t wake;
	int tensor;                /* under the lock, like what follows: the next piece */
	uint64_t at;
	uint64_t done;             /* bytes */
	int rc, running;
};

/* ---- before anything is written ---- */

static int mkmodel_empty(struct mkmodel_job *j)
{
	int fd = dup(j->dir), n = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d)
		return buf_why(j->why, -errno, "%s: %s", j->o->dir, strerror(errno));
	for (struct dirent *e; (e = readdir(d)) != NULL;)
		n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
	closedir(d);
	return n ? buf_why(j->why, RC_INVALID, "%s is not empty, and nothing in it is overwritten", j->o->dir) : 0;
}

static int mkmodel_space(struct mkmodel_job *j)
{
	struct statvfs v;
	uint64_t free_bytes, need = j->p->bytes + MKMODEL_SPARE;

	if (fstatvfs(j->dir, &v) < 0)
		return buf_why(j->why, -errno, "%s: %s", j->o->dir, strerror(errno));
	free_bytes = (uint64_t)v.f_bavail * v.f_frsize;
	if (j->o->sparse || free_bytes >= need)
		return 0;
	return buf_why(j->why, -ENOSPC, "%s: %.2f GB are needed, its file system has %.2f GB free", j->o->dir,
		       (double)need / 1e9, (double)free_bytes / 1e9);
}

static int mkmodel_open_dir(struct mkmodel_job *j)
{
	int rc;

	j->made = mkdir(j->o->dir, 0777) == 0;
	if (!j->made && errno != EEXIST)
		return buf_why(j->why, -errno, "%s: %s", j->o->dir, strerror(errno));
	j->dir = open(j->o->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (j->dir < 0)
		return buf_why(j->why, -errno, "%s: %s", j->o->dir, strerror(errno));
	rc = mkmodel_empty(j);
	return rc ? rc : mkmodel_space(j);
}

/* ---- small files ---- */

static int mkmodel_fault(struct mkmodel_job *j, const char *name, int error)
{
	return buf_why(j->why, -error, "%s/%s: %s", j->o->dir, name, strerror(error));
}

static int mkmodel_pwrite(int fd, const void *data, size_t n, uint64_t at)
{
	const char *p = data;

	while (n > 0) {
		ssize_t k = pwrite(fd, p, n, (off_t)at);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return k < 0 ? -errno : -EIO;
		p += k;
		n -= (size_t)k;
		at += (uint64_t)k;
	}
	return 0;
}

static int mkmodel_text(struct mkmodel_job *j, const char *name, const struct buf *text)
{
	int fd = openat(j->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	int rc = fd < 0 ? -errno : mkmodel_pwrite(fd, buf_str(text), text->len, 0);

	if (fd >= 0 && close(fd) < 0 && rc == 0)
		rc = -errno;
	return rc ? mkmodel_fault(j, name, -rc) : 0;
}

static int mkmodel_copy(struct mkmodel_job *j, const char *from, const char *name)
{
	struct buf text = { 0 };
	int rc = mapfile_slurp(from, MKMODEL_MAX_TEXT, &text, j->why);

	rc = rc ? rc : mkmodel_text(j, name, &text);
	buf_fini(&text);
	return rc;
}

static int mkmodel_index(struct mkmodel_job *j)
{
	struct buf text = { 0 };
	int rc;

	buf_printf(&text, "{\"metadata\":{\"total_size\":%" PRIu64 "},\n \"weight_map\":{", j->p->bytes);
	for (int i = 0; i < j->p->n; i++)
		buf_printf(&text, "%s\n  \"%s\": \"%s\"", i ? "," : "", j->p->tensor[i].name,
			   j->shard[j->p->tensor[i].shard].name);
	buf_adds(&text, "}}\n");
	rc = mkmodel_text(j, "model.safetensors.index.json", &text);
	buf_fini(&text);
	return rc;
}

/* What is only copied comes first: it may be missing. */
static int mkmodel_texts(struct mkmodel_job *j)
{
	static char published[] = "{\n  \"_from_model_config\": true,\n  \"bos_token_id\": 0,\n  \"eos_token_id\": 1,\n"
				  "  \"do_sample\": true,\n  \"temperature\": 1.0,\n  \"top_p\": 1.0\n}\n";
	const struct buf text = { .data = published, .len = sizeof published - 1 };
	int rc = 0;

	if (j->o->tokenizer)
		rc = mkmodel_copy(j, j->o->tokenizer, "tokenizer.json");
	if (rc == 0 && j->o->generation)
		return mkmodel_copy(j, j->o->generation, "generation_config.json");
	return rc ? rc : mkmodel_text(j, "generation_config.json", &text);
}

/* ---- shards ---- */

static int mkmodel_shard_header(struct mkmodel_job *j, int s, struct buf *ret_header, uint64_t *ret_bytes)
{
	static const char *const meta[] = { "format", "pt", NULL };
	struct safetensors_entry *entry = mem_grow(NULL, (size_t)j->p->n, sizeof *entry);
	int n = 0, rc;

	*ret_bytes = 0;
	for (int i = 0; i < j->p->n; i++) {
		const struct mkmodel_tensor *t = &j->p->tensor[i];

		if (t->shard != s)
			continue;
		entry[n++] = (struct safetensors_entry){ .name = t->name, .dtype = t->dtype, .n_dim = t->n_dim,
							 .dim = { t->dim[0], t->dim[1] } };
		*ret_bytes += t->bytes;
	}
	rc = safetensors_header(entry, n, meta, ret_header, j->why);
	free(entry);
	return rc;
}

/* Makes the file with its header and its full size. Blocks are reserved where the file system can. */
static int mkmodel_shard_open(struct mkmodel_job *j, int s)
{
	struct mkmodel_shard *shard = &j->shard[s];
	struct buf header = { 0 };
	uint64_t bytes;
	int rc = mkmodel_shard_header(j, s, &header, &bytes);

	if (rc)
		goto out;
	snprintf(shard->name, sizeof shard->name, "model-%05d-of-%05d.safetensors", s + 1, j->p->n_shard);
	shard->data = header.len;
	shard->fd = openat(j->dir, shard->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (shard->fd < 0 || ftruncate(shard->fd, (off_t)(shard->data + bytes)) < 0) {
		rc = -errno;
		goto out;
	}
	if (!j->o->sparse && fallocate(shard->fd, 0, 0, (off_t)(shard->data + bytes)) < 0 && errno == ENOSPC)
		rc = -ENOSPC;
	else
		rc = mkmodel_pwrite(shard->fd, header.data, header.len, 0);
out:
	buf_fini(&header);
	return rc ? mkmodel_fault(j, shard->name, -rc) : 0;
}

static int mkmodel_shards_open(struct mkmodel_job *j)
{
	int rc = 0;

	for (int s = 0; s < j->p->n_shard && rc == 0; s++)
		rc = mkmodel_shard_open(j, s);
	return rc;
}

static int mkmodel_shards_close(struct mkmodel_job *j)
{
	int rc = 0;

	for (int s = 0; s < j->p->n_shard; s++)
		if (j->shard[s].fd >= 0 && close(j->shard[s].fd) < 0 && rc == 0)
			rc = mkmodel_fault(j, j->shard[s].name, errno);
	return rc;
}

/* ---- data ---- */

/* The next piece of a tensor, under the lock. */
static bool mkmodel_next(struct mkmodel_job *j, const struct mkmodel_tensor **ret_t, uint64_t *ret_at)
{
	while (j->tensor < j->p->n && j->at >= j->p->tensor[j->tensor].bytes) {
		j->tensor++;
		j->at = 0;
	}
	if (j->rc || j->tensor == j->p->n)
		return false;
	*ret_t = &j->p->tensor[j->tensor];
	*ret_at = j->at;
	j->at += MKMODEL_PIECE;
	return true;
}

static void *mkmodel_work(void *arg)
{
	struct mkmodel_job *j = arg;
	uint8_t *piece = mem_grow(NULL, MKMODEL_PIECE, 1);
	const struct mkmodel_tensor *t;
	uint64_t at, n = 0;

	lock_take(&j->lock);
	while (mkmodel_next(j, &t, &at)) {
		const struct mkmodel_shard *shard = &j->shard[t->shard];
		int rc;

		lock_drop(&j->lock);
		n = t->bytes - at < MKMODEL_PIECE ? t->bytes - at : MKMODEL_PIECE;
		mkmodel_fill(&t->values, at, piece, (size_t)n);
		rc = mkmodel_pwrite(shard->fd, piece, (size_t)n, shard->data + t->at + at);
		lock_take(&j->lock);
		j->done += n;
		if (rc && !j->rc)
			j->rc = mkmodel_fault(j, shard->name, -rc);
	}
	if (--j->running == 0)
		must_zero(pthread_cond_signal(&j->wake));
	lock_drop(&j->lock);
	free(piece);
	return NULL;
}

static void mkmodel_watch(struct mkmodel_job *j)
{
	struct bench_progress bar;
	char what[64];

	bench_progress_init(&bar);
	lock_take(&j->lock);
	while (j->running > 0) {
		snprintf(what, sizeof what, "%.1f of %.1f GB", (double)j->done / 1e9, (double)j->p->bytes / 1e9);
		bench_progress_show(&bar, what, (double)j->done, (double)j->p->bytes);
		lock_wait(&j->lock, &j->wake, MKMODEL_BAR_MS);
	}
	lock_drop(&j->lock);
	bench_progress_clear(&bar);
}

static int mkmodel_data(struct mkmodel_job *j)
{
	int n = j->o->n_threads < MKMODEL_MAX_THREADS ? j->o->n_threads : MKMODEL_MAX_THREADS, started = 0;
	pthread_t thread[MKMODEL_MAX_THREADS];

	if (j->o->sparse)
		return 0;
	lock_init(&j->lock, "mkmodel");
	lock_cond_init(&j->wake);
	j->running = n;
	while (started < n && pthread_create(&thread[started], NULL, mkmodel_work, j) == 0)
		started++;
	lock_take(&j->lock);
	j->running -= n - started;
	if (started == 0)
		j->rc = buf_why(j->why, -EAGAIN, "no thread could be started");
	lock_drop(&j->lock);
	mkmodel_watch(j);
	for (int i = 0; i < started; i++)
		must_zero(pthread_join(thread[i], NULL));
	must_zero(pthread_cond_destroy(&j->wake));
	lock_fini(&j->lock);
	return j->rc;
}

/* ---- all of it ---- */

static void mkmodel_remove(struct mkmodel_job *j)
{
	static const char *const small[] = { "model.safetensors.index.json", "generation_config.json", "tokenizer.json",
					     "config.json" };

	for (int s = 0; s < j->p->n_shard; s++)
		if (j->shard[s].name[0])
			unlinkat(j->dir, j->shard[s].name, 0);
	for (size_t i = 0; i < mem_countof(small); i++)
		unlinkat(j->dir, small[i], 0);
}

int mkmodel_write(const struct mkmodel_plan *p, const struct mkmodel_options *o, const struct buf *config,
		  struct buf *why)
{
	struct mkmodel_job j = { .p = p, .o = o, .dir = -1, .why = why };
	int rc = mkmodel_open_dir(&j), closed;

	if (rc == 0) {
		j.shard = mem_grow(NULL, (size_t)p->n_shard, sizeof *j.shard);
		memset(j.shard, 0, (size_t)p->n_shard * sizeof *j.shard);
		for (int i = 0; i < p->n_shard; i++)
			j.shard[i].fd = -1;
		rc = mkmodel_texts(&j);
		rc = rc ? rc : mkmodel_shards_open(&j);
		rc = rc ? rc : mkmodel_data(&j);
		closed = mkmodel_shards_close(&j);
		rc = rc ? rc : closed;
		rc = rc ? rc : mkmodel_index(&j);
		rc = rc ? rc : mkmodel_text(&j, "config.json", config); /* without it the directory is no model yet */
		if (rc)
			mkmodel_remove(&j);
	}
	free(j.shard);
	if (j.dir >= 0)
		close(j.dir);
	if (rc && j.made)
		rmdir(o->dir);
	return rc;
}
