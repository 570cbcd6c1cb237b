/* SPDX-License-Identifier: MIT
 * placement.c - how a checkpoint would lie on GPUs: the arithmetic and its two forms of output.
 * Threads: any. Locks: none. */
#include "engine/model/placement.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/checkpoint/inventory.h"
#include "engine/model/model_share.h"
#include "engine/model/sequence.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* ---- weights ---- */

enum placement_cut {
	PLACEMENT_COPIED, PLACEMENT_HEADS, PLACEMENT_ROWS, PLACEMENT_SHARED, PLACEMENT_EXPERT, PLACEMENT_HOST,
	PLACEMENT_UNUSED
};

/* Matrices of which each GPU has its part; what is not named is copied to all. Of draft blocks
 * the first of V4-Flash's runs. */
static enum placement_cut placement_cut(const struct inventory_item *it, bool dspark)
{
	static const char *const heads[] = { "attn.wq_b", "attn.attn_sink", "attn.wo_a" };

	if (it->mtp && (dspark || it->layer > 0))
		return PLACEMENT_UNUSED;
	if (it->row->scope == INVENTORY_EXPERT)
		return PLACEMENT_EXPERT;
	if (it->row->family == INVENTORY_EMBED)
		return PLACEMENT_HOST;
	if (it->row->scope == INVENTORY_SHARED)
		return PLACEMENT_SHARED;
	for (size_t i = 0; i < mem_countof(heads); i++)
		if (!strcmp(it->row->name, heads[i]))
			return PLACEMENT_HEADS;
	return strcmp(it->row->name, "head") ? PLACEMENT_COPIED : PLACEMENT_ROWS;
}

/* What the walk over the tensors adds up. */
struct placement_walk {
	struct placement *p;
	const struct inventory *inv;   /* of this walk */
	const struct model_config *config;
	uint64_t heads[INVENTORY_N_FAMILY]; /* bytes of what goes by heads */
	bool blocks;                   /* some of it is FP8 */
	uint64_t shared[PLACEMENT_MAX_GPUS]; /* of the shared experts, by GPU */
	int64_t n_layer;               /* with experts */
	uint64_t one, slot;            /* bytes of the expert that is being walked, and of a slot for it */
	struct placement_need need;
};

/* As a GPU has it: norms are f32 there, and what is read of a matrix are its data and its scales. */
static uint64_t placement_bytes(const struct inventory_item *it, struct dsv4_weight *ret_w)
{
	const struct inventory_row *r = it->row;

	*ret_w = (struct dsv4_weight){ .fmt = it->fmt, .sfmt = it->sfmt, .rows = r->rows, .cols = r->cols };
	if (r->kind == INVENTORY_NORM)
		return (uint64_t)r->rows * sizeof(float);
	return r->kind < INVENTORY_PLAIN ? it->bytes : placement_matrix(ret_w);
}

/* Its matrices come one after the other, w3 last. */
static void placement_expert(struct placement_walk *w, const struct inventory_item *it, uint64_t bytes, uint64_t slot)
{
	bool first = !strcmp(it->row->name, "w1");

	w->one = first ? bytes : w->one + bytes;
	w->slot = first ? slot : w->slot + slot;
	if (strcmp(it->row->name, "w3"))
		return;
	w->n_layer += it->expert == 0;
	w->p->expert = w->one > w->p->expert ? w->one : w->p->expert;
	if (!it->mtp && it->layer == 0)
		w->need.slot = w->slot > w->need.slot ? w->slot : w->need.slot;
	if (it->expert == 0)
		w->need.row += w->one; /* a layer's are all of one size */
}

/* Of the GPU that has the most. */
static int64_t placement_head_rows(const struct model_config *c, int n_gpu)
{
	int64_t most = 0, first;

	for (int i = 0; i < n_gpu; i++) {
		int64_t n = model_head_share(c, i, n_gpu, &first);

		most = n > most ? n : most;
	}
	return most;
}

static int placement_item(void *arg, const struct inventory_item *it)
{
	struct placement_walk *w = arg;
	struct placement *p = w->p;
	uint64_t *f = &p->family[it->row->family], bytes;
	struct dsv4_weight m;

	bytes = placement_bytes(it, &m);
	switch (placement_cut(it, w->inv->mtp_is_dspark)) {
	case PLACEMENT_COPIED:
		*f += bytes;
		break;
	case PLACEMENT_HEADS:
		w->heads[it->row->family] += bytes;
		w->blocks = w->blocks || it->fmt == DSV4_W_FP8;
		break;
	case PLACEMENT_ROWS:
		*f += bytes / (uint64_t)it->row->rows * (uint64_t)placement_head_rows(w->config, p->n_gpu);
		break;
	case PLACEMENT_SHARED:
		w->shared[(it->mtp ? w->config->n_layers : it->layer) % p->n_gpu] += bytes;
		break;
	case PLACEMENT_HOST:
		p->host += it->bytes;
		break;
	case PLACEMENT_EXPERT:
		placement_expert(w, it, bytes, placement_slot(&m));
		break;
	case PLACEMENT_UNUSED:
		break;
	}
	return 0;
}

