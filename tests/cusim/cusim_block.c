/* SPDX-License-Identifier: MIT
 * cusim_block.c - runs a grid: block after block, whose threads run in turn until all of them wait at a barrier.
 * Threads: one at a time. Locks: none. */
#include "tests/cusim/cusim_priv.h"
#include "tests/cusim/cusim_fibre.h"
#include "tests/cusim/cusim_ops.h"
#include "tests/cusim/cusim_page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cusim_dim { uint32_t x, y, z; };
struct cusim_dim threadIdx, blockIdx, blockDim, gridDim; /* as cusim.h declares them */

struct cusim_warp_state {
	uint32_t exist, ready, waiting, done; /* a bit for each lane; waiting: for other lanes, not at a barrier */
	uint32_t asleep;             /* until tensor cores are done */
	uint32_t first;              /* of those that wait, who came first */
	uint16_t lap;
	bool apart;                  /* those that wait do not all wait for the same */
};

struct cusim_lane cusim_lanes[CUSIM_MAX_THREADS];
uint64_t cusim_values[CUSIM_MAX_THREADS];

static struct {
	const struct cusim_launch *l;
	struct cusim_warp_state warp[CUSIM_MAX_THREADS / CUSIM_WARP];
	uint32_t n_thread, n_warp, n_done, n_barrier;
	uint32_t epoch;              /* of the process */
	bool abandoned, backwards;
	char *dynamic;               /* [CUSIM_MAX_SHARED] dynamic shared memory */
} cusim_block;

/* ---- whose turn it is ---- */

/* Thread i is the running one from here on; of another warp, the lap changes, too. */
static inline void cusim_block_become(uint32_t i)
{
	const struct cusim_lane *lane = &cusim_lanes[i];

	cusim_now.stack = cusim_fibre_stack(i);
	cusim_now.thread = i;
	cusim_now.late = cusim_tensor_published[i] == cusim_now.stamp.epoch ? CUSIM_BY_LATE : 0;
	threadIdx = (struct cusim_dim){ lane->idx[0], lane->idx[1], lane->idx[2] };
}

static inline uint32_t cusim_block_next(struct cusim_warp_state *w)
{
	uint32_t lane = (uint32_t)(cusim_block.backwards ? 31 - __builtin_clz(w->ready) : __builtin_ctz(w->ready));

	w->ready &= ~(1u << lane);
	return lane;
}

/* Thread i has to wait, or has ended. */
static void cusim_block_yield(uint32_t i)
{
	struct cusim_warp_state *w = &cusim_block.warp[i / CUSIM_WARP];
	uint32_t to;

	if (!w->ready) {
		cusim_fibre_leave(i);
		return;
	}
	to = i / CUSIM_WARP * CUSIM_WARP + cusim_block_next(w);
	cusim_block_become(to);
	cusim_fibre_change(i, to);
}

/* ---- in a thread ---- */

static void cusim_block_thread(void)
{
	uint32_t i = cusim_now.thread;

	cusim_block.l->kernel->call((const void *)cusim_now.args);
	cusim_block.warp[i / CUSIM_WARP].done |= 1u << i % CUSIM_WARP;
	cusim_block.n_done++;
	cusim_block_yield(i);
	abort();
}

void cusim_block_abandon(void)
{
	cusim_block.abandoned = true;
	cusim_fibre_leave(cusim_now.thread);
	abort();
}

int cusim_barrier(int op, int pred, int line)
{
	uint32_t i = cusim_now.thread;
	struct cusim_lane *lane = &cusim_lanes[i];

	lane->op = op;
	lane->line = line;
	cusim_values[i] = (uint64_t)(pred != 0);
	cusim_block.n_barrier++;
	cusim_block_yield(i);
	return (int)cusim_values[i];
}

