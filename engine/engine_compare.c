/* SPDX-License-Identifier: MIT
 * engine_compare.c - a comparison of two sets on the open model, beside the running engine, bounded in memory and time.
 * Threads: ops (or any other that may take long), with a pool of its own. Locks: none. */
#include "engine/base/rc.h"
#include "engine/beside/limit.h"
#include "engine/engine_priv.h"
#include "engine/model/model.h"

struct engine_compare {
	const struct engine_compare_options *o;
	struct limit limit;
};

static bool engine_compare_stop(void *arg)
{
	struct engine_compare *c = arg;

	return limit_reached(&c->limit);
}

static void engine_compare_progress(void *arg, int64_t done, int64_t total)
{
	struct engine_compare *c = arg;

	if (c->o->progress)
		c->o->progress(c->o->arg, done, total);
}

/* Two sequences beside those of the requests; the engine's own limit is the measure, though what its requests hold
 * just now is not subtracted: they come and go. */
static int engine_compare_check(struct engine *e, const struct engine_compare_options *o, struct buf *why)
{
	size_t need = 2 * sequence_layout_bytes(&e->model->layout, (int64_t)o->n_tokens + o->max_tokens);

	if ((int64_t)o->n_tokens + o->max_tokens > e->env.max_context)
		return buf_why(why, RC_CONTEXT, "prompt %d and answer %d exceed context %d", o->n_tokens, o->max_tokens,
			e->env.max_context);
	if (need > e->env.max_state)
		return buf_why(why, RC_TOO_LARGE,
			"prompt %d and answer %d need %zu bytes of state for two, there are %zu", o->n_tokens,
			o->max_tokens, need, e->env.max_state);
	for (int i = 0; i < o->n_tokens; i++)
		if (o->tokens[i] < 0 || o->tokens[i] >= e->model->config->vocab_size)
			return buf_why(why, RC_INVALID, "prompt[%d]: token %d is outside 0 to %d", i, o->tokens[i],
				e->model->config->vocab_size - 1);
	return 0;
}

int engine_compare(struct engine *e, const struct engine_compare_options *o, struct compare_result *ret_r,
	struct buf *why)
{
	struct engine_compare ec = { .o = o };
	struct compare_options c = {
		.model = e->model,
		.a = o->a,
		.b = o->b,
		.tokens = o->tokens,
		.n_tokens = o->n_tokens,
		.max_tokens = o->max_tokens,
		.progress = engine_compare_progress,
		.stop = engine_compare_stop,
		.arg = &ec,
	};
	int threads = pool_threads(e->pool) / 2, rc = engine_compare_check(e, o, why);

	if (rc)
		return rc;
	rc = pool_new(threads > 0 ? threads : 1, &c.pool);
	if (rc)
		return buf_why(why, rc, "cannot start %d threads", threads);
	limit_begin(&ec.limit, o->seconds, o->cancel);
	rc = compare_run(&c, ret_r, why);
	pool_free(&c.pool);
	return limit_why(&ec.limit, rc, "the comparison", why);
}