/* ---- the plan ---- */

/* What the walk could not say of one tensor alone. */
static void placement_add_parts(struct placement *p, const struct placement_walk *w)
{
	uint64_t most = 0, n = (uint64_t)p->n_gpu;

	p->heads_cut = model_can_cut_heads(w->config, p->n_gpu, w->blocks);
	for (int f = 0; f < INVENTORY_N_FAMILY; f++)
		p->family[f] += p->heads_cut ? (w->heads[f] + n - 1) / n : w->heads[f];
	for (int i = 0; i < p->n_gpu; i++)
		most = w->shared[i] > most ? w->shared[i] : most;
	p->family[DSV4_MOE] += most;
}

static void placement_traffic(struct placement *p, const struct model_config *c)
{
	int64_t part = c->hidden_size + (p->heads_cut ? (int64_t)c->o_groups * c->o_lora_rank / p->n_gpu : 0);

	if (p->n_gpu == 1)
		return;
	p->part_per_token = (double)(c->n_layers * part) * sizeof(float);
	p->sent_per_token = (p->n_gpu - 1) * p->part_per_token;
	p->logits_read = (double)placement_head_rows(c, p->n_gpu) * sizeof(float);
}

static void placement_rows(struct placement *p, const struct model_config *c)
{
	struct sequence_layout *l = mem_new(sizeof *l);

	sequence_layout_init(l, c);
	p->fixed_bytes = sequence_layout_bytes(l, 0);
	p->row_bytes = (double)(sequence_layout_bytes(l, SEQUENCE_BLOCK) - p->fixed_bytes) / SEQUENCE_BLOCK;
	free(l);
}

/* As model_place() decides, of a GPU that has all of its memory free. */
static int placement_fit(struct placement *p, struct placement_need *n, const struct model_config *c, struct buf *why)
{
	uint64_t left;
	struct placement_split s = { 0 };

	n->dense = p->weights;
	n->sequence = p->fixed_bytes;
	n->per_layer = (c->n_experts + p->n_gpu - 1) / p->n_gpu;
	n->experts = n->row * (uint64_t)n->per_layer;
	if (placement_split(p->memory, p->memory, n, &s)) {
		p->outside = p->experts;
		p->outside_bytes = n->experts;
		return buf_why(why, RC_TOO_LARGE,
			       "a GPU must hold %" PRIu64 " bytes even without routed experts; it has %" PRIu64,
			       p->weights + placement_reserve(p->memory), p->memory);
	}
	p->resident = s.resident;
	p->outside = p->experts - p->experts / n->per_layer * s.resident;
	p->outside_bytes = n->experts - (uint64_t)s.resident * n->row;
	p->slots = s.slots;
	p->slot_bytes = (uint64_t)s.slots * n->slot;
	p->family[DSV4_MOE] += n->experts - p->outside_bytes;
	p->weights += n->experts - p->outside_bytes;
	left = p->memory - placement_reserve(p->memory) - p->weights - p->slot_bytes;
	left = left > p->fixed_bytes ? left - p->fixed_bytes : 0;
	p->tokens = p->row_bytes > 0 ? (int64_t)((double)left / p->row_bytes) : c->max_context;
	return 0;
}

int placement_plan(const struct checkpoint *ck, int n_gpu, uint64_t memory, struct placement *ret_p, struct buf *why)
{
	const struct model_config *c = &ck->config;
	struct inventory inv;
	struct placement_walk w = { .p = ret_p, .inv = &inv, .config = c };
	int rc;

	*ret_p = (struct placement){ .n_gpu = n_gpu, .memory = memory };
	if (n_gpu < 1 || n_gpu > PLACEMENT_MAX_GPUS)
		return buf_why(why, RC_INVALID, "%d GPUs; expected 1 to %d", n_gpu, PLACEMENT_MAX_GPUS);
	rc = inventory_walk(ck, placement_item, &w, &inv);
	if (rc == 0)
		rc = inventory_verdict(&inv, why);
	inventory_fini(&inv);
	if (rc)
		return rc;
	ret_p->experts = w.n_layer * ((c->n_experts + n_gpu - 1) / n_gpu);
	placement_add_parts(ret_p, &w);
	for (int f = 0; f < INVENTORY_N_FAMILY; f++)
		ret_p->weights += ret_p->family[f];
	placement_traffic(ret_p, c);
	placement_rows(ret_p, c);
	return placement_fit(ret_p, &w.need, c, why);
}

/* ---- output ---- */

static double placement_gib(double bytes)
{
	return bytes / (1 << 30);
}

