/* SPDX-License-Identifier: MIT
 * placement.c - how a checkpoint would lie on GPUs: the arithmetic and its two forms of output.
 * Threads: any. Locks: none. */
#include "engine/model/placement.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/checkpoint/inventory.h"
#include "engine/model/sequence.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* ---- weights ---- */

enum placement_cut { PLACEMENT_COPIED, PLACEMENT_SHARED, PLACEMENT_EXPERT, PLACEMENT_HOST };

/* Matrices of which each GPU has its part; what is not named is copied to all. */
static enum placement_cut placement_cut(const struct inventory_item *it)
{
	static const char *const parts[] = { "head", "attn.wq_b", "attn.attn_sink", "attn.wo_a", "attn.wo_b" };

	if (it->row->scope == INVENTORY_EXPERT)
		return PLACEMENT_EXPERT;
	if (it->row->family == INVENTORY_EMBED)
		return PLACEMENT_HOST;
	if (it->row->scope == INVENTORY_SHARED)
		return PLACEMENT_SHARED;
	for (size_t i = 0; i < mem_countof(parts); i++)
		if (!strcmp(it->row->name, parts[i]))
			return PLACEMENT_SHARED;
	return PLACEMENT_COPIED;
}

/* What the walk over the tensors adds up. */
struct placement_walk {
	struct placement *p;
	uint64_t experts;              /* bytes of all routed experts */
	int64_t n_expert;
	uint64_t one;                  /* bytes of the expert that is being walked */
};

static int placement_item(void *arg, const struct inventory_item *it)
{
	struct placement_walk *w = arg;
	struct placement *p = w->p;
	uint64_t *f = &p->family[it->row->family];

	switch (placement_cut(it)) {
	case PLACEMENT_COPIED:
		*f += it->bytes;
		break;
	case PLACEMENT_SHARED:
		*f += (it->bytes + (uint64_t)p->n_gpu - 1) / (uint64_t)p->n_gpu;
		break;
	case PLACEMENT_HOST:
		p->host += it->bytes;
		break;
	case PLACEMENT_EXPERT:
		w->one = strcmp(it->row->name, "w1") ? w->one + it->bytes : it->bytes;
		w->n_expert += !strcmp(it->row->name, "w1");
		w->experts += it->bytes;
		p->expert = w->one > p->expert ? w->one : p->expert;
		break;
	}
	return 0;
}

/* ---- what n GPUs can share ---- */

static int placement_divides(int n, int value, const char *what, struct buf *why)
{
	if (value % n == 0)
		return 0;
	return buf_why(why, RC_INVALID, "%d GPUs cannot share %d %s", n, value, what);
}

static int placement_possible(const struct model_config *c, int n, struct buf *why)
{
	int rc = 0;

	if (n < 1 || n > PLACEMENT_MAX_GPUS)
		return buf_why(why, RC_INVALID, "%d GPUs; expected 1 to %d", n, PLACEMENT_MAX_GPUS);
	if (n == 1)
		return 0;
	rc = placement_divides(n, c->n_heads, "attention heads", why);
	if (rc == 0)
		rc = placement_divides(n, c->o_groups, "groups of the output projection", why);
	if (rc == 0)
		rc = placement_divides(n, c->n_experts, "routed experts", why);
	if (rc == 0)
		rc = placement_divides(n, c->vocab_size, "rows of the head", why);
	if (rc == 0 && c->n_shared_experts && c->moe_inter % (n * INVENTORY_FP8_BLOCK))
		rc = buf_why(why, RC_INVALID, "%d GPUs cannot share the %d inner rows of an expert in blocks of %d", n,
			     c->moe_inter, INVENTORY_FP8_BLOCK);
	return rc;
}

/* ---- the plan ---- */

static void placement_traffic(struct placement *p, const struct model_config *c)
{
	double other = (double)(p->n_gpu - 1) / p->n_gpu;

	p->sums_per_token = p->n_gpu > 1 ? 2.0 * c->n_layers * c->hidden_size * sizeof(float) : 0;
	p->sent_per_token = 2 * other * p->sums_per_token;
	p->logits_sent = p->n_gpu > 1 ? (double)c->vocab_size / p->n_gpu * sizeof(float) : 0;
}

