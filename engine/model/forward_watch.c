/* SPDX-License-Identifier: MIT
 * forward_watch.c - ops with somebody looking on.
 * Threads: as forward.h. Locks: none (the watch's own). */
#include "engine/base/rc.h"
#include "engine/model/forward_priv.h"

int forward_watched(struct forward *f, const struct forward_op *o)
{
	static const struct forward_watch nobody;
	const struct forward_watch *w = f->watch ? f->watch : &nobody;
	int rc = 0;

	if (w->stop && f->rank == 0 && w->stop(w->arg))
		return RC_CANCELLED;
	if (w->before) {
		rc = forward_look(f);
		if (rc == 0)
			w->before(w->arg, o);
	}
	rc = rc ? rc : forward_call(f, o->op, o->slot, o->args);
	if (rc == 0 && w->after) {
		rc = forward_look(f);
		if (rc == 0)
			w->after(w->arg, o);
	}
	return rc;
}

int forward_op_call(const struct forward_op *o, const struct kset_slot *slot, const void *args)
{
	struct forward *f = (struct forward *)(uintptr_t)o->forward;
	int rc = forward_call(f, o->op, slot, args);

	return rc ? rc : forward_look(f);
}

struct device *forward_op_device(const struct forward_op *o)
{
	return o->forward->device;
}

struct running *forward_op_running(const struct forward_op *o)
{
	return o->forward->running;
}
