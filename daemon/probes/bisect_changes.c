/* SPDX-License-Identifier: MIT
 * bisect_changes.c - what lies between two kernel sets with their numerics, change by change, and any mixture of both.
 * Threads: control makes it, ops mixes. Locks: none. */
#include "daemon/probes/bisect_changes.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <string.h>

/* Of a change between kernels that are believed to have the same bits. */
#define CHANGES_BELIEVED 0.01

static const struct changes_choice {
	const char *param, *value;
	enum dsv4_family family;
	const char *tag;
} changes_choices[] = {
#define CHOICE(param, value, family, tag) { #param, #value, DSV4_##family, tag },
#include "daemon/kernels/choices.def"
#undef CHOICE
};

static const struct kset_slot *changes_slot(const struct bisect_end *e, int op, int ph, int wf)
{
	return kset_slot(e->kset, (enum dsv4_op)op, (enum dsv4_phase)ph, (enum dsv4_wfmt)wf);
}

static uint64_t changes_bit(int op, int ph)
{
	return (uint64_t)1 << (op * DSV4_N_PHASE + ph);
}

/* ---- finding ---- */

static bool changes_differ(const struct bisect_changes *c, int op, int ph)
{
	for (int wf = 0; wf < DSV4_N_WFMT; wf++) {
		const struct kset_slot *a = changes_slot(&c->good, op, ph, wf), *b = changes_slot(&c->bad, op, ph, wf);

		if (a->provider != b->provider || a->entry != b->entry)
			return true;
	}
	return false;
}

static bool changes_believed(const struct bisect_end *e, int op, int ph)
{
	for (int wf = 0; wf < DSV4_N_WFMT; wf++) {
		const struct kset_slot *s = changes_slot(e, op, ph, wf);

		if (s->entry->numerics != DSV4_EXACT || !provider_exact(s->provider))
			return false;
	}
	return true;
}

/* "avx2", or "avx2+other" where weight formats differ. */
static void changes_providers(const struct bisect_end *e, int op, int ph, struct buf *out)
{
	for (int wf = 0; wf < DSV4_N_WFMT; wf++) {
		const struct provider *p = changes_slot(e, op, ph, wf)->provider;
		bool seen = false;

		for (int w = 0; w < wf; w++)
			seen |= changes_slot(e, op, ph, w)->provider == p;
		if (!seen)
			buf_printf(out, "%s%s", wf ? "+" : "", p->plugin->name);
	}
}

static struct bisect_change *changes_add(struct bisect_changes *c, double weight)
{
	must(c->n < BISECT_MAX_CHANGES);
	c->weight[c->n] = weight;
	return &c->change[c->n++];
}

static void changes_find_slots(struct bisect_changes *c)
{
	for (int op = 0; op < DSV4_N_OP; op++)
		for (int ph = 0; ph < DSV4_N_PHASE; ph++) {
			bool believed = changes_believed(&c->good, op, ph) && changes_believed(&c->bad, op, ph);
			struct bisect_change *ch;

			if (!changes_differ(c, op, ph))
				continue;
			ch = changes_add(c, believed ? CHANGES_BELIEVED : 1);
			ch->slots = changes_bit(op, ph);
			buf_printf(&ch->text, "%s.%s: ", op_name((enum dsv4_op)op), op_phase_name((enum dsv4_phase)ph));
			changes_providers(&c->good, op, ph, &ch->text);
			buf_adds(&ch->text, " -> ");
			changes_providers(&c->bad, op, ph, &ch->text);
		}
}

static void changes_find_parameters(struct bisect_changes *c)
{
	for (int i = 0; i < numerics_count; i++) {
		const struct numerics_row *row = &numerics_table[i];
		struct bisect_change *ch;
		char a[32], b[32];

		if (!strcmp(numerics_get(&c->good.numerics, row, a), numerics_get(&c->bad.numerics, row, b)))
			continue;
		ch = changes_add(c, 1);
		ch->parameters = (uint64_t)1 << i;
		buf_printf(&ch->text, "%s: %s -> %s", row->name, a, b);
	}
}

/* ---- what is exchanged together ---- */

/* Does the side's parameter have this value, and one of the change's slots its rounding? */
static bool changes_chosen(const struct bisect_end *e, const struct changes_choice *choice,
			   const struct bisect_change *ch)
{
	const struct numerics_row *row = numerics_find(choice->param, strlen(choice->param));
	char value[32];

	if (strcmp(numerics_get(&e->numerics, row, value), choice->value) != 0)
		return false;
	for (int op = 0; op < DSV4_N_OP; op++)
		for (int ph = 0; ph < DSV4_N_PHASE; ph++)
			for (int wf = 0; wf < DSV4_N_WFMT && (ch->slots & changes_bit(op, ph)); wf++) {
				const struct dsv4_op_entry *entry = changes_slot(e, op, ph, wf)->entry;

				if (op_family((enum dsv4_op)op) == choice->family && entry->numerics == DSV4_LOSSY &&
				    !strcmp(entry->tag, choice->tag))
					return true;
			}
	return false;
}

