/* SPDX-License-Identifier: MIT
 * inspect_print.c - the description of a checkpoint as text and as JSON.
 * Threads: any. Locks: none. */
#include "engine/base/mem.h"
#include "engine/checkpoint/inspect_priv.h"
#include "plugins/op/op_name.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	enum inventory_fault fault;
} inspect_faults[] = {
	{ "missing", INVENTORY_MISSING },
	{ "unexpected", INVENTORY_UNEXPECTED },
	{ "mismatched", INVENTORY_MISMATCHED },
};

static const char *inspect_routed(const struct inspect_report *r)
{
	return r->routed_fmt == -1 ? "none" : r->routed_fmt == -2 ? "several" :
	       op_wfmt_name((enum dsv4_wfmt)r->routed_fmt);
}

static const char *inspect_mtp_form(const struct inspect_report *r)
{
	return r->ck->config.n_mtp == 0 ? "none" : r->inv.mtp_is_dspark ? "dspark" : "mtp";
}

static bool inspect_complete(const struct inspect_report *r)
{
	return inspect_verdict(r, NULL) == 0;
}

static struct inspect_count inspect_mtp(const struct inspect_report *r)
{
	struct inspect_count n = { 0 };
	int f;

	for (f = 0; f < INVENTORY_N_FAMILY; f++) {
		n.tensors += r->family[f].mtp.tensors;
		n.bytes += r->family[f].mtp.bytes;
	}
	return n;
}

/* ---- text ---- */

/* "1.34 GiB" and so on; plain bytes below 1 KiB. */
static const char *inspect_size(double bytes, char out[32])
{
	static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	size_t u = 0;

	for (; bytes >= 1024 && u + 1 < mem_countof(unit); u++)
		bytes /= 1024;
	snprintf(out, 32, u ? "%.2f %s" : "%.0f %s", bytes, unit[u]);
	return out;
}

static void inspect_text_model(const struct inspect_report *r, struct buf *out)
{
	const struct model_config *c = &r->ck->config;
	struct inspect_count mtp = inspect_mtp(r);
	char size[32];

	buf_printf(out, "%s: deepseek_v4, hidden %d, %d heads of %d\n", r->ck->dir, c->hidden_size,
		   c->n_heads, c->head_dim);
	buf_printf(out, "layers      %d: %d window, %d ratio 4, %d ratio 128\n", c->n_layers, r->layers[0],
		   r->layers[1], r->layers[2]);
	buf_printf(out, "experts     %d, %d per token, %d shared, %d hash layers, stored as %s\n",
		   c->n_experts, c->experts_per_tok, c->n_shared_experts, c->n_hash_layers,
		   inspect_routed(r));
	buf_printf(out, "context     %d, vocabulary %d, index_topk %d, window %d\n", c->max_context,
		   c->vocab_size, c->index_topk, c->window);
	buf_printf(out, "parameters  %" PRId64 ", and %" PRId64 " in draft blocks\n", r->parameters,
		   r->mtp_parameters);
	buf_printf(out, "tensors     %d in %d files\n", r->ck->n_tensors, r->ck->n_files);
	buf_printf(out, "bytes       %" PRIu64 " (%s)\n", r->ck->bytes,
		   inspect_size((double)r->ck->bytes, size));
	buf_printf(out, "draft       %s", inspect_mtp_form(r));
	if (c->n_mtp)
		buf_printf(out, ": %d block%s, %" PRId64 " tensors, %" PRIu64 " bytes", c->n_mtp,
			   c->n_mtp > 1 ? "s" : "", mtp.tensors, mtp.bytes);
	buf_addc(out, '\n');
}

