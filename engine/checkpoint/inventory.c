/* SPDX-License-Identifier: MIT
 * inventory.c - the tensors that a config calls for, matched with those that a checkpoint has.
 * Threads: any. Locks: none. */
#include "engine/checkpoint/inventory.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- the walk's state, and faults ---- */

struct inventory_walk {
	const struct checkpoint *ck;
	inventory_item_f *fn;
	void *arg;
	struct inventory *inv;
	uint8_t *seen;                 /* [n_tensors] */
	struct inventory_item it;
	char name[INVENTORY_MAX_NAME]; /* of the row, and while it is looked for with a suffix */
};

/* Where the text of a new fault goes; NULL once enough are kept. */
static struct buf *inventory_fault(struct inventory *inv, enum inventory_fault f)
{
	int at = inv->n[f]++;

	return at < INVENTORY_MAX_TEXTS ? &inv->text[f][at] : NULL;
}

/* Finds NAME + suffix, marks it as expected and counts it to the item. */
static const struct checkpoint_tensor *inventory_find(struct inventory_walk *w, const char *suffix)
{
	const struct checkpoint_tensor *t;
	size_t n = strlen(w->name);

	must(n + strlen(suffix) < sizeof w->name);
	strcpy(w->name + n, suffix);
	t = checkpoint_find(w->ck, w->name);
	w->name[n] = '\0';
	if (!t)
		return NULL;
	w->seen[t - w->ck->tensor] = 1;
	w->it.tensors++;
	w->it.bytes += t->t->bytes;
	return t;
}

/* Tells a fault of NAME + suffix: expected `what` of a shape (cols 0: vector, -1: scalar), found t. */
static bool inventory_wrong(struct inventory_walk *w, const char *suffix, const char *what, int64_t rows,
			    int64_t cols, const struct checkpoint_tensor *t)
{
	struct buf *out = inventory_fault(w->inv, t ? INVENTORY_MISMATCHED : INVENTORY_MISSING);
	int64_t dim[2] = { rows, cols };

	if (!out)
		return false;
	buf_printf(out, "%s: tensor %s%s: expected %s ", t ? checkpoint_file_name(w->ck, t) : w->ck->dir,
		   w->name, suffix, what);
	safetensors_shape(out, dim, cols < 0 ? 0 : cols == 0 ? 1 : 2);
	buf_adds(out, ", found ");
	if (!t) {
		buf_adds(out, "nothing");
		return false;
	}
	buf_printf(out, "%s ", safetensors_dtype_name(t->t->dtype));
	safetensors_shape(out, t->t->dim, t->t->n_dim);
	return false;
}

static bool inventory_shape(const struct checkpoint_tensor *t, int64_t rows, int64_t cols)
{
	const struct safetensors_tensor *s = t->t;

	if (cols > 0)
		return s->n_dim == 2 && s->dim[0] == rows && s->dim[1] == cols;
	return s->n_dim == 1 && s->dim[0] == rows;
}

/* ---- matching one tensor ---- */

static bool inventory_vector(struct inventory_walk *w, const struct inventory_row *r)
{
	static const char *const what[] = { [INVENTORY_NORM] = "BF16 or F32", [INVENTORY_F32] = "F32",
					    [INVENTORY_I64] = "I64" };
	const struct checkpoint_tensor *t = inventory_find(w, "");
	int dtype = t ? t->t->dtype : -1;
	bool ok = r->kind == INVENTORY_I64 ? dtype == ST_I64 :
		  dtype == ST_F32 || (r->kind == INVENTORY_NORM && dtype == ST_BF16);

	if (!ok || !inventory_shape(t, r->rows, r->cols))
		return inventory_wrong(w, "", what[r->kind], r->rows, r->cols, t);
	w->it.data = t;
	return true;
}