/* Have all lanes of mask come to what lane `first` waits at? */
static bool cusim_block_met(const struct cusim_warp_state *w, const struct cusim_lane *warp, uint32_t first, uint32_t mask)
{
	if (mask & ~w->waiting)
		return false;
	if (!w->apart)
		return true;
	for (uint32_t m = mask; m; m &= m - 1) {
		const struct cusim_lane *lane = &warp[__builtin_ctz(m)];

		if (lane->op != warp[first].op || lane->line != warp[first].line || (lane->mask & w->exist) != mask)
			return false;
	}
	return true;
}

/* Lane i waits from now on: for the same as those before it? */
static inline void cusim_block_joins(struct cusim_warp_state *w, struct cusim_lane *warp, uint32_t i, int op, uint32_t mask,
				     int line)
{
	const struct cusim_lane *first = &warp[w->first];

	if (!w->waiting) {
		w->first = i;
		w->apart = false;
	} else if (op != first->op || line != first->line || ((mask ^ first->mask) & w->exist)) {
		w->apart = true;
	}
	warp[i].op = op;
	warp[i].line = line;
	warp[i].mask = mask;
	w->waiting |= 1u << i;
}

/* The running thread's lane has its operands. */
static inline void cusim_block_meet(int op, uint32_t mask, int line)
{
	uint32_t i = cusim_now.thread, at = i % CUSIM_WARP;
	struct cusim_warp_state *w = &cusim_block.warp[i / CUSIM_WARP];
	struct cusim_lane *warp = &cusim_lanes[i - at];

	if (!(mask >> at & 1)) {
		cusim_report(NULL, 20, "%s at line %d: not in its own mask %#x", cusim_warp_name(op), line, mask);
		cusim_block_abandon();
	}
	cusim_block_joins(w, warp, at, op, mask, line);
	mask &= w->exist;
	if (!cusim_block_met(w, warp, at, mask)) {
		cusim_block_yield(i);
		return;
	}
	cusim_warp_do(warp, &cusim_values[i - at], mask);
	w->waiting &= ~mask;
	w->ready |= mask & ~(1u << at);
	cusim_now.stamp.lap = ++w->lap;
}

uint64_t cusim_warp(int op, uint32_t mask, uint64_t value, int arg, int width, int line)
{
	struct cusim_lane *lane = &cusim_lanes[cusim_now.thread];

	cusim_values[cusim_now.thread] = value;
	lane->arg = arg;
	lane->width = width;
	cusim_block_meet(op, mask, line);
	return cusim_values[cusim_now.thread];
}

void cusim_matrix(int op, float *d, const uint32_t *a, const uint32_t *b, int line)
{
	struct cusim_lane *lane = &cusim_lanes[cusim_now.thread];

	lane->p[0] = d;
	lane->p[1] = (void *)a;
	lane->p[2] = (void *)b;
	cusim_block_meet(op, ~0u, line);
}

void cusim_matrix_scaled(int op, float *d, const uint32_t *a, const uint32_t *b, const struct cusim_scale scale[2],
			 int line)
{
	cusim_lanes[cusim_now.thread].scale = scale;
	cusim_matrix(op, d, a, b, line);
}

void cusim_ldmatrix(uint32_t *r, const void *row, int n, int transposed, int line)
{
	struct cusim_lane *lane = &cusim_lanes[cusim_now.thread];
	const void *pc = __builtin_return_address(0);

	/* The first lanes give the addresses. */
	if (cusim_now.thread % CUSIM_WARP < 8u * (unsigned)n) {
		if ((uintptr_t)row % 16) {
			cusim_report(pc, 4, "ldmatrix of a row at %p: misaligned", row);
			cusim_block_abandon();
		}
		cusim_access_check(row, 16, CUSIM_READ, pc);
	}
	lane->p[0] = r;
	lane->p[1] = (void *)row;
	lane->arg = n | (transposed ? 8 : 0);
	cusim_block_meet(CUSIM_LDMATRIX, ~0u, line);
}

void *cusim_dynamic_shared(void)
{
	return cusim_block.dynamic;
}

void cusim_collective(int op, void *p, int arg, int width, int line)
{
	struct cusim_lane *lane = &cusim_lanes[cusim_now.thread];

	lane->p[0] = p;
	lane->arg = arg;
	lane->width = width;
	cusim_block_meet(op, ~0u, line);
}