static void placement_outside(const struct placement *p, struct buf *out)
{
	if (p->resident)
		buf_printf(out, ", the first %" PRId64 " of every layer", p->resident);
	buf_printf(out, "\n%-22s %18" PRIu64 " (%.2f GiB) of the other %" PRId64 ", in pinned memory%s",
		   "host's memory",
		   p->outside_bytes, placement_gib((double)p->outside_bytes), p->outside,
		   p->n_gpu > 1 ? ", for each GPU" : "");
	buf_printf(out, "\n%-22s %18" PRIu64 " (%.2f GiB) in %" PRId64 " slots for those of them that decode steps use",
		   "slots", p->slot_bytes, placement_gib((double)p->slot_bytes), p->slots);
}

void placement_text(const struct placement *p, struct buf *out)
{
	buf_printf(out, "%d GPU%s of %.2f GiB, each:\n\n%-22s %18s\n", p->n_gpu, p->n_gpu > 1 ? "s" : "",
		   placement_gib((double)p->memory), "family", "bytes");
	for (int f = 0; f < INVENTORY_N_FAMILY; f++)
		if (p->family[f])
			buf_printf(out, "%-22s %18" PRIu64 "\n", inventory_family_name(f), p->family[f]);
	buf_printf(out, "%-22s %18" PRIu64 " (%.2f GiB)\n", "weights", p->weights, placement_gib((double)p->weights));
	buf_printf(out, "%-22s %18" PRIu64 " for the driver, kernels and the buffers of a step\n", "reserve",
		   placement_reserve(p->memory));
	buf_printf(out, "%-22s %18" PRId64 " of %" PRId64 " (%" PRIu64 " bytes each)", "routed experts",
		   p->experts - p->outside, p->experts, p->expert);
	if (p->outside)
		placement_outside(p, out);
	buf_printf(out, "\n%-22s %18.2f bytes per token (f32 rows), and %" PRIu64 " per sequence\n", "sequence",
		   p->row_bytes, p->fixed_bytes);
	buf_printf(out, "%-22s %18" PRId64 " of all sequences together\n", "tokens that fit", p->tokens);
	buf_printf(out, "%-22s %18" PRIu64 " of the embedding, read by the host\n", "host", p->host);
	if (p->n_gpu == 1)
		return;
	buf_printf(out, "%-22s %18.0f bytes sent by each GPU per token: its part, of %.0f, to %d\n", "between GPUs",
		   p->sent_per_token, p->part_per_token, p->n_gpu - 1);
	buf_printf(out, "%-22s %18.0f bytes read of each GPU per token that wants logits\n", "by the host",
		   p->logits_read);
	buf_printf(out, "%-22s %18s\n", "heads",
		   p->heads_cut ? "cut: each GPU has its own" : "copied: each GPU has all");
}

int placement_json(const struct placement *p, struct buf *out)
{
	json_t *family = json_object(), *o;
	char *text;

	for (int f = 0; f < INVENTORY_N_FAMILY; f++)
		json_object_set_new(family, inventory_family_name(f), json_integer((json_int_t)p->family[f]));
	o = json_pack("{s:i, s:I, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:f, s:f, s:f, s:f, s:I, "
		      "s:I}",
		      "gpus", p->n_gpu, "memory", (json_int_t)p->memory, "families", family, "weights",
		      (json_int_t)p->weights,
		      "reserve", (json_int_t)placement_reserve(p->memory), "host", (json_int_t)p->host,
		      "expert_bytes", (json_int_t)p->expert, "experts", (json_int_t)p->experts,
		      "experts_resident_per_layer", (json_int_t)p->resident,
		      "experts_outside", (json_int_t)p->outside, "experts_host", (json_int_t)p->outside_bytes,
		      "expert_slots", (json_int_t)p->slots, "expert_slot_bytes", (json_int_t)p->slot_bytes,
		      "heads_cut", p->heads_cut,
		      "part_per_token", p->part_per_token, "sent_per_token", p->sent_per_token, "logits_read",
		      p->logits_read, "row_bytes_per_token", p->row_bytes,
		      "sequence_bytes", (json_int_t)p->fixed_bytes, "tokens", (json_int_t)p->tokens);
	text = o ? json_dumps(o, JSON_INDENT(2)) : NULL;
	json_decref(o);
	if (!text)
		return -ENOMEM;
	buf_printf(out, "%s\n", text);
	free(text);
	return 0;
}

int placement_describe(const char *dir, int n_gpu, uint64_t memory, bool json, struct buf *out, struct buf *why)
{
	struct checkpoint *ck;
	struct placement p;
	int rc = checkpoint_open(dir, CHECKPOINT_HEADERS, &ck, why), r = 0;

	if (rc)
		return rc;
	rc = placement_plan(ck, n_gpu, memory, &p, why);
	if (rc == 0 || rc == RC_TOO_LARGE) {
		if (json)
			r = placement_json(&p, out);
		else
			placement_text(&p, out);
	}
	checkpoint_free(&ck);
	return r ? r : rc;
}
