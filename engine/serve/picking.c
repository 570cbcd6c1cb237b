/* SPDX-License-Identifier: MIT
 * picking.c - the next tokens of several requests, picked side by side on the pool's threads.
 * Threads: the engine thread, while no op runs. Locks: none (the pool's). */
#include "engine/serve/picking.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/serve/request_answer.h"

#include <errno.h>
#include <stdlib.h>

/* Logits worth a thread of their own: microseconds of work where the largest is taken, many where one is drawn. */
#define PICKING_MIN 8192

struct picking {
	struct pool *pool;
	int vocab, max;
	struct sampler_work **work; /* one for each thread */
	int64_t grain;              /* requests of a slice: there are at most as many slices as threads */
	int n;
	struct picking_one {
		struct request *r;
		const float *logits;
	} *one;                     /* [max] */
};

int picking_new(int vocab, int max, struct pool *p, struct picking **ret_p)
{
	struct picking *k = mem_new(sizeof *k);
	int rc = 0;

	k->pool = p;
	k->vocab = vocab;
	k->max = max;
	k->one = mem_grow(NULL, (size_t)max, sizeof *k->one);
	k->work = mem_new((size_t)pool_threads(p) * sizeof(struct sampler_work *));
	for (int i = 0; i < pool_threads(p) && rc == 0; i++)
		rc = sampler_work_new(vocab, &k->work[i]);
	if (rc)
		picking_free(&k);
	else
		*ret_p = k;
	return rc;
}

void picking_free(struct picking **pk)
{
	struct picking *k = *pk;

	*pk = NULL;
	if (!k)
		return;
	for (int i = 0; i < pool_threads(k->pool); i++)
		sampler_work_free(&k->work[i]);
	free(k->work);
	free(k->one);
	free(k);
}

void picking_add(struct picking *k, struct request *r, const float *logits)
{
	must(k->n < k->max);
	k->one[k->n++] = (struct picking_one){ r, logits };
}

static void picking_slice(void *arg, int64_t begin, int64_t end)
{
	struct picking *k = arg;
	struct sampler_work *w = k->work[begin / k->grain];

	for (int64_t i = begin; i < end; i++)
		request_answer_pick(k->one[i].r, w, k->one[i].logits);
}

void picking_run(struct picking *k)
{
	int64_t threads = pool_threads(k->pool), least = (PICKING_MIN + k->vocab - 1) / k->vocab;

	k->grain = (k->n + threads - 1) / threads;
	k->grain = k->grain > least ? k->grain : least;
	pool_parallel_for(pool_exec(k->pool), k->n, k->grain, picking_slice, k);
	k->n = 0;
}
