/* SPDX-License-Identifier: MIT
 * beside.c - a second kernel set run beside a forward pass: each op on the same inputs, the results held side by side.
 * Threads: who runs the pass, with several GPUs each one's; any reads the figures. Lock: beside, never while an op
 * runs. */
#include "engine/beside/beside.h"
#include "engine/base/lock.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/device/device_list.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Any op's arguments. */
union beside_args {
#define OP(op, family, args, text) struct args op;
#include "plugins/ops.def"
#undef OP
};

struct beside_mem { void *p; size_t bytes; struct device *device; };

/* A rank's call under way, and memory for it: its own thread's alone. */
struct beside_call {
	bool active;
	bool same_args;                /* but for where the outputs go */
	const struct kset_slot *slot;
	union beside_args args;        /* the second op's */
	int n_out;
	struct op_out a[OP_IO_MAX_OUT], b[OP_IO_MAX_OUT]; /* the pass's outputs, and its own */
	struct beside_mem out[OP_IO_MAX_OUT], visible;
};

struct beside {
	const struct kset *kset;
	bool other_numerics;
	struct numerics num;
	int n_layers;
	struct forward_watch watch;
	bool (*stop)(void *arg); void *stop_arg;
	struct beside_call *call[DEVICE_LIST_MAX]; /* of each rank; NULL before its first op */
	struct lock lock;              /* everything below */
	struct beside_row *cell;       /* [op][phase][layer, the head last][OP_IO_MAX_OUT] */
	uint64_t failures;
	struct buf why;                /* of the first */
};

static struct beside_row *beside_cell(struct beside *b, const struct forward_op *o, int out)
{
	int layer = o->layer < 0 ? b->n_layers : o->layer;
	size_t at = (size_t)((((int)o->op * DSV4_N_PHASE + (int)o->phase) * (b->n_layers + 1) + layer)
			     * OP_IO_MAX_OUT + out);

	must(layer <= b->n_layers && out < OP_IO_MAX_OUT);
	return &b->cell[at];
}

static size_t beside_cells(const struct beside *b)
{
	return (size_t)DSV4_N_OP * DSV4_N_PHASE * (size_t)(b->n_layers + 1) * OP_IO_MAX_OUT;
}

/* ---- one call ---- */

static struct beside_call *beside_call(struct beside *b, const struct forward_op *o)
{
	must(o->rank < DEVICE_LIST_MAX);
	if (!b->call[o->rank])
		b->call[o->rank] = mem_new(sizeof *b->call[o->rank]);
	return b->call[o->rank];
}

static void beside_release(struct beside_mem *m)
{
	if (m->p)
		device_free(m->device, m->p);
	*m = (struct beside_mem){ 0 };
}

static int beside_grow(struct beside_mem *m, int64_t n, size_t size, struct device *d)
{
	size_t bytes = (size_t)n * size;

	if (bytes <= m->bytes)
		return 0;
	beside_release(m);
	m->p = device_alloc(d, (size_t)n, size);
	if (!m->p)
		return -ENOMEM;
	m->device = d;
	m->bytes = bytes;
	return 0;
}

static void beside_failed(struct beside *b, const struct forward_op *o, int rc, const char *what)
{
	char rank[24] = "";

	if (o->rank)
		snprintf(rank, sizeof rank, "rank %d: ", o->rank);
	lock_take(&b->lock);
	beside_cell(b, o, 0)->failures++;
	if (b->failures++ == 0)
		buf_why(&b->why, rc, "%s%s of %s failed in layer %d, %s: %s", rank, op_name(o->op),
			beside_call(b, o)->slot->provider->plugin->name, o->layer, op_phase_name(o->phase), what);
	lock_drop(&b->lock);
}

/* With another top-k a row of choices may be longer. */
static void beside_topk_room(struct dsv4_index_topk *a)
{
	int64_t most = 1;

	for (int t = 0; t < a->n_tok; t++)
		most = a->n_vis[t] > most ? a->n_vis[t] : most;
	a->ldr = most < a->k ? most : a->k;
}

/* Copies what is read in place, and points the second op's outputs at memory of its own. */
static int beside_redirect(struct beside_call *c, const struct forward_op *o)
{
	for (int i = 0; i < c->n_out; i++) {
		struct op_out *out = &c->b[i];
		int64_t n = out->n_row > 0 ? (out->n_row - 1) * out->ld + out->width : 0;
		int rc = beside_grow(&c->out[i], n > 0 ? n : 1, sizeof(float), forward_op_device(o));

		if (rc)
			return rc;
		if (out->in_place)
			memcpy(c->out[i].p, out->data, (size_t)n * sizeof(float));
		out->data = c->out[i].p;
		op_redirect(o->op, &c->args, i, out->data);
	}
	return 0;
}