/* Change `from` becomes a part of change `to`. */
static void changes_join(struct bisect_changes *c, int to, int from, const struct changes_choice *choice)
{
	struct bisect_change *t = &c->change[to], *f = &c->change[from];

	t->slots |= f->slots;
	t->parameters |= f->parameters;
	buf_printf(&t->text, "; %s", buf_str(&f->text));
	buf_clear(&t->why);
	buf_printf(&t->why, "%s=%s and the kernels that round so (%s) are one choice", choice->param, choice->value,
		   choice->tag);
	buf_fini(&f->text);
	buf_fini(&f->why);
	memmove(f, f + 1, (size_t)(c->n - from - 1) * sizeof *f);
	memmove(&c->weight[from], &c->weight[from + 1], (size_t)(c->n - from - 1) * sizeof *c->weight);
	c->n--;
}

static int changes_of_parameter(const struct bisect_changes *c, const char *name)
{
	for (int i = 0; i < c->n; i++)
		for (int p = 0; p < numerics_count; p++)
			if ((c->change[i].parameters >> p & 1) && !strcmp(numerics_table[p].name, name))
				return i;
	return -1;
}

static void changes_group(struct bisect_changes *c)
{
	for (size_t k = 0; k < mem_countof(changes_choices); k++)
		for (int i = 0; i < c->n; i++) {
			const struct changes_choice *choice = &changes_choices[k];
			int p = changes_of_parameter(c, choice->param);

			if (p < 0 || p == i || (!changes_chosen(&c->good, choice, &c->change[i]) &&
						!changes_chosen(&c->bad, choice, &c->change[i])))
				continue;
			changes_join(c, p, i, choice);
			i--;
		}
}

void bisect_changes_find(const struct bisect_end *good, const struct bisect_end *bad, struct bisect_changes *ret_c)
{
	*ret_c = (struct bisect_changes){ .good = *good, .bad = *bad };
	changes_find_slots(ret_c);
	changes_find_parameters(ret_c);
	changes_group(ret_c);
}

void bisect_changes_fini(struct bisect_changes *c)
{
	for (int i = 0; i < c->n; i++) {
		buf_fini(&c->change[i].text);
		buf_fini(&c->change[i].why);
	}
	c->n = 0;
}

/* ---- mixing ---- */

struct changes_list {
	struct kset_overlay ov[KSET_MAX_OVERLAYS];
	int n;
};

static bool changes_offers(const struct provider *p, int op, int ph)
{
	for (uint32_t i = 0; i < p->plugin->n_op; i++)
		if ((int)p->plugin->op[i].op == op && (p->plugin->op[i].phases >> ph & 1))
			return true;
	return false;
}

static int changes_put(struct changes_list *l, int op, int ph, struct provider *p, struct buf *why)
{
	if (l->n == KSET_MAX_OVERLAYS)
		return buf_why(why, RC_TOO_LARGE, "more than %d overlays", KSET_MAX_OVERLAYS);
	l->ov[l->n++] = (struct kset_overlay){ op_family((enum dsv4_op)op), ph, p, (uint64_t)1 << op };
	return 0;
}

/* What makes the end's slots of one op in one phase, over anything. */
static int changes_put_slot(struct changes_list *l, const struct bisect_end *e, int op, int ph, struct buf *why)
{
	int r = changes_put(l, op, ph, &provider_ref, why);

	for (int i = 0; i < e->n_ov && !r; i++)
		if (kset_overlay_covers(&e->ov[i], (enum dsv4_op)op, (enum dsv4_phase)ph) &&
		    changes_offers(e->ov[i].provider, op, ph))
			r = changes_put(l, op, ph, e->ov[i].provider, why);
	return r ? r : kset_overlays_reduce(l->ov, &l->n, why);
}

static int changes_put_all(struct changes_list *l, const struct bisect_end *e, uint64_t slots, struct buf *why)
{
	int r = 0;

	for (int op = 0; op < DSV4_N_OP; op++)
		for (int ph = 0; ph < DSV4_N_PHASE && !r; ph++)
			if (slots & changes_bit(op, ph))
				r = changes_put_slot(l, e, op, ph, why);
	return r;
}

static void changes_parameters(struct numerics *to, const struct numerics *from, uint64_t which)
{
	for (int i = 0; i < numerics_count; i++)
		if (which >> i & 1)
			memcpy((char *)to + numerics_table[i].offset, (const char *)from + numerics_table[i].offset,
			       sizeof(int32_t));
}

static void changes_union(const struct bisect_changes *c, uint64_t which, struct bisect_change *ret_u)
{
	*ret_u = (struct bisect_change){ .slots = 0 };
	for (int i = 0; i < c->n; i++)
		if (which >> i & 1) {
			ret_u->slots |= c->change[i].slots;
			ret_u->parameters |= c->change[i].parameters;
		}
}

int bisect_changes_mix(const struct bisect_changes *c, uint64_t which, struct kset **ret_ks, struct numerics *ret_n,
		       struct buf *why)
{
	struct changes_list l = { .n = c->good.n_ov };
	struct bisect_change u;
	int r = 0;

