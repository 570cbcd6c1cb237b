/* SPDX-License-Identifier: MIT
 * kset_overlay.c - overlays as operators write them: FAMILY[.PHASE]=PLUGIN, OP[.PHASE]=PLUGIN and all=PLUGIN.
 * Threads: any. Locks: none. */
#include "engine/base/rc.h"
#include "engine/kernels/kset_priv.h"

#include <string.h>

#define OVERLAY_ALL "all="

bool kset_offers(const struct dsv4_plugin *p, enum dsv4_family f)
{
	for (uint32_t i = 0; i < p->n_op; i++)
		if (p->op[i].op < DSV4_N_OP && op_family((enum dsv4_op)p->op[i].op) == f)
			return true;
	return false;
}

bool kset_overlay_covers(const struct kset_overlay *ov, enum dsv4_op op, enum dsv4_phase ph)
{
	return op_family(op) == ov->family && (!ov->ops || ov->ops >> op & 1) &&
		(ov->phase < 0 || ov->phase == (int)ph);
}

bool kset_overlays_equal(const struct kset_overlay *a, int n_a, const struct kset_overlay *b, int n_b)
{
	for (int i = 0; i < n_a && n_a == n_b; i++)
		if (a[i].family != b[i].family || a[i].phase != b[i].phase || a[i].provider != b[i].provider ||
		    a[i].ops != b[i].ops)
			return false;
	return n_a == n_b;
}

/* ---- names ---- */

/* What may stand before the "=": the families, then the ops. */
#define OVERLAY_N_WORD (DSV4_N_FAMILY + DSV4_N_OP)

typedef const char *overlay_name_f(int i);

static const char *overlay_slots(int i)
{
	return i < DSV4_N_FAMILY ? op_family_name((enum dsv4_family)i) : op_name((enum dsv4_op)(i - DSV4_N_FAMILY));
}

static const char *overlay_phase(int i)
{
	return op_phase_name((enum dsv4_phase)i);
}

/* -1: unknown. */
static int overlay_find(const char *text, size_t len, overlay_name_f *name, int n)
{
	for (int i = 0; i < n; i++)
		if (strlen(name(i)) == len && memcmp(name(i), text, len) == 0)
			return i;
	return -1;
}

/* The number of the name that `text` (len bytes) is, of n. RC_INVALID, and why lists them. */
static int overlay_word(const char *what, const char *spec, const char *text, size_t len, overlay_name_f *name, int n,
			struct buf *why)
{
	struct buf list = { 0 };
	int rc = overlay_find(text, len, name, n);

	if (rc >= 0)
		return rc;
	for (int i = 0; i < n; i++)
		if (overlay_find(name(i), strlen(name(i)), name, i) < 0)
			buf_printf(&list, "%s%s", i ? ", " : "", name(i));
	rc = buf_why(why, RC_INVALID, "\"%.96s\": unknown %s; there are: %s", spec, what, buf_str(&list));
	buf_fini(&list);
	return rc;
}

bool kset_overlay_names(const char *name, size_t len)
{
	const char *dot = memchr(name, '.', len);

	len = dot ? (size_t)(dot - name) : len;
	return overlay_find(name, len, overlay_slots, OVERLAY_N_WORD) >= 0 ||
		(len == strlen(OVERLAY_ALL) - 1 && memcmp(name, OVERLAY_ALL, len) == 0);
}

static enum dsv4_op overlay_op(uint64_t ops)
{
	int op = 0;

	while (!(ops >> op & 1))
		op++;
	return (enum dsv4_op)op;
}

void kset_overlay_print_slots(const struct kset_overlay *ov, struct buf *out)
{
	buf_adds(out, ov->ops ? op_name(overlay_op(ov->ops)) : op_family_name(ov->family));
	if (ov->phase >= 0)
		buf_printf(out, ".%s", op_phase_name((enum dsv4_phase)ov->phase));
}

void kset_overlay_print(const struct kset_overlay *ov, struct buf *out)
{
	kset_overlay_print_slots(ov, out);
	buf_printf(out, "=%s", ov->provider->plugin->name);
}

/* ---- one spec ---- */

static bool overlay_alone(enum dsv4_op op)
{
	int n = 0;

	for (int other = 0; other < DSV4_N_OP; other++)
		n += op_family((enum dsv4_op)other) == op_family(op);
	return n == 1;
}

