/* SPDX-License-Identifier: MIT
 * bench_model.c - a whole model: steps of decoding and of prefill behind contexts of any length.
 * Threads: main; a pool's. Locks: none. */
#include "tests/bench/bench_model.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/serve/rng.h"
#include "tests/bench/bench_peak.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#define BENCH_MODEL_REPACK_MS 20
#define BENCH_MODEL_READ_CHUNK ((size_t)1 << 20)
#define BENCH_MODEL_READ 256 /* chunks that are read at most after a step */
#define BENCH_MODEL_SEED 256 /* tokens that are computed, of which longer contexts are made */
#define BENCH_MODEL_CHUNK 64 /* of these at a time */
#define BENCH_MODEL_MAPPED 64 /* matrices of the mapping that are read, at most */

/* ---- steps ---- */

double bench_model_step(struct bench_model *m, struct sequence *const *seq, int n_seq, int n, enum dsv4_phase phase,
			struct bench_watch *w)
{
	struct forward_watch watch = bench_watch_of(w);
	struct forward_item *item = mem_new((size_t)n_seq * sizeof *item);
	struct forward_batch batch = { .kset = m->ks, .numerics = &m->num, .phase = phase, .item = item,
				       .n_item = n_seq, .watch = w ? &watch : NULL, .logits = m->logits };
	double took;
	int rc;

	for (int i = 0; i < n_seq * n; i++)
		m->token[i] = (int32_t)(rng_uniform(5, m->drawn++) * m->m->config->vocab_size);
	for (int i = 0; i < n_seq; i++)
		item[i] = (struct forward_item){ .seq = seq[i], .tokens = m->token + i * n, .n = n, .n_logits = 1 };
	took = clock_s();
	rc = forward_run(m->f, &batch, m->why);
	took = clock_s() - took;
	free(item);
	if (w) {
		w->steps++;
		w->seconds += took;
	}
	return rc ? rc : took;
}

double bench_model_watched(struct bench_model *m, struct sequence *const *seq, int n_seq, int n, enum dsv4_phase phase,
			   struct bench_watch *w)
{
	double took = bench_model_step(m, seq, n_seq, n, phase, m->b->gpu ? NULL : w), watched = 0;

	if (m->b->gpu && took >= 0)
		watched = bench_model_step(m, seq, n_seq, n, phase, w);
	return watched < 0 ? watched : took;
}

/* ---- what they are held against ---- */

struct queue *bench_model_queue(const struct bench_model *m)
{
	return m->b->gpu ? m->b->gpu->queue : queue_new(device_cpu(), NULL);
}

static double bench_model_read_gpu(struct bench_model *m, size_t n)
{
	double took;

	n = n < m->memory.size ? n : m->memory.size;
	if (m->read_at + n > m->memory.size)
		m->read_at = 0;
	took = bench_gpu_read(m->b->gpu, m->memory.mem + m->read_at, n);
	m->read_at += n;
	return took < 0 ? took : (double)n / took / 1e9;
}

double bench_model_read(struct bench_model *m, double bytes)
{
	int n_chunk = (int)(m->memory.size / BENCH_MODEL_READ_CHUNK), n = (int)(bytes / BENCH_MODEL_READ_CHUNK) + 1;
	struct bench_range range[BENCH_MODEL_READ];

	if (m->b->gpu)
		return bench_model_read_gpu(m, (size_t)n * BENCH_MODEL_READ_CHUNK);
	n = n < BENCH_MODEL_READ ? n : BENCH_MODEL_READ;
	for (int i = 0; i < n; i++, m->at++)
		range[i] = (struct bench_range){ m->memory.mem +
						 (size_t)m->order[m->at % n_chunk] * BENCH_MODEL_READ_CHUNK,
						 BENCH_MODEL_READ_CHUNK };
	return (double)n * BENCH_MODEL_READ_CHUNK / bench_read(m->pool, range, n) / 1e9;
}

double bench_model_peak(struct bench_model *m, double seconds)
{
	return m->b->gpu ? bench_gpu_peak(m->b->gpu, BENCH_GPU_MMA, seconds) :
			   bench_peak_run(m->pool, bench_peak_of(&m->b->host), seconds);
}

/* ---- getting ready ---- */

