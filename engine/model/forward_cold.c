/* SPDX-License-Identifier: MIT
 * forward_cold.c - weights that are not in memory are asked for at once, before kernels come to them.
 * Threads: as forward.h. Locks: none.
 *
 * A page that is not there comes when a kernel first touches it, with neighbours that nobody wants, and the kernel
 * waits for each. What is asked for in one go comes as fast as the disk reads. To ask for what is there takes time,
 * too: so only while files are being read. */
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/model/forward_priv.h"

#include <stdlib.h>
#include <sys/resource.h>

void forward_feel(struct forward *f)
{
	struct rusage u;

	must_zero(getrusage(RUSAGE_SELF, &u));
	f->cold = u.ru_inblock != f->blocks_read && !f->gpu;
	f->blocks_read = u.ru_inblock;
}

/* All but the routed experts, which nobody knows yet. */
static void forward_fetch_layer(const struct model_weights *m, const struct weights_layer *w)
{
	const struct dsv4_weight *const all[] = {
		&w->wq_a, &w->wq_b, &w->wkv, &w->compressor.wkv, &w->compressor.wgate, &w->indexer.wq_b,
		&w->indexer.weights_proj, &w->indexer.compressor.wkv, &w->indexer.compressor.wgate, &w->wo_a, &w->wo_b,
		&w->gate,
	};

	for (size_t i = 0; i < mem_countof(all); i++)
		weights_fetch(m, all[i]);
	for (int i = 0; i < m->config.n_shared_experts; i++)
		weights_fetch_expert(m, &w->shared[i]);
}

void forward_fetch_layers(struct forward *f, int last)
{
	const struct model_weights *m = f->m->weights;

	for (; f->cold && f->fetched <= last && f->fetched <= m->config.n_layers; f->fetched++)
		if (f->fetched < m->config.n_layers)
			forward_fetch_layer(m, &m->layer[f->fetched]);
		else
			weights_fetch(m, &m->head);
}

struct forward_fetch {
	const struct model_weights *m;
	const struct weights_layer *w;
	int *expert;
};

static void forward_fetch_slice(void *arg, int64_t begin, int64_t end)
{
	const struct forward_fetch *a = arg;

	for (int64_t i = begin; i < end; i++)
		weights_fetch_expert(a->m, &a->w->expert[a->expert[i]]);
}

/* Those chosen that have no copy; each once. */
static int forward_fetch_list(const struct forward *f, const struct weights_layer *w, int *expert)
{
	const struct model_config *d = f->m->config;
	bool *chosen = mem_try((size_t)d->n_experts, sizeof *chosen);
	int n = 0;

	for (int i = 0; chosen && i < f->n_tok * d->experts_per_tok; i++)
		if (f->expert[i] >= 0 && f->expert[i] < d->n_experts)
			chosen[f->expert[i]] = true;
	for (int e = 0; chosen && e < d->n_experts; e++)
		if (chosen[e] && !(w->packed && __atomic_load_n(&w->packed[e].w2, __ATOMIC_RELAXED)))
			expert[n++] = e;
	free(chosen);
	return n;
}

void forward_fetch_experts(struct forward *f, const struct weights_layer *w)
{
	struct forward_fetch a = { .m = f->m->weights, .w = w };

	if (!f->cold)
		return;
	a.expert = mem_try((size_t)f->m->config->n_experts, sizeof *a.expert);
	if (a.expert)
		pool_parallel_for(pool_exec(f->pool), forward_fetch_list(f, w, a.expert), 1, forward_fetch_slice, &a);
	free(a.expert);
}
