/* SPDX-License-Identifier: MIT
 * engine_shadow.c - the engine's shadow: started, stopped and reported by callers, run beside the engine's steps.
 * Threads: any; the engine thread steps. Lock: engine, never while anything is computed or freed. */
#include "engine/base/rc.h"
#include "engine/engine_priv.h"
#include "engine/model/model.h"

/* Installs s, or nothing; returns what was there. */
static struct shadow *engine_shadow_swap(struct engine *e, struct shadow *s)
{
	struct shadow *old;

	lock_take(&e->lock);
	old = e->shadow;
	e->shadow = s;
	lock_drop(&e->lock);
	return old;
}

int engine_shadow_start(struct engine *e, struct kset **ks, double share, struct buf *why)
{
	struct kset *active = engine_kset(e);
	struct shadow *s, *old;
	int rc = shadow_new(ks, active, share, e->model->config->n_layers, &s, why);

	kset_unpin(&active);
	if (rc)
		return rc;
	old = engine_shadow_swap(e, s);
	shadow_unref(&old);
	return 0;
}

int engine_shadow_stop(struct engine *e)
{
	struct shadow *old = engine_shadow_swap(e, NULL);
	int rc = old ? 0 : RC_NOT_FOUND;

	shadow_unref(&old);
	return rc;
}

static struct shadow *engine_shadow_get(struct engine *e)
{
	struct shadow *s;

	lock_take(&e->lock);
	s = e->shadow ? shadow_ref(e->shadow) : NULL;
	lock_drop(&e->lock);
	return s;
}

int engine_shadow_report(struct engine *e, struct shadow_report *ret_r)
{
	struct shadow *s = engine_shadow_get(e);

	if (!s)
		return RC_NOT_FOUND;
	shadow_report(s, ret_r);
	shadow_unref(&s);
	return 0;
}

/* ---- the engine thread ---- */

void engine_shadow_begin(struct engine *e)
{
	e->shadow_now = engine_shadow_get(e);
	if (e->shadow_now)
		shadow_step(e->shadow_now);
}

const struct forward_watch *engine_shadow_watch(struct engine *e, const struct kset *ks)
{
	return e->shadow_now ? shadow_watch(e->shadow_now, ks) : NULL;
}

void engine_shadow_end(struct engine *e)
{
	shadow_unref(&e->shadow_now);
}