static int bench_model_kernels(struct bench_model *m)
{
	const struct bench_args *a = &m->b->args;
	struct kset_overlay ov[KSET_MAX_OVERLAYS];
	struct buf spec = { 0 };
	int n = 0, rc = 0;

	for (int i = 0; i < a->plugins.n && rc == 0; i++)
		rc = eval_plugins_load(&m->plugins, a->plugins.v[i], m->why);
	for (int i = 0; i < m->plugins.n && a->kernels.n == 0 && rc == 0; i++) {
		buf_clear(&spec);
		buf_printf(&spec, "all=%s", m->plugins.map[i]->provider.plugin->name);
		rc = eval_plugins_overlay(&m->plugins, buf_str(&spec), ov, &n, m->why);
	}
	for (int i = 0; i < a->kernels.n && rc == 0; i++)
		rc = eval_plugins_overlay(&m->plugins, a->kernels.v[i], ov, &n, m->why);
	buf_fini(&spec);
	return rc ? rc : kset_build(ov, n, &m->ks, m->why);
}

static int64_t bench_model_most(const struct bench_list *l)
{
	int64_t most = 1;

	for (int i = 0; i < l->n; i++)
		most = l->v[i] > most ? l->v[i] : most;
	return most;
}

static int bench_model_buffers(struct bench_model *m)
{
	const struct bench_args *a = &m->b->args;
	int64_t batch = bench_model_most(&a->batch), n = bench_model_most(&a->prefill),
		streams = bench_model_most(&a->streams);
	int rc = m->b->gpu ? bench_memory_new_on(&m->memory, a->memory, m->b->gpu->device, m->why) :
			     bench_memory_new(&m->memory, a->memory, m->pool, m->why);

	if (rc)
		return rc;
	if (m->b->gpu && bench_gpu_read(m->b->gpu, m->memory.mem, m->memory.size) < 0) /* what the host wrote, there */
		return RC_DEVICE;
	batch = streams > batch ? streams : batch;
	m->order = bench_shuffle((int)(m->memory.size >> 20));
	n = n > batch ? n : batch;
	m->token = mem_try((size_t)(n > BENCH_MODEL_CHUNK ? n : BENCH_MODEL_CHUNK), sizeof *m->token);
	m->logits = mem_try((size_t)(batch * m->m->config->vocab_size), sizeof *m->logits);
	m->f = forward_new(m->m, m->pool);
	forward_keep_experts(m->f, INT_MAX); /* as the server does */
	return m->token && m->logits ? 0 : -ENOMEM;
}

/* Contexts that the model does not have are left out. */
static void bench_model_contexts(struct bench_model *m)
{
	struct bench_list *l = &m->b->args.contexts;
	int64_t room = m->m->config->max_context - bench_model_most(&m->b->args.prefill) - 4096;
	int n = 0;

	for (int i = 0; i < l->n; i++)
		if (l->v[i] <= room)
			l->v[n++] = l->v[i];
	if (n < l->n)
		bench_print_note(&m->b->out, "left_out", "contexts beyond %lld tokens", (long long)room);
	l->n = n;
}

static int bench_model_seed(struct bench_model *m)
{
	struct sequence *seq = NULL;
	double took = 0;
	int rc = sequence_new(&m->m->layout, &seq);

	while (rc == 0 && took >= 0 && sequence_pos(seq) < BENCH_MODEL_SEED) {
		bench_progress_show(&m->b->bar, "first tokens", (double)sequence_pos(seq), BENCH_MODEL_SEED);
		took = bench_model_step(m, &seq, 1, BENCH_MODEL_CHUNK, DSV4_PREFILL, NULL);
	}
	if (rc == 0 && took < 0)
		rc = (int)took;
	if (rc == 0)
		bench_seed_init(&m->seed, &m->m->layout, seq);
	sequence_free(&seq);
	return rc;
}

/* GB/s of reading the checkpoint where it is mapped, whose pages may be small. */
static double bench_model_mapped(struct bench_model *m)
{
	const struct model_config *c = m->m->config;
	struct bench_range range[BENCH_MODEL_MAPPED];
	double bytes = 0, took;

	for (int i = 0; i < BENCH_MODEL_MAPPED; i++) {
		const struct weights_layer *y =
			&m->m->weights->layer[(int)(rng_uniform(9, 2 * (uint64_t)i) * c->n_layers)];
		const struct dsv4_weight *w = &y->expert[(int)(rng_uniform(9, 2 * (uint64_t)i + 1) * c->n_experts)].w1;

		range[i] = (struct bench_range){ w->data, op_cost_data((enum dsv4_wfmt)w->fmt, w->rows, w->cols) };
		bytes += (double)range[i].n;
	}
	for (int i = 0; i < 2; i++) /* the first brings them from the disk */
		took = bench_read(m->pool, range, BENCH_MODEL_MAPPED);
	return bytes / took / 1e9;
}