/* One scale per 128 x 128 values: E8M0 as published, F32 in the FP8 base checkpoint. */
static bool inventory_fp8(struct inventory_walk *w, const struct inventory_row *r)
{
	int64_t rows = (r->rows + INVENTORY_FP8_BLOCK - 1) / INVENTORY_FP8_BLOCK;
	int64_t cols = (r->cols + INVENTORY_FP8_BLOCK - 1) / INVENTORY_FP8_BLOCK;
	const struct checkpoint_tensor *s = inventory_find(w, ".scale");

	if (!s || (s->t->dtype != ST_F8_E8M0 && s->t->dtype != ST_F32) || !inventory_shape(s, rows, cols))
		return inventory_wrong(w, ".scale", "F8_E8M0 or F32", rows, cols, s);
	w->it.fmt = DSV4_W_FP8;
	w->it.sfmt = s->t->dtype == ST_F32 ? DSV4_S_F32 : DSV4_S_E8M0;
	w->it.scale = s;
	return true;
}

static bool inventory_scalar(struct inventory_walk *w, const char *suffix, bool optional,
			     const struct checkpoint_tensor **ret_t)
{
	const struct checkpoint_tensor *t = inventory_find(w, suffix);

	if (!t && optional)
		return true;
	if (!t || t->t->dtype != ST_F32 || !(t->t->n_dim == 0 || inventory_shape(t, 1, 0)))
		return inventory_wrong(w, suffix, "F32", 0, -1, t);
	*ret_t = t;
	return true;
}

/* Two values to a byte: with .scale FP4 (E8M0 per 32 columns), with .weight_scale NVFP4 (E4M3 per 16). */
static bool inventory_fp4(struct inventory_walk *w, const struct inventory_row *r)
{
	const struct checkpoint_tensor *s = inventory_find(w, ".weight_scale"), *unused = NULL;

	if (!s) {
		s = inventory_find(w, ".scale");
		if (!s || s->t->dtype != ST_F8_E8M0 ||
		    !inventory_shape(s, r->rows, r->cols / INVENTORY_FP4_GROUP))
			return inventory_wrong(w, ".scale", "F8_E8M0", r->rows, r->cols / INVENTORY_FP4_GROUP,
					       s);
		w->it.fmt = DSV4_W_FP4;
		w->it.sfmt = DSV4_S_E8M0;
		w->it.scale = s;
		return true;
	}
	if (s->t->dtype != ST_F8_E4M3 || !inventory_shape(s, r->rows, r->cols / INVENTORY_NV_GROUP))
		return inventory_wrong(w, ".weight_scale", "F8_E4M3", r->rows, r->cols / INVENTORY_NV_GROUP,
				       s);
	w->it.fmt = DSV4_W_NVFP4;
	w->it.sfmt = DSV4_S_E4M3;
	w->it.scale = s;
	/* The producer's activation scale is not used: activations are rounded by their own values. */
	return inventory_scalar(w, ".input_scale", true, &unused) &&
	       inventory_scalar(w, ".weight_scale_2", false, &w->it.scale2);
}

/* The format follows from the dtype of X.weight. */
static bool inventory_matrix(struct inventory_walk *w, const struct inventory_row *r)
{
	static const char *const what[] = {
		[INVENTORY_PLAIN] = "BF16 or F32",
		[INVENTORY_DENSE] = "F8_E4M3, BF16 or F32",
		[INVENTORY_ROUTED] = "I8 or U8 (half as wide), F8_E4M3, BF16 or F32"
	};
	const struct checkpoint_tensor *t = inventory_find(w, ".weight");
	int dtype = t ? t->t->dtype : -1;
	bool packed = r->kind == INVENTORY_ROUTED && (dtype == ST_I8 || dtype == ST_U8), ok = true;
	bool fp8 = r->kind != INVENTORY_PLAIN && dtype == ST_F8_E4M3;

	if (!t)
		inventory_find(w, ".scale"); /* the matrix is told as missing; its scale is not unexpected */
	if (!(packed || fp8 || dtype == ST_BF16 || dtype == ST_F32))
		return inventory_wrong(w, ".weight", what[r->kind], r->rows, r->cols, t);
	if (!inventory_shape(t, r->rows, packed ? r->cols / 2 : r->cols))
		ok = inventory_wrong(w, ".weight", safetensors_dtype_name(dtype), r->rows,
				     packed ? r->cols / 2 : r->cols, t);
	w->it.data = t;
	w->it.fmt = dtype == ST_F32 ? DSV4_W_F32 : DSV4_W_BF16;
	if (packed)
		ok = inventory_fp4(w, r) && ok;
	else if (fp8)
		ok = inventory_fp8(w, r) && ok;
	return ok;
}