/* The only op of a family is the family, so that both have one name. */
static struct kset_overlay overlay_of(int word, int phase)
{
	struct kset_overlay ov = { .phase = phase };
	enum dsv4_op op;

	if (word < DSV4_N_FAMILY) {
		ov.family = (enum dsv4_family)word;
		return ov;
	}
	op = (enum dsv4_op)(word - DSV4_N_FAMILY);
	ov.family = op_family(op);
	ov.ops = overlay_alone(op) ? 0 : (uint64_t)1 << op;
	return ov;
}

static int overlay_provider(const char *spec, const char *name, kset_find_f *find, void *arg, struct provider **ret_p,
			    struct buf *why)
{
	struct provider *p = strcmp(name, provider_ref.plugin->name) == 0 ? &provider_ref :
			     find ? find(arg, name) : NULL;

	if (!p)
		return buf_why(why, RC_NOT_FOUND, "\"%.96s\": no plugin \"%.96s\" is loaded", spec, name);
	*ret_p = p;
	return 0;
}

int kset_overlay_parse(struct kset_overlay *ov, const char *spec, kset_find_f *find, void *arg, struct buf *why)
{
	const char *eq = strchr(spec, '='), *dot = eq ? memchr(spec, '.', (size_t)(eq - spec)) : NULL;
	const char *end = dot ? dot : eq;
	int word, phase = -1;

	if (!eq || end == spec || !eq[1])
		return buf_why(why, RC_INVALID,
			       "\"%.96s\": expected FAMILY[.PHASE]=PLUGIN, OP[.PHASE]=PLUGIN or all=PLUGIN", spec);
	word = overlay_word("family or op", spec, spec, (size_t)(end - spec), overlay_slots, OVERLAY_N_WORD, why);
	if (word < 0)
		return word;
	if (dot)
		phase = overlay_word("phase", spec, dot + 1, (size_t)(eq - dot - 1), overlay_phase, DSV4_N_PHASE, why);
	if (dot && phase < 0)
		return phase;
	*ov = overlay_of(word, phase);
	return overlay_provider(spec, eq + 1, find, arg, &ov->provider, why);
}

/* ---- a list of them ---- */

static int overlay_put(struct kset_overlay *ov, int *n, struct kset_overlay add, struct buf *why)
{
	if (*n == KSET_MAX_OVERLAYS)
		return buf_why(why, RC_TOO_LARGE, "more than %d overlays", KSET_MAX_OVERLAYS);
	ov[(*n)++] = add;
	return 0;
}

static int overlay_put_all(struct kset_overlay *ov, int *n, struct provider *p, struct buf *why)
{
	int rc = 0;

	if (p == &provider_ref) {
		*n = 0;
		return 0;
	}
	for (int f = 0; f < DSV4_N_FAMILY && rc == 0; f++)
		if (kset_offers(p->plugin, (enum dsv4_family)f))
			rc = overlay_put(ov, n, (struct kset_overlay){ (enum dsv4_family)f, -1, p, 0 }, why);
	return rc;
}

int kset_overlays_add(struct kset_overlay *ov, int *n, const char *spec, kset_find_f *find, void *arg, struct buf *why)
{
	struct kset_overlay one;
	size_t all = strlen(OVERLAY_ALL);
	int rc;

	if (strncmp(spec, OVERLAY_ALL, all) != 0 || !spec[all]) {
		rc = kset_overlay_parse(&one, spec, find, arg, why);
		return rc ? rc : overlay_put(ov, n, one, why);
	}
	rc = overlay_provider(spec, spec + all, find, arg, &one.provider, why);
	return rc ? rc : overlay_put_all(ov, n, one.provider, why);
}

/* Drops one that changes nothing, the last of them. */
static bool overlay_reduce_one(struct kset_overlay *ov, int *n)
{
	for (int i = *n - 1; i >= 0; i--)
		if (kset_superfluous(ov, *n, i)) {
			memmove(&ov[i], &ov[i + 1], (size_t)(*n - i - 1) * sizeof *ov);
			--*n;
			return true;
		}
	return false;
}

int kset_overlays_reduce(struct kset_overlay *ov, int *n, struct buf *why)
{
	int rc = kset_check(ov, *n, why);

	/* Again from the top: ref over something is needed until that something has gone. */
	while (rc == 0 && overlay_reduce_one(ov, n))
		;
	return rc;
}