void cusim_block_sleep(void *barrier, int phase, int line)
{
	uint32_t i = cusim_now.thread;
	struct cusim_lane *lane = &cusim_lanes[i];

	lane->op = CUSIM_TENSOR_WAIT;
	lane->line = line;
	lane->p[0] = barrier;
	lane->arg = phase;
	cusim_block.warp[i / CUSIM_WARP].asleep |= 1u << i % CUSIM_WARP;
	cusim_block_yield(i);
}

/* ---- the scheduler ---- */

/* Runs what can run; false: nothing could. */
static bool cusim_block_pass(void)
{
	bool ran = false;

	for (uint32_t k = 0; k < cusim_block.n_warp; k++) {
		uint32_t w = cusim_block.backwards ? cusim_block.n_warp - 1 - k : k;

		while (cusim_block.warp[w].ready && !cusim_block.abandoned) {
			uint32_t i = w * CUSIM_WARP + cusim_block_next(&cusim_block.warp[w]);

			cusim_now.stamp.lap = cusim_block.warp[w].lap;
			cusim_block_become(i);
			cusim_fibre_enter(i);
			ran = true;
		}
	}
	return ran;
}

/* Those whose sleep is over are ready; false: nobody's is. */
static bool cusim_block_wake(void)
{
	bool woke = false;

	for (uint32_t w = 0; w < cusim_block.n_warp; w++)
		for (uint32_t m = cusim_block.warp[w].asleep; m; m &= m - 1) {
			uint32_t at = (uint32_t)__builtin_ctz(m);
			const struct cusim_lane *lane = &cusim_lanes[w * CUSIM_WARP + at];

			if (!cusim_tensor_goes_on(lane->p[0], lane->arg))
				continue;
			cusim_block.warp[w].asleep &= ~(1u << at);
			cusim_block.warp[w].ready |= 1u << at;
			woke = true;
		}
	return woke;
}

static void cusim_block_epoch(void)
{
	cusim_now.stamp.epoch = cusim_now.since[1] = ++cusim_block.epoch;
	cusim_now.late = 0;
}

static void cusim_block_release(void)
{
	uint64_t count = 0, result;

	for (uint32_t i = 0; i < cusim_block.n_thread; i++)
		count += cusim_values[i];
	switch (cusim_lanes[0].op) {
	case CUSIM_BARRIER_OR:
		result = count > 0;
		break;
	case CUSIM_BARRIER_AND:
		result = count == cusim_block.n_thread;
		break;
	default:
		result = count;
	}
	for (uint32_t i = 0; i < cusim_block.n_thread; i++)
		cusim_values[i] = result;
	for (uint32_t w = 0; w < cusim_block.n_warp; w++) {
		cusim_block.warp[w].ready = cusim_block.warp[w].exist;
		cusim_block.warp[w].lap = 0;
	}
	cusim_block.n_barrier = 0;
	if (cusim_lanes[0].op == CUSIM_TENSOR_SYNC)
		cusim_tensor_met(cusim_block.n_thread);
	cusim_block_epoch();
}

/* What thread i does while another waits for it. */
static void cusim_block_state(uint32_t i, char *text, size_t size)
{
	const struct cusim_warp_state *w = &cusim_block.warp[i / CUSIM_WARP];

	if (w->done >> i % CUSIM_WARP & 1)
		snprintf(text, size, "thread %u has ended", i);
	else
		snprintf(text, size, "thread %u waits at line %d for %s%s", i, cusim_lanes[i].line,
			 cusim_warp_name(cusim_lanes[i].op),
			 w->waiting >> i % CUSIM_WARP & 1 ? "" : " of the block");
}