static void inspect_text_weights(const struct inspect_report *r, struct buf *out)
{
	char size[32], cache[32];
	int i;

	buf_printf(out, "\n%-10s %8s %18s\n", "dtype", "tensors", "bytes");
	for (i = 0; i < ST_N_DTYPE; i++)
		if (r->dtype[i].tensors)
			buf_printf(out, "%-10s %8" PRId64 " %18" PRIu64 "\n", safetensors_dtype_name(i),
				   r->dtype[i].tensors, r->dtype[i].bytes);
	buf_printf(out, "\n%-10s %8s %18s %18s %14s %14s\n", "family", "tensors", "bytes", "draft bytes",
		   "read/token", "+ cache, full");
	for (i = 0; i < INVENTORY_N_FAMILY; i++) {
		const struct inspect_family *f = &r->family[i];

		buf_printf(out, "%-10s %8" PRId64 " %18" PRIu64 " %18" PRIu64 " %14s %14s\n",
			   inventory_family_name(i), f->main.tensors + f->mtp.tensors, f->main.bytes,
			   f->mtp.bytes, inspect_size(f->read, size),
			   f->cache_read > 0 ? inspect_size(f->cache_read, cache) : "-");
	}
	buf_adds(out, "(a family reads what its ops are given; the matrices of compressor and indexer belong "
		      "to gemm)\n");
}

static void inspect_text_kv(const struct inspect_report *r, struct buf *out)
{
	char full[32], window[32];
	int i;

	buf_printf(out, "\n%-10s %-10s %8s %8s %14s %14s %14s\n", "kv_format", "index_key", "row", "key",
		   "bytes/token", "windows", "full context");
	for (i = 0; i < INSPECT_N_KV; i++) {
		const struct inspect_kv *v = &r->kv[i];

		buf_printf(out, "%-10s %-10s %8" PRId64 " %8" PRId64 " %14.2f %14s %14s\n", v->kv_format,
			   v->index_key, v->row, v->key, v->per_token,
			   inspect_size((double)v->window, window), inspect_size(v->at_max, full));
	}
}

static void inspect_text_faults(const struct inspect_report *r, struct buf *out)
{
	size_t i;
	int k, n;

	buf_printf(out, "\n%s",
		   inspect_complete(r) ? "complete: every expected tensor is there, nothing else\n" : "");
	for (k = 0; k < r->ck->n_notes && k < CHECKPOINT_MAX_NOTES; k++)
		buf_printf(out, "note: %s\n", buf_str(&r->ck->note[k]));
	for (i = 0; i < mem_countof(inspect_faults); i++) {
		n = r->inv.n[inspect_faults[i].fault];
		if (n)
			buf_printf(out, "%s: %d\n", inspect_faults[i].name, n);
		for (k = 0; k < n && k < INVENTORY_MAX_TEXTS; k++)
			buf_printf(out, "  %s\n", buf_str(&r->inv.text[inspect_faults[i].fault][k]));
		if (n > INVENTORY_MAX_TEXTS)
			buf_printf(out, "  ... and %d more\n", n - INVENTORY_MAX_TEXTS);
	}
}

void inspect_text(const struct inspect_report *r, struct buf *out)
{
	inspect_text_model(r, out);
	inspect_text_weights(r, out);
	inspect_text_kv(r, out);
	inspect_text_faults(r, out);
}

/* ---- JSON ---- */

static json_t *inspect_json_model(const struct inspect_report *r)
{
	const struct model_config *c = &r->ck->config;
	struct inspect_count mtp = inspect_mtp(r);

	return json_pack("{s:s, s:i, s:{s:i, s:i, s:i}, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:i, s:I, "
			 "s:{s:s, s:i, s:I, s:I, s:I}}",
			 "type", "deepseek_v4", "layers", c->n_layers,
			 "layers_by_ratio", "0", r->layers[0], "4", r->layers[1], "128", r->layers[2],
			 "hidden_size", c->hidden_size, "heads", c->n_heads, "head_dim", c->head_dim,
			 "vocab_size", c->vocab_size, "max_context", c->max_context,
			 "experts", c->n_experts, "experts_per_token", c->experts_per_tok,
			 "expert_format", inspect_routed(r), "index_topk", c->index_topk,
			 "parameters", (json_int_t)r->parameters,
			 "draft", "form", inspect_mtp_form(r), "blocks", c->n_mtp,
			 "parameters", (json_int_t)r->mtp_parameters, "tensors", (json_int_t)mtp.tensors,
			 "bytes", (json_int_t)mtp.bytes);
}