static int beside_prepare(struct beside *b, const struct forward_op *o)
{
	struct beside_call *c = beside_call(b, o);
	int rc = beside_grow(&c->visible, op_rows(o->op, o->args) + 1, sizeof(int32_t), device_cpu());

	if (rc)
		return rc;
	c->n_out = op_outputs(o->op, o->args, c->visible.p, c->a);
	if (o->op == DSV4_OP_index_topk && b->other_numerics)
		beside_topk_room(&c->args.index_topk);
	must(op_outputs(o->op, &c->args, c->visible.p, c->b) == c->n_out);
	return beside_redirect(c, o);
}

/* Is there anything to compare? Then the arguments are the second op's. */
static bool beside_differs(struct beside *b, const struct forward_op *o)
{
	struct beside_call *c = beside_call(b, o);
	size_t size = op_args_size(o->op);

	c->slot = kset_slot(b->kset, o->op, o->phase, o->wfmt);
	memcpy(&c->args, o->args, size);
	if (b->other_numerics)
		forward_set_numerics(o->op, o->role, &b->num, &c->args);
	c->same_args = memcmp(&c->args, o->args, size) == 0;
	return c->slot->fn != o->slot->fn || c->slot->provider != o->slot->provider || !c->same_args;
}

static void beside_before(void *arg, const struct forward_op *o)
{
	struct beside *b = arg;
	struct beside_call *c = beside_call(b, o);
	int rc;

	c->active = beside_differs(b, o);
	if (!c->active) {
		lock_take(&b->lock);
		beside_cell(b, o, 0)->same++;
		lock_drop(&b->lock);
		return;
	}
	rc = beside_prepare(b, o);
	if (rc) {
		c->active = false;
		beside_failed(b, o, rc, rc_text(rc));
	}
}

/* ---- results ---- */

/* Choices by different top-k differ in length too: the sets are held against each other as they are. */
static void beside_diff_sets(struct op_diff *d, const struct op_out *a, const struct op_out *b, const int32_t *count)
{
	for (int64_t r = 0; r < a->n_row; r++) {
		const int32_t *x = (const int32_t *)a->data + r * a->ld, *y = (const int32_t *)b->data + r * b->ld;
		/* The second op's count is not to be trusted. */
		int64_t m = count[r] < 0 ? 0 : count[r] > b->width ? b->width : count[r];

		op_diff_add_lists(d, x, a->valid[r], y, m, r);
	}
}

static void beside_diff(const struct beside *b, const struct beside_call *c, enum dsv4_op op, int out,
	struct op_diff *d)
{
	if (op == DSV4_OP_index_topk && out == 0 && b->other_numerics)
		beside_diff_sets(d, &c->a[0], &c->b[0], c->b[1].data);
	else
		op_diff_add(d, &c->a[out], c->b[out].data, 0);
}

/* Not counting what a NaN's bits are, which no op promises. */
static bool beside_bits_differ(const struct op_out *a, const struct op_out *b)
{
	for (int64_t r = 0; r < a->n_row; r++) {
		const char *x = (const char *)a->data + r * a->ld * 4, *y = (const char *)b->data + r * b->ld * 4;
		int64_t n = a->valid ? a->valid[r] : a->width;

		for (int64_t i = 0; i < n; i++, x += 4, y += 4) {
			float fx, fy;

			memcpy(&fx, x, sizeof fx);
			memcpy(&fy, y, sizeof fy);
			if (memcmp(x, y, 4) != 0 && (a->is_int || !isnan(fx) || !isnan(fy)))
				return true;
		}
	}
	return false;
}

/* Both say that they have ref's bits, with the same arguments: where they part, one lies, and what is not ref is not
 * believed any more. */
static void beside_disprove(const struct beside_call *c, const struct forward_op *o, int out)
{
	const struct kset_slot *slot[2] = { o->slot, c->slot };
	char why[160];

	if (slot[0]->entry->numerics != DSV4_EXACT || slot[1]->entry->numerics != DSV4_EXACT || !c->same_args
	    || !beside_bits_differ(&c->a[out], &c->b[out]))
		return;
	for (int i = 0; i < 2; i++) {
		snprintf(why, sizeof why, "%s of %s differs in %s from %s, layer %d, %s", op_name(o->op),
			slot[i]->provider->plugin->name, c->a[out].name, slot[!i]->provider->plugin->name, o->layer,
			op_phase_name(o->phase));
		provider_disprove(slot[i]->provider, why);
	}
}