/* Nothing can run: says who waits for whom. */
static void cusim_block_stuck(void)
{
	char text[120];
	uint32_t first = cusim_block.n_thread;

	for (uint32_t i = 0; i < cusim_block.n_thread; i++)
		if (cusim_block.warp[i / CUSIM_WARP].asleep >> i % CUSIM_WARP & 1) {
			cusim_now.thread = i;
			cusim_report(NULL, 1000 + cusim_lanes[i].line, "waits at line %d for tensor cores, to which nobody committed",
				     cusim_lanes[i].line);
			return;
		}
	/* A warp operation is told before the barriers that it keeps from opening. */
	for (uint32_t i = cusim_block.n_thread; i-- > 0;) {
		const struct cusim_warp_state *w = &cusim_block.warp[i / CUSIM_WARP];
		const struct cusim_lane *lane = &cusim_lanes[i], *warp = lane - i % CUSIM_WARP;

		if (!(w->waiting >> i % CUSIM_WARP & 1))
			continue;
		for (uint32_t m = lane->mask & w->exist; m; m &= m - 1) {
			uint32_t k = (uint32_t)__builtin_ctz(m);

			if (w->waiting >> k & 1 && warp[k].op == lane->op && warp[k].line == lane->line &&
			    warp[k].mask == lane->mask)
				continue;
			cusim_now.thread = i;
			cusim_block_state(i - i % CUSIM_WARP + k, text, sizeof text);
			cusim_report(NULL, 1000 + lane->line, "%s at line %d with mask %#x: %s",
				     cusim_warp_name(lane->op), lane->line, lane->mask, text);
			return;
		}
	}
	for (uint32_t i = 0; i < cusim_block.n_thread && first == cusim_block.n_thread; i++)
		if (!(cusim_block.warp[i / CUSIM_WARP].done >> i % CUSIM_WARP & 1))
			first = i;
	cusim_now.thread = first;
	for (uint32_t i = 0; i < cusim_block.n_thread; i++) {
		const struct cusim_warp_state *w = &cusim_block.warp[i / CUSIM_WARP];

		if (!(w->done >> i % CUSIM_WARP & 1) && cusim_lanes[i].op == cusim_lanes[first].op &&
		    cusim_lanes[i].line == cusim_lanes[first].line)
			continue;
		cusim_block_state(i, text, sizeof text);
		cusim_report(NULL, 1000 + cusim_lanes[first].line, "divergent barrier: %s at line %d, but %s",
			     cusim_warp_name(cusim_lanes[first].op), cusim_lanes[first].line, text);
		return;
	}
}

static bool cusim_block_together(void)
{
	for (uint32_t i = 1; i < cusim_block.n_thread; i++)
		if (cusim_lanes[i].op != cusim_lanes[0].op || cusim_lanes[i].line != cusim_lanes[0].line)
			return false;
	return true;
}

/* ---- a block ---- */

static void cusim_block_begin(const struct cusim_launch *l)
{
	cusim_block.n_done = cusim_block.n_barrier = 0;
	cusim_block.abandoned = false;
	cusim_block_epoch();
	cusim_now.block_epoch = cusim_block.epoch;
	for (uint32_t w = 0; w < cusim_block.n_warp; w++) {
		uint32_t left = cusim_block.n_thread - w * CUSIM_WARP;
		uint32_t all = left >= CUSIM_WARP ? ~0u : (1u << left) - 1;

		cusim_block.warp[w] = (struct cusim_warp_state){ .exist = all, .ready = all };
	}
	for (uint32_t i = 0; i < cusim_block.n_thread; i++)
		cusim_fibre_begin(i, cusim_block_thread);
	cusim_shared_fresh();
	if (l->shared) {
		memset(cusim_block.dynamic, CUSIM_FRESH, l->shared);
		cusim_memory_unwritten(cusim_block.dynamic, l->shared);
	}
	cusim_copy_begin(cusim_block.n_thread);
	cusim_tensor_begin();
}

void cusim_block_run(const struct cusim_launch *l)
{
	cusim_block_begin(l);
	while (cusim_block.n_done < cusim_block.n_thread && !cusim_block.abandoned) {
		if (cusim_block_pass() || cusim_block_wake())
			continue;
		if (cusim_block.n_barrier < cusim_block.n_thread || !cusim_block_together()) {
			cusim_block_stuck();
			return;
		}
		cusim_block_release();
	}
	if (!cusim_block.abandoned)
		cusim_tensor_end();
}

