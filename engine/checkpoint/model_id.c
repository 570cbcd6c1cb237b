/* SPDX-License-Identifier: MIT
 * model_id.c - which model is this? A digest that another model does not have, cheap enough for every start.
 * Threads: any. Locks: none. */
#include "engine/checkpoint/model_id.h"

#include <inttypes.h>
#include <sys/mman.h>
#include <unistd.h>

#define MODEL_ID_MAX_CONFIG ((size_t)16 << 20)
#define MODEL_ID_SPOTS 3 /* of a tensor: head, middle, end */

static void model_id_add(struct buf *b, const char *what, const void *data, size_t n)
{
	char hex[SHA256_HEX];

	sha256_hex(hex, data, n);
	buf_printf(b, "%s %zu %s\n", what, n, hex);
}

/* The checkpoint was opened, so there is a header and it lies within the file. */
static void model_id_file(struct buf *b, const struct mapfile *m)
{
	const unsigned char *data = m->data;
	uint64_t len = 0;
	size_t from, n;

	for (int i = 7; i >= 0; i--)
		len = len << 8 | data[i];
	from = 8 + (size_t)len;
	n = m->size - from < MODEL_ID_PAGE ? m->size - from : MODEL_ID_PAGE;
	buf_printf(b, "file %zu changed %" PRId64 "\n", m->size, m->mtime_ns);
	model_id_add(b, "header", data, from);
	model_id_add(b, "first", data + from, n);
	model_id_add(b, "last", data + m->size - n, n);
}

/* What is shorter than a page counts whole at each of its spots. */
static const char *model_id_spot(const struct checkpoint *ck, int64_t i, size_t *ret_n)
{
	const struct checkpoint_tensor *t = &ck->tensor[i / MODEL_ID_SPOTS];
	size_t bytes = (size_t)t->t->bytes, n = bytes < MODEL_ID_PAGE ? bytes : MODEL_ID_PAGE;

	*ret_n = n;
	return (const char *)checkpoint_data(ck, t) + (bytes - n) / (MODEL_ID_SPOTS - 1) * (size_t)(i % MODEL_ID_SPOTS);
}

/* One read after the other a slow disk would take a minute. That it is of no use is no error. */
static void model_id_expect(const char *data, size_t n)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)data / page * page;

	(void)madvise((void *)from, (uintptr_t)data + n - from, MADV_WILLNEED);
}

/* The step is no multiple of the number of spots, or all would be heads. */
static void model_id_tensors(struct buf *b, const struct checkpoint *ck)
{
	int64_t spots = (int64_t)ck->n_tensors * MODEL_ID_SPOTS,
		step = (spots + MODEL_ID_SAMPLES - 1) / MODEL_ID_SAMPLES;
	size_t n;

	step += step % MODEL_ID_SPOTS == 0;
	for (int64_t i = 0; i < spots; i += step) {
		const char *data = model_id_spot(ck, i, &n);

		model_id_expect(data, n);
	}
	for (int64_t i = 0; i < spots; i += step) {
		const char *data = model_id_spot(ck, i, &n);

		model_id_add(b, "at", data, n);
	}
}

int model_id(const struct checkpoint *ck, char ret_id[SHA256_HEX], struct buf *why)
{
	struct buf b = { 0 }, path = { 0 }, config = { 0 };
	int rc;

	buf_printf(&path, "%s/config.json", ck->dir);
	rc = mapfile_slurp(buf_str(&path), MODEL_ID_MAX_CONFIG, &config, why);
	if (rc == 0) {
		model_id_add(&b, "config", buf_str(&config), config.len);
		for (int i = 0; i < ck->n_files; i++)
			model_id_file(&b, &ck->file[i].map);
		model_id_tensors(&b, ck);
		sha256_hex(ret_id, b.data, b.len);
	}
	buf_fini(&path);
	buf_fini(&config);
	buf_fini(&b);
	return rc;
}