static int inventory_one(void *arg, const struct inventory_place *at)
{
	struct inventory_walk *w = arg;
	bool matrix = at->row->kind >= INVENTORY_PLAIN;

	must(strlen(at->name) < sizeof w->name);
	strcpy(w->name, at->name);
	w->it = (struct inventory_item){ .row = at->row, .layer = at->layer, .mtp = at->mtp, .expert = at->expert };
	if (!(matrix ? inventory_matrix(w, at->row) : inventory_vector(w, at->row)))
		return 0;
	w->it.name = w->it.data->t->name;
	return w->fn(w->arg, &w->it);
}

static void inventory_unexpected(struct inventory_walk *w)
{
	int i;

	for (i = 0; i < w->ck->n_tensors; i++) {
		const struct checkpoint_tensor *t = &w->ck->tensor[i];
		struct buf *out = w->seen[i] ? NULL : inventory_fault(w->inv, INVENTORY_UNEXPECTED);

		if (!out)
			continue;
		buf_printf(out, "%s: tensor %s: expected no such tensor, found %s ",
			   checkpoint_file_name(w->ck, t), t->t->name, safetensors_dtype_name(t->t->dtype));
		safetensors_shape(out, t->t->dim, t->t->n_dim);
	}
}

int inventory_walk(const struct checkpoint *ck, inventory_item_f *fn, void *arg, struct inventory *ret_inv)
{
	struct inventory_walk w = { .ck = ck, .fn = fn, .arg = arg, .inv = ret_inv };
	int rc;

	*ret_inv = (struct inventory){ 0 };
	w.seen = mem_try((size_t)ck->n_tensors, 1);
	if (!w.seen)
		return -ENOMEM;
	/* V4-Flash's draft block has e_proj; DSpark's first stage has main_proj (doc/format.md 2.6, 2.7). */
	ret_inv->mtp_is_dspark = checkpoint_find(ck, "mtp.0.main_proj.weight") != NULL;
	rc = inventory_rows_walk(&ck->config, ret_inv->mtp_is_dspark, inventory_one, &w);
	if (rc == 0)
		inventory_unexpected(&w);
	free(w.seen);
	return rc;
}

int inventory_verdict(const struct inventory *inv, struct buf *why)
{
	static const enum inventory_fault order[] = { INVENTORY_MISMATCHED, INVENTORY_MISSING,
						      INVENTORY_UNEXPECTED };
	const int *n = inv->n;
	size_t i;

	for (i = 0; i < mem_countof(order); i++)
		if (n[order[i]] > 0)
			break;
	if (i == mem_countof(order))
		return 0;
	if (n[0] + n[1] + n[2] == 1)
		return buf_why(why, RC_MODEL, "%s", buf_str(&inv->text[order[i]][0]));
	return buf_why(why, RC_MODEL, "%s (in all %d missing, %d unexpected, %d mismatched)",
		       buf_str(&inv->text[order[i]][0]), n[INVENTORY_MISSING], n[INVENTORY_UNEXPECTED],
		       n[INVENTORY_MISMATCHED]);
}

void inventory_fini(struct inventory *inv)
{
	int f, i;

	for (f = 0; f < INVENTORY_N_FAULT; f++)
		for (i = 0; i < INVENTORY_MAX_TEXTS; i++)
			buf_fini(&inv->text[f][i]);
}