	changes_union(c, which, &u);
	memcpy(l.ov, c->good.ov, (size_t)c->good.n_ov * sizeof *l.ov);
	r = changes_put_all(&l, &c->bad, u.slots, why);
	r = r ? r : kset_build(l.ov, l.n, ret_ks, why);
	if (r)
		return r;
	*ret_n = c->good.numerics;
	changes_parameters(ret_n, &c->bad.numerics, u.parameters);
	return 0;
}

/* ---- taking back ---- */

static void changes_print_parameters(const struct numerics *to, const struct numerics *from, struct buf *out)
{
	bool any = false;

	for (int i = 0; i < numerics_count; i++) {
		char a[32], b[32];

		if (!strcmp(numerics_get(to, &numerics_table[i], a), numerics_get(from, &numerics_table[i], b)))
			continue;
		buf_printf(out, "%s %s=%s", any ? "" : "dsv4ctl param set", numerics_table[i].name, a);
		any = true;
	}
	if (any)
		buf_addc(out, '\n');
}

/* A set's name as `kernels use` takes it. */
static void changes_print_set(const char *name, struct buf *out)
{
	buf_adds(out, "dsv4ctl kernels use all=ref");
	if (strcmp(name, provider_ref.plugin->name) != 0) {
		size_t at = out->len;

		buf_printf(out, " %s", name);
		for (size_t i = at; i < out->len; i++)
			if (out->data[i] == ',')
				out->data[i] = ' ';
	}
	buf_addc(out, '\n');
}

static bool changes_needs_ref(const struct bisect_end *e, int op, int ph)
{
	for (int wf = 0; wf < DSV4_N_WFMT; wf++)
		if (changes_slot(e, op, ph, wf)->provider == &provider_ref)
			return true;
	return false;
}

/* What makes the good end's slots of one op and phase over whatever is there; `as`: the phase that is typed. */
static int changes_say(const struct bisect_changes *c, int op, int ph, int as, struct buf *out, struct buf *why)
{
	struct changes_list over_ref = { .n = 0 }, l = { .n = 0 };
	int r = changes_put_slot(&over_ref, &c->good, op, ph, why);

	if (r == 0 && changes_needs_ref(&c->good, op, ph))
		r = changes_put(&l, op, ph, &provider_ref, why);
	for (int i = 0; i < over_ref.n && !r; i++)
		r = changes_put(&l, op, ph, over_ref.ov[i].provider, why);
	for (int i = 0; i < l.n; i++) {
		l.ov[i].phase = as;
		buf_addc(out, ' ');
		kset_overlay_print(&l.ov[i], out);
	}
	return r;
}

/* Both phases are said at once, if they are the same. */
static int changes_say_op(const struct bisect_changes *c, uint64_t slots, int op, struct buf *out, struct buf *why)
{
	struct buf text[DSV4_N_PHASE] = { { 0 }, { 0 } };
	bool both = true;
	int r = 0;

	for (int ph = 0; ph < DSV4_N_PHASE && !r; ph++) {
		both &= (slots & changes_bit(op, ph)) != 0;
		r = changes_say(c, op, ph, -1, &text[ph], why);
	}
	both &= !strcmp(buf_str(&text[0]), buf_str(&text[1]));
	if (both)
		buf_adds(out, buf_str(&text[0]));
	for (int ph = 0; ph < DSV4_N_PHASE && !both && !r; ph++)
		if (slots & changes_bit(op, ph))
			r = changes_say(c, op, ph, ph, out, why);
	buf_fini(&text[0]);
	buf_fini(&text[1]);
	return r;
}

static int changes_print_slots(const struct bisect_changes *c, uint64_t slots, struct buf *out, struct buf *why)
{
	int r = 0;

	if (!slots)
		return 0;
	buf_adds(out, "dsv4ctl kernels use");
	for (int op = 0; op < DSV4_N_OP && !r; op++)
		if (slots & (changes_bit(op, DSV4_PREFILL) | changes_bit(op, DSV4_DECODE)))
			r = changes_say_op(c, slots, op, out, why);
	buf_addc(out, '\n');
	return r;
}

int bisect_changes_undo(const struct bisect_changes *c, uint64_t which, const struct kset *active,
			const struct numerics *now, struct buf *out, struct buf *why)
{
	uint64_t all = c->n == BISECT_MAX_CHANGES ? ~(uint64_t)0 : ((uint64_t)1 << c->n) - 1;
	struct bisect_change u;
	struct numerics fixed;
	struct kset *ks;
	int r = bisect_changes_mix(c, all & ~which, &ks, &fixed, why);

	if (r)
		return r;
	changes_union(c, which, &u);
	/* The parameters first: they choose kernels, and what comes last holds. */
	changes_print_parameters(&fixed, now, out);
	if (active == c->bad.kset)
		r = changes_print_slots(c, u.slots, out, why);
	else if (strcmp(kset_name(ks), kset_name(active)) != 0)
		changes_print_set(kset_name(ks), out);
	kset_unpin(&ks);
	return r;
}
