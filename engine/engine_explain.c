/* SPDX-License-Identifier: MIT
 * engine_explain.c - what the indexer of one or two sets made of a prompt, beside the running engine, bounded in memory
 * and time.
 * Threads: ops (or any other that may take long), with a pool of its own. Locks: none. */
#include "engine/base/rc.h"
#include "engine/beside/limit.h"
#include "engine/engine_priv.h"
#include "engine/model/model.h"

struct engine_explain {
	const struct engine_explain_options *o;
	struct limit limit;
	int64_t before, rest;          /* tokens of the set before this one; of the one after the first */
};

static bool engine_explain_stop(void *arg)
{
	struct engine_explain *x = arg;

	return limit_reached(&x->limit);
}

static void engine_explain_progress(void *arg, int64_t done, int64_t total)
{
	struct engine_explain *x = arg;

	if (x->o->progress)
		x->o->progress(x->o->arg, x->before + done, x->before + total + (x->before ? 0 : x->rest));
}

/* As for a comparison: the engine's own limit is the measure. Both results are kept, one sequence at a time. */
static int engine_explain_check(struct engine *e, const struct engine_explain_options *o, struct buf *why)
{
	size_t need = sequence_layout_bytes(&e->model->layout, o->n_tokens)
		      + (size_t)(o->n_side + (o->n_span > 0)) * explain_bytes(e->model, o->n_tokens);

	if (o->n_tokens > e->env.max_context)
		return buf_why(why, RC_CONTEXT, "prompt %d exceeds context %d", o->n_tokens, e->env.max_context);
	if (need > e->env.max_state)
		return buf_why(why, RC_TOO_LARGE, "%d tokens need %zu bytes of state, there are %zu", o->n_tokens,
			need, e->env.max_state);
	return 0;
}

static int engine_explain_sides(struct engine *e, struct engine_explain *x, struct pool *pool,
	struct explain_result *ret_r, struct buf *why)
{
	const struct engine_explain_options *o = x->o;
	int n = 0, rc = 0;

	for (; n < o->n_side && rc == 0; n += rc == 0) {
		struct explain_options c = {
			.model = e->model,
			.pool = pool,
			.side = o->side[n],
			.tokens = o->tokens,
			.n_tokens = n ? (int)ret_r[0].position + 1 : o->n_tokens,
			.n_prompt = o->n_prompt,
			.first = n ? 0 : o->first,
			.n_span = n ? 0 : o->n_span,
			.span = o->span,
			.progress = engine_explain_progress,
			.stop = engine_explain_stop,
			.arg = x,
		};

		x->before = (int64_t)n * o->n_tokens;
		x->rest = (int64_t)(o->n_side - 1) * o->n_tokens;
		rc = explain_run(&c, &ret_r[n], why);
	}
	while (rc && n-- > 0)
		explain_result_fini(&ret_r[n]);
	return rc;
}

int engine_explain(struct engine *e, const struct engine_explain_options *o, struct explain_result *ret_r,
	struct buf *why)
{
	struct engine_explain x = { .o = o };
	int threads = pool_threads(e->pool) / 2, rc = engine_explain_check(e, o, why);
	struct pool *pool;

	if (rc)
		return rc;
	rc = pool_new(threads > 0 ? threads : 1, &pool);
	if (rc)
		return buf_why(why, rc, "cannot start %d threads", threads);
	limit_begin(&x.limit, o->seconds, o->cancel);
	rc = engine_explain_sides(e, &x, pool, ret_r, why);
	pool_free(&pool);
	return limit_why(&x.limit, rc, "the explanation", why);
}