/* ---- a grid ---- */

static bool cusim_block_refuse(const struct cusim_launch *l, size_t shared)
{
	uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];

	cusim_now.thread = 0;
	cusim_report_block((const uint32_t[3]){ 0 });
	memset(cusim_lanes[0].idx, 0, sizeof cusim_lanes[0].idx);
	if (threads == 0 || threads > CUSIM_MAX_THREADS || l->block[2] > 64)
		cusim_report(NULL, 30, "a block of %u x %u x %u threads", l->block[0], l->block[1], l->block[2]);
	else if (threads > l->kernel->threads)
		cusim_report(NULL, 30, "a block of %u threads, but KERNEL says %u at most", (unsigned)threads, l->kernel->threads);
	else if (l->grid[1] > 65535 || l->grid[2] > 65535 || l->grid[0] > INT32_MAX)
		cusim_report(NULL, 30, "a grid of %u x %u x %u blocks", l->grid[0], l->grid[1], l->grid[2]);
	else if (shared + l->shared > CUSIM_MAX_SHARED)
		cusim_report(NULL, 30, "%zu bytes of shared memory", shared + l->shared);
	else
		return false;
	return true;
}

static void cusim_block_index(const struct cusim_launch *l)
{
	cusim_block.l = l;
	cusim_block.n_thread = l->block[0] * l->block[1] * l->block[2];
	cusim_block.n_warp = (cusim_block.n_thread + CUSIM_WARP - 1) / CUSIM_WARP;
	for (uint32_t i = 0; i < cusim_block.n_thread; i++) {
		uint32_t *idx = cusim_lanes[i].idx;

		idx[0] = i % l->block[0];
		idx[1] = i / l->block[0] % l->block[1];
		idx[2] = i / l->block[0] / l->block[1];
	}
	blockDim = (struct cusim_dim){ l->block[0], l->block[1], l->block[2] };
	gridDim = (struct cusim_dim){ l->grid[0], l->grid[1], l->grid[2] };
}

static void cusim_block_memory(const struct cusim_launch *l)
{
	if (!cusim_block.dynamic) {
		const char *order = getenv("CUSIM_ORDER");

		cusim_block.dynamic = aligned_alloc(4096, (CUSIM_MAX_SHARED + 8191) / 4096 * 4096);
		if (!cusim_block.dynamic)
			abort();
		cusim_fibre_init();
		cusim_block.backwards = order && !strcmp(order, "backwards");
	}
	cusim_memory_image((const void *)l->kernel);
	if (l->shared)
		cusim_memory_add_shared(cusim_block.dynamic, l->shared, "memory of the launch");
}

int cusim_launch(const struct cusim_launch *l)
{
	uint64_t n = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];

	cusim_report_launch(l);
	if (cusim_block_refuse(l, cusim_shared_of(l->kernel)))
		return cusim_report_count();
	cusim_block_memory(l);
	cusim_block_index(l);
	cusim_now.args = (uintptr_t)l->args;
	cusim_now.args_bytes = l->kernel->args_bytes;
	cusim_now.strangers = (uint8_t)~(1u << l->device);
	cusim_now.since[0] = cusim_block.epoch + 1;
	for (uint64_t k = 0; k < n && cusim_report_count() < 20; k++) {
		uint64_t i = cusim_block.backwards ? n - 1 - k : k;
		const uint32_t b[3] = { (uint32_t)(i % l->grid[0]), (uint32_t)(i / l->grid[0] % l->grid[1]),
					(uint32_t)(i / l->grid[0] / l->grid[1]) };

		blockIdx = (struct cusim_dim){ b[0], b[1], b[2] };
		cusim_report_block(b);
		cusim_block_run(l);
	}
	if (l->shared)
		cusim_memory_drop(cusim_block.dynamic);
	return cusim_report_count();
}