static void beside_add(struct beside *b, const struct forward_op *o, int out)
{
	const struct beside_call *c = beside_call(b, o);
	struct beside_row *cell = beside_cell(b, o, out);
	struct op_diff d = { 0 };
	const char *name = "";
	int64_t pos = -1;

	beside_diff(b, c, o->op, out, &d);
	if (d.worst_row > 0)
		name = forward_op_token(o, d.worst_at, &pos);
	if (d.n_bits > 0)
		beside_disprove(c, o, out);
	lock_take(&b->lock);
	if (d.worst_row > cell->diff.worst_row) {
		snprintf(cell->worst_name, sizeof cell->worst_name, "%s", name);
		cell->worst_pos = pos;
		cell->worst_rank = o->n_rank > 1 ? o->rank : -1;
	}
	op_diff_merge(&cell->diff, &d);
	cell->output = c->a[out].name;
	cell->calls++;
	lock_drop(&b->lock);
}

static void beside_after(void *arg, const struct forward_op *o)
{
	struct beside *b = arg;
	struct beside_call *c = beside_call(b, o);
	int rc;

	if (!c->active)
		return;
	c->active = false;
	running_op(forward_op_running(o), c->slot, kset_generation(b->kset), o->op, o->phase, o->layer);
	rc = forward_op_call(o, c->slot, &c->args);
	if (rc)
		beside_failed(b, o, rc, rc_text(rc));
	for (int i = 0; i < c->n_out && rc == 0; i++)
		beside_add(b, o, i);
}

/* ---- life and figures ---- */

struct beside *beside_new(const struct kset *ks, const struct numerics *num, int n_layers)
{
	struct beside *b = mem_new(sizeof *b);

	b->kset = ks;
	b->other_numerics = num != NULL;
	if (num)
		b->num = *num;
	b->n_layers = n_layers;
	b->watch = (struct forward_watch){ .arg = b, .all_ranks = true, .before = beside_before, .after = beside_after,
					   .score_topk = num ? num->index_topk : 0 };
	lock_init(&b->lock, "beside");
	b->cell = mem_grow(NULL, beside_cells(b), sizeof *b->cell);
	memset(b->cell, 0, beside_cells(b) * sizeof *b->cell);
	for (size_t i = 0; i < beside_cells(b); i++)
		b->cell[i].worst_pos = -1;
	return b;
}

static void beside_call_free(struct beside_call *c)
{
	for (int i = 0; c && i < OP_IO_MAX_OUT; i++)
		beside_release(&c->out[i]);
	if (c)
		beside_release(&c->visible);
	free(c);
}

void beside_free(struct beside **pb)
{
	struct beside *b = *pb;

	*pb = NULL;
	if (!b)
		return;
	for (int i = 0; i < DEVICE_LIST_MAX; i++)
		beside_call_free(b->call[i]);
	free(b->cell);
	buf_fini(&b->why);
	lock_fini(&b->lock);
	free(b);
}

static bool beside_stop(void *arg)
{
	struct beside *b = arg;

	return b->stop(b->stop_arg);
}

void beside_set_stop(struct beside *b, bool (*stop)(void *arg), void *arg)
{
	b->stop = stop;
	b->stop_arg = arg;
	b->watch.stop = beside_stop;
}

const struct forward_watch *beside_watch(struct beside *b)
{
	return &b->watch;
}

int beside_rows(struct beside *b, struct beside_row **ret_rows)
{
	struct beside_row *rows = mem_grow(NULL, beside_cells(b), sizeof *rows);
	int n = 0;

	lock_take(&b->lock);
	for (size_t i = 0; i < beside_cells(b); i++) {
		size_t at = i / OP_IO_MAX_OUT;
		struct beside_row *c = &b->cell[i];

		if (!c->calls && !c->same && !c->failures)
			continue;
		rows[n] = *c;
		rows[n].layer = (int)(at % (size_t)(b->n_layers + 1));
		rows[n].layer = rows[n].layer == b->n_layers ? -1 : rows[n].layer;
		at /= (size_t)(b->n_layers + 1);
		rows[n].phase = (enum dsv4_phase)(at % DSV4_N_PHASE);
		rows[n].op = (enum dsv4_op)(at / DSV4_N_PHASE);
		rows[n].output = c->output ? c->output : "";
		n++;
	}
	lock_drop(&b->lock);
	*ret_rows = rows;
	return n;
}

uint64_t beside_failures(struct beside *b, struct buf *why)
{
	uint64_t n;

	lock_take(&b->lock);
	n = b->failures;
	if (why)
		buf_add(why, b->why.data, b->why.len);
	lock_drop(&b->lock);
	return n;
}