static void placement_rows(struct placement *p, const struct model_config *c)
{
	struct sequence_layout *l = mem_new(sizeof *l);

	sequence_layout_init(l, c);
	p->fixed_bytes = sequence_layout_bytes(l, 0);
	p->row_bytes = (double)(sequence_layout_bytes(l, SEQUENCE_BLOCK) - p->fixed_bytes) / SEQUENCE_BLOCK;
	free(l);
}

/* As model_place() decides: the routed experts on the GPU if all of them fit, else none of them. */
static int placement_fit(struct placement *p, const struct model_config *c, struct buf *why)
{
	uint64_t other = p->weights + placement_reserve(p->memory), experts = p->expert * (uint64_t)p->experts, left;

	if (other > p->memory) {
		p->outside = p->experts;
		return buf_why(why, RC_TOO_LARGE,
			       "a GPU must hold %" PRIu64 " bytes even without routed experts; it has %" PRIu64, other, p->memory);
	}
	if (other + experts > p->memory) {
		p->outside = p->experts;
		experts = 0;
	}
	p->family[DSV4_MOE] += experts;
	p->weights += experts;
	left = p->memory - other - experts;
	left = left > p->fixed_bytes ? left - p->fixed_bytes : 0;
	p->tokens = p->row_bytes > 0 ? (int64_t)((double)left / p->row_bytes) : c->max_context;
	return 0;
}

int placement_plan(const struct checkpoint *ck, int n_gpu, uint64_t memory, struct placement *ret_p, struct buf *why)
{
	const struct model_config *c = &ck->config;
	struct placement_walk w = { .p = ret_p };
	struct inventory inv;
	int rc = placement_possible(c, n_gpu, why);

	*ret_p = (struct placement){ .n_gpu = n_gpu, .memory = memory };
	if (rc)
		return rc;
	rc = inventory_walk(ck, placement_item, &w, &inv);
	if (rc == 0)
		rc = inventory_verdict(&inv, why);
	inventory_fini(&inv);
	if (rc)
		return rc;
	ret_p->experts = w.n_expert / n_gpu;
	for (int f = 0; f < INVENTORY_N_FAMILY; f++)
		ret_p->weights += ret_p->family[f];
	placement_traffic(ret_p, c);
	placement_rows(ret_p, c);
	return placement_fit(ret_p, c, why);
}

/* ---- output ---- */

static double placement_gib(double bytes)
{
	return bytes / (1 << 30);
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
		buf_printf(out, "; all lie in the host's memory, %.2f GiB, and those used last in slots of what is left",
			   placement_gib((double)p->outside * (double)p->expert * p->n_gpu));
	buf_printf(out, "\n%-22s %18.2f bytes per token (f32 rows), and %" PRIu64 " per sequence\n", "sequence", p->row_bytes,
		   p->fixed_bytes);
	buf_printf(out, "%-22s %18" PRId64 " of all sequences together\n", "tokens that fit", p->tokens);
	buf_printf(out, "%-22s %18" PRIu64 " of the embedding, read by the host\n", "host", p->host);
	if (p->n_gpu > 1)
		buf_printf(out, "%-22s %18.0f bytes sent by each GPU per token, for sums of %.0f; %.0f more for logits\n",
			   "between GPUs", p->sent_per_token, p->sums_per_token, p->logits_sent);
}

int placement_json(const struct placement *p, struct buf *out)
{
	json_t *family = json_object(), *o;
	char *text;

	for (int f = 0; f < INVENTORY_N_FAMILY; f++)
		json_object_set_new(family, inventory_family_name(f), json_integer((json_int_t)p->family[f]));
	o = json_pack("{s:i, s:I, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:I, s:I}", "gpus", p->n_gpu,
		      "memory", (json_int_t)p->memory, "families", family, "weights", (json_int_t)p->weights,
		      "reserve", (json_int_t)placement_reserve(p->memory), "host", (json_int_t)p->host,
		      "expert_bytes", (json_int_t)p->expert, "experts", (json_int_t)p->experts,
		      "experts_outside", (json_int_t)p->outside, "sums_per_token", p->sums_per_token,
		      "sent_per_token", p->sent_per_token, "logits_sent", p->logits_sent, "row_bytes_per_token", p->row_bytes,
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
