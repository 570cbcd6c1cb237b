/* SPDX-License-Identifier: MIT
 * model_id.c - which model is this? A digest that another model does not have, cheap enough for every start.
 * Threads: any. Locks: none. */
#include "engine/checkpoint/model_id.h"

#define MODEL_ID_SAMPLE ((size_t)4096) /* bytes of a file's data, at either end */
#define MODEL_ID_MAX_CONFIG ((size_t)16 << 20)

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
	n = m->size - from < MODEL_ID_SAMPLE ? m->size - from : MODEL_ID_SAMPLE;
	buf_printf(b, "file %zu\n", m->size);
	model_id_add(b, "header", data, from);
	model_id_add(b, "first", data + from, n);
	model_id_add(b, "last", data + m->size - n, n);
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
		sha256_hex(ret_id, b.data, b.len);
	}
	buf_fini(&path);
	buf_fini(&config);
	buf_fini(&b);
	return rc;
}