static json_t *inspect_json_dtypes(const struct inspect_report *r)
{
	json_t *o = json_object();
	int i;

	for (i = 0; i < ST_N_DTYPE; i++)
		if (r->dtype[i].tensors)
			json_object_set_new(o, safetensors_dtype_name(i),
					    json_pack("{s:I, s:I}",
						      "tensors", (json_int_t)r->dtype[i].tensors,
						      "bytes", (json_int_t)r->dtype[i].bytes));
	return o;
}

static json_t *inspect_json_families(const struct inspect_report *r)
{
	json_t *o = json_object();
	int i;

	for (i = 0; i < INVENTORY_N_FAMILY; i++) {
		const struct inspect_family *f = &r->family[i];

		json_object_set_new(o, inventory_family_name(i),
				    json_pack("{s:I, s:I, s:I, s:f, s:f}",
					      "tensors", (json_int_t)(f->main.tensors + f->mtp.tensors),
					      "bytes", (json_int_t)f->main.bytes,
					      "draft_bytes", (json_int_t)f->mtp.bytes,
					      "read_per_token", f->read,
					      "cache_read_per_token_at_full_context", f->cache_read));
	}
	return o;
}

static json_t *inspect_json_kv(const struct inspect_report *r)
{
	json_t *list = json_array();
	int i;

	for (i = 0; i < INSPECT_N_KV; i++) {
		const struct inspect_kv *v = &r->kv[i];

		json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:I, s:f, s:I, s:f}",
			"kv_format", v->kv_format, "index_key", v->index_key, "row_bytes", (json_int_t)v->row,
			"key_bytes", (json_int_t)v->key, "bytes_per_token", v->per_token,
			"window_bytes", (json_int_t)v->window, "bytes_at_full_context", v->at_max));
	}
	return list;
}

static json_t *inspect_json_texts(const struct buf *text, int n, int max)
{
	json_t *list = json_array();
	int i;

	for (i = 0; i < n && i < max; i++)
		json_array_append_new(list, json_string(buf_str(&text[i])));
	return list;
}

int inspect_json(const struct inspect_report *r, struct buf *out)
{
	json_t *o = json_pack("{s:s, s:o, s:i, s:i, s:I, s:o, s:o, s:o, s:b, s:o}",
			      "directory", r->ck->dir, "model", inspect_json_model(r),
			      "files", r->ck->n_files, "tensors", r->ck->n_tensors,
			      "bytes", (json_int_t)r->ck->bytes, "dtypes", inspect_json_dtypes(r),
			      "families", inspect_json_families(r), "kv", inspect_json_kv(r),
			      "complete", inspect_complete(r),
			      "notes", inspect_json_texts(r->ck->note, r->ck->n_notes, CHECKPOINT_MAX_NOTES));
	char *text;
	size_t i;

	for (i = 0; o && i < mem_countof(inspect_faults); i++) {
		enum inventory_fault f = inspect_faults[i].fault;

		json_object_set_new(
			o, inspect_faults[i].name,
			json_pack("{s:i, s:o}", "count", r->inv.n[f], "first",
				  inspect_json_texts(r->inv.text[f], r->inv.n[f], INVENTORY_MAX_TEXTS)));
	}
	text = o ? json_dumps(o, JSON_INDENT(2)) : NULL;
	json_decref(o);
	if (!text)
		return -ENOMEM;
	buf_adds(out, text);
	buf_addc(out, '\n');
	free(text);
	return 0;
}
