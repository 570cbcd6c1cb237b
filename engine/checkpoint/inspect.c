/* SPDX-License-Identifier: MIT
 * inspect.c - describes a checkpoint from its headers alone: the counting; inspect_print.c prints.
 * Threads: any. Locks: none. */
#include "engine/checkpoint/inspect.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/checkpoint/inspect_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- weights ---- */

/* Of an embedding or a hash table one token reads a row, of the experts its k, of all else everything. */
static double inspect_read(const struct inspect_report *r, const struct inventory_item *it)
{
	const struct model_config *c = &r->ck->config;
	double bytes = (double)it->bytes;

	if (it->mtp)
		return 0;
	if (it->row->family == INVENTORY_EMBED || it->row->kind == INVENTORY_I64)
		return bytes / (double)it->row->rows;
	return it->row->scope == INVENTORY_EXPERT ? bytes * c->experts_per_tok / c->n_experts : bytes;
}

/* The experts of a block that is computed must share one format, as weights_open demands. */
static void inspect_expert(struct inspect_report *r, const struct inventory_item *it)
{
	int at;

	if (!it->mtp)
		r->routed_fmt = r->routed_fmt == -1 || r->routed_fmt == it->fmt ? it->fmt : -2;
	else if (r->inv.mtp_is_dspark || it->layer > 0)
		return;
	if (!r->first.data || r->first.layer != it->layer || r->first.mtp != it->mtp)
		r->first = *it;
	if (r->first.fmt == it->fmt && r->first.sfmt == it->sfmt)
		return;
	at = r->inv.n[INVENTORY_MISMATCHED]++;
	if (at < INVENTORY_MAX_TEXTS)
		buf_printf(&r->inv.text[INVENTORY_MISMATCHED][at],
			   "%s: tensor %s: expected the number format of the block's first expert, found another",
			   checkpoint_file_name(r->ck, it->data), it->name);
}

static int inspect_item(void *arg, const struct inventory_item *it)
{
	struct inspect_report *r = arg;
	struct inspect_family *f = &r->family[it->row->family];
	struct inspect_count *n = it->mtp ? &f->mtp : &f->main;
	int64_t values = it->row->rows * (it->row->cols ? it->row->cols : 1);

	n->tensors += it->tensors;
	n->bytes += it->bytes;
	f->read += inspect_read(r, it);
	*(it->mtp ? &r->mtp_parameters : &r->parameters) += values;
	if (it->row->scope == INVENTORY_EXPERT)
		inspect_expert(r, it);
	return 0;
}

static void inspect_dtypes(struct inspect_report *r)
{
	int i;

	for (i = 0; i < r->ck->n_tensors; i++) {
		const struct safetensors_tensor *t = r->ck->tensor[i].t;

		r->dtype[t->dtype].tensors++;
		r->dtype[t->dtype].bytes += t->bytes;
	}
}

/* ---- caches ---- */

/* The non-RoPE part at 1 byte per value and a scale byte per 64, padded to 8; the RoPE part stays bf16. */
static int64_t inspect_fp8_row(const struct model_config *c)
{
	int64_t plain = c->head_dim - c->rope_dim, scales = (plain + 63) / 64;

	return plain + 2 * (int64_t)c->rope_dim + (scales + 7) / 8 * 8;
}

static void inspect_kv_sizes(struct inspect_report *r)
{
	const struct model_config *c = &r->ck->config;
	const int64_t d = c->head_dim, k = c->index_dim;
	const struct inspect_kv kv[INSPECT_N_KV] = {
		{ .kv_format = "fp8", .index_key = "fp4", .row = inspect_fp8_row(c), .key = k / 2 + k / 32 },
		{ .kv_format = "fp8", .index_key = "fp8", .row = inspect_fp8_row(c), .key = k + 4 },
		{ .kv_format = "bf16", .index_key = "bf16", .row = 2 * d, .key = 2 * k },
		{ .kv_format = "f32", .index_key = "f32", .row = 4 * d, .key = 4 * k },
	};
	int i;

	for (i = 0; i < c->n_layers; i++)
		r->layers[c->compress_ratio[i] == 0 ? 0 : c->compress_ratio[i] == 4 ? 1 : 2]++;
	memcpy(r->kv, kv, sizeof kv);
	for (i = 0; i < INSPECT_N_KV; i++) {
		struct inspect_kv *v = &r->kv[i];

		v->per_token = r->layers[1] * (double)(v->row + v->key) / 4 +
			       r->layers[2] * (double)v->row / 128;
		v->window = (int64_t)c->window * v->row * c->n_layers;
		v->at_max = v->per_token * c->max_context;
	}
}

/* What one token at the end of a full context reads of the caches, in the native formats. */
static void inspect_cache_reads(struct inspect_report *r)
{
	const struct model_config *c = &r->ck->config;
	const struct inspect_kv *v = &r->kv[0];
	double rows4 = c->max_context / 4, kept = rows4 < c->index_topk ? rows4 : c->index_topk;

	r->family[DSV4_ATTENTION].cache_read = (double)v->window + (double)v->row *
		(r->layers[1] * kept + r->layers[2] * (double)(c->max_context / 128));
	r->family[DSV4_INDEXER].cache_read = r->layers[1] * rows4 * (double)v->key;
}

/* ---- the whole ---- */

static int inspect_file_verdict(const struct checkpoint *ck, const struct checkpoint_file *f, struct buf *why)
{
	if (f->absent)
		return buf_why(why, RC_MODEL, "%s: incomplete: %s: no such file; the index expects tensor %s in it",
			       ck->dir, f->name, f->lacks ? f->lacks : "data");
	if (f->missing)
		return buf_why(why, RC_MODEL, "%s: incomplete: %s: %" PRIu64 " of %" PRIu64 " bytes are not there",
			       ck->dir, f->name, f->missing, f->st.size);
	return 0;
}

int inspect_verdict(const struct inspect_report *r, struct buf *why)
{
	const int *n = r->inv.n;
	struct buf text = { 0 };
	int f, rc = 0;

	for (f = 0; rc == 0 && f < r->ck->n_files; f++)
		rc = inspect_file_verdict(r->ck, &r->ck->file[f], why);
	if (rc)
		return rc;
	rc = inventory_verdict(&r->inv, &text);
	if (rc)
		buf_why(why, rc, "%s: %s: %s", r->ck->dir,
			n[INVENTORY_MISMATCHED] || !n[INVENTORY_MISSING] ? "mismatched" : "incomplete",
			buf_str(&text));
	buf_fini(&text);
	return rc;
}

int inspect_checkpoint(const struct checkpoint *ck, bool json, struct buf *out, struct buf *why)
{
	struct inspect_report *r = mem_new(sizeof *r);
	int rc;

	r->ck = ck;
	r->routed_fmt = -1;
	rc = inventory_walk(ck, inspect_item, r, &r->inv);
	if (rc == 0) {
		inspect_dtypes(r);
		inspect_kv_sizes(r);
		inspect_cache_reads(r);
		if (json)
			rc = inspect_json(r, out);
		else
			inspect_text(r, out);
	}
	rc = rc ? buf_why(why, rc, "out of memory for the description") : inspect_verdict(r, why);
	inventory_fini(&r->inv);
	free(r);
	return rc;
}

int inspect_describe(const char *dir, bool json, struct buf *out, struct buf *why)
{
	struct checkpoint *ck;
	int rc = checkpoint_open(dir, CHECKPOINT_HEADERS, &ck, why);

	if (rc)
		return rc;
	rc = inspect_checkpoint(ck, json, out, why);
	checkpoint_free(&ck);
	return rc;
}