static void bench_model_notes(struct bench_model *m)
{
	const struct model_config *c = m->m->config;
	struct bench_out *o = &m->b->out;

	bench_print_note(o, "model", "%s: %d layers, hidden %d, %d experts, vocabulary %d", m->b->args.what,
			 c->n_layers, c->hidden_size, c->n_experts, c->vocab_size);
	bench_print_note(o, "kernels", "%s", kset_name(m->ks));
	bench_print_note(o, "contexts",
			 "synthetic: %d tokens computed, longer ones have their rows over again with random signs",
			 BENCH_MODEL_SEED);
	if (m->b->gpu)
		bench_print_note(o, "read", "in order over %.2f GB; peak: %s", (double)m->memory.size / 1e9,
				 bench_gpu_peak_name(BENCH_GPU_MMA));
	else
		bench_print_note(o, "read",
				 "random order over %.2f GB, %.0f %% in huge pages; of the mapped checkpoint %.1f GB/s",
				 (double)m->memory.size / 1e9, 100 * bench_memory_huge(&m->memory),
				 bench_model_mapped(m));
}

/* Makes all copies before anything is measured. */
static int bench_model_repack(struct bench_model *m)
{
	const struct repack_options o = { .model = m->m };
	struct repack_view v = { .state = REPACK_RUNNING };
	int rc = repack_start(&o, &m->repack, m->why);

	if (rc)
		return rc;
	repack_want(m->repack, true);
	while (v.state == REPACK_WAITING || v.state == REPACK_RUNNING) {
		repack_view(m->repack, &v);
		bench_progress_show(&m->b->bar, "copies of experts", v.n_done, v.n_total);
		poll(NULL, 0, BENCH_MODEL_REPACK_MS);
	}
	bench_print_note(&m->b->out, "repacked", "%d of %d experts, %.2f GB%s%s", v.n_done, v.n_total,
			 (double)v.bytes / 1e9, *v.why ? ": " : "", v.why);
	return 0;
}

static int bench_model_ready(struct bench_model *m)
{
	const struct bench_args *a = &m->b->args;
	int rc = model_open(a->what, &m->m, m->why);

	rc = rc || !m->b->gpu ? rc : model_place(m->m, m->b->gpu->device, m->why);
	rc = rc ? rc : bench_model_kernels(m);
	if (rc)
		return rc;
	numerics_init(&m->num, NUMERICS_NATIVE, m->m->config->index_topk);
	rc = pool_new(a->threads, &m->pool);
	if (rc == 0 && a->repack)
		rc = bench_model_repack(m);
	rc = rc ? rc : bench_model_buffers(m);
	rc = rc ? rc : bench_model_seed(m);
	if (rc == 0) {
		bench_model_contexts(m);
		bench_model_notes(m);
	}
	return rc;
}

int bench_model_open(struct bench_model *m, struct bench *b, struct buf *why)
{
	*m = (struct bench_model){ .b = b, .why = why };
	m->plugins.device = b->gpu ? b->gpu->device : NULL;
	return bench_model_ready(m);
}

int bench_model_close(struct bench_model *m, struct buf *why)
{
	buf_fini(&m->last);
	bench_seed_fini(&m->seed);
	forward_free(&m->f);
	free(m->token);
	free(m->logits);
	free(m->order);
	bench_memory_free(&m->memory);
	pool_free(&m->pool);
	kset_unpin(&m->ks);
	repack_stop(&m->repack);
	model_free(&m->m);
	return eval_plugins_fini(&m->plugins, why);
}

/* How a GPU made its steps of decoding; those that were looked at are none of graphs. */
static void bench_model_graphs(struct bench *b)
{
	struct device_view v;

	device_view(b->gpu->device, &v);
	bench_print_note(&b->out, "graphs", "%llu steps of decoding as graphs, %llu not",
			 (unsigned long long)v.graph_steps,
			 (unsigned long long)v.plain_steps);
}

int bench_model(struct bench *b, struct buf *why)
{
	struct bench_model m;
	int rc = bench_model_open(&m, b, why), end;

	rc = rc ? rc : bench_decode(&m);
	if (rc == 0 && b->gpu)
		bench_model_graphs(b);
	rc = rc ? rc : bench_prefill(&m);
	if (rc == 0 && !b->args.json)
		printf("\n%s", buf_str(&m.last));
	end = bench_model_close(&m, rc ? NULL : why);
	return rc ? rc : end;
}
