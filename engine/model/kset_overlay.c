/* SPDX-License-Identifier: MIT
 * kset_overlay.c - overlays as operators write them: FAMILY[.PHASE]=PLUGIN and all=PLUGIN.
 * Threads: any. Locks: none. */
#include "engine/base/rc.h"
#include "engine/model/kset_priv.h"

#include <string.h>

#define OVERLAY_ALL "all="

bool kset_offers(const struct dsv4_plugin *p, enum dsv4_family f)
{
	for (uint32_t i = 0; i < p->n_op; i++)
		if (p->op[i].op < DSV4_N_OP && op_family((enum dsv4_op)p->op[i].op) == f)
			return true;
	return false;
}

/* ---- one spec ---- */

typedef const char *overlay_name_f(int i);

static const char *overlay_family(int i)
{
	return op_family_name((enum dsv4_family)i);
}

static const char *overlay_phase(int i)
{
	return op_phase_name((enum dsv4_phase)i);
}

/* The number of the name that `text` (len bytes) is, of n. RC_INVALID, and why lists them. */
static int overlay_word(const char *what, const char *spec, const char *text, size_t len, overlay_name_f *name, int n,
			struct buf *why)
{
	struct buf list = { 0 };
	int rc;

	for (int i = 0; i < n; i++)
		if (strlen(name(i)) == len && memcmp(name(i), text, len) == 0)
			return i;
	for (int i = 0; i < n; i++)
		buf_printf(&list, "%s%s", i ? ", " : "", name(i));
	rc = buf_why(why, RC_INVALID, "\"%.96s\": unknown %s; there are: %s", spec, what, buf_str(&list));
	buf_fini(&list);
	return rc;
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
	int family, phase = -1;

	if (!eq || end == spec || !eq[1])
		return buf_why(why, RC_INVALID, "\"%.96s\": expected FAMILY[.PHASE]=PLUGIN or all=PLUGIN", spec);
	family = overlay_word("family", spec, spec, (size_t)(end - spec), overlay_family, DSV4_N_FAMILY, why);
	if (family < 0)
		return family;
	if (dot)
		phase = overlay_word("phase", spec, dot + 1, (size_t)(eq - dot - 1), overlay_phase, DSV4_N_PHASE, why);
	if (dot && phase < 0)
		return phase;
	*ov = (struct kset_overlay){ (enum dsv4_family)family, phase, NULL };
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
			rc = overlay_put(ov, n, (struct kset_overlay){ (enum dsv4_family)f, -1, p }, why);
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
