/* SPDX-License-Identifier: MIT
 * cusim_tensor.c - tensor memory of sm_100: who has which columns, what was started, and who waited for it.
 * Threads: one at a time. Locks: none. */
#include "tests/cusim/cusim_tensor.h"
#include "tests/cusim/cusim_ops.h"
#include "tests/cusim/cusim_page.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define CUSIM_TENSOR_OPS 64         /* under way */
#define CUSIM_TENSOR_BARRIERS 16
#define CUSIM_TENSOR_WINDOW (1u << 18) /* shared memory that a descriptor's address reaches */

struct cusim_tensor_cell cusim_tensor_memory[CUSIM_TENSOR_LANES][CUSIM_TENSOR_COLUMNS];
uint32_t cusim_tensor_published[CUSIM_MAX_THREADS];

/* An mbarrier for one arrival. */
struct cusim_tensor_barrier {
	const uint64_t *at;
	uint32_t phase;             /* that runs */
	uint32_t commit;            /* operations that its next arrival stands for; 0: none is under way */
	uint32_t done;              /* and those that the last one stood for */
};

static struct {
	bool used;                  /* in this block */
	uint32_t column, n_column;  /* that it has */
	bool asked;
	uint32_t n_started, n_ended; /* operations; number i is in op[i % CUSIM_TENSOR_OPS] */
	struct cusim_tensor_op op[CUSIM_TENSOR_OPS];
	uint32_t n_barrier;
	struct cusim_tensor_barrier barrier[CUSIM_TENSOR_BARRIERS];
	uint32_t seen[CUSIM_MAX_THREADS];      /* operations that each thread knows to be over */
	uint32_t again[CUSIM_MAX_THREADS];     /* the last epoch in which it published a second time */
} cusim_tensor;

void cusim_tensor_wrong(const void *pc, int kind, const char *fmt, ...)
{
	char text[320];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	cusim_report(pc, kind, "%s", text);
	cusim_block_abandon();
}

/* Likewise, of a warp's operation. */
static void cusim_tensor_warp_wrong(const struct cusim_lane *warp, const char *fmt, ...)
	__attribute__((noreturn, format(printf, 2, 3)));
static void cusim_tensor_warp_wrong(const struct cusim_lane *warp, const char *fmt, ...)
{
	char text[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	cusim_tensor_wrong(NULL, 1000 + warp->line, "%s at line %d: %s", cusim_warp_name(warp->op), warp->line, text);
}

/* ---- a block ---- */

void cusim_tensor_begin(void)
{
	if (!cusim_tensor.used)
		return;
	cusim_tensor.used = cusim_tensor.asked = false;
	cusim_tensor.n_column = cusim_tensor.n_started = cusim_tensor.n_ended = cusim_tensor.n_barrier = 0;
	memset(cusim_tensor.seen, 0, sizeof cusim_tensor.seen);
}

void cusim_tensor_end(void)
{
	if (cusim_tensor.used && cusim_tensor.n_column)
		cusim_report(NULL, 56, "the block ends with %u columns of tensor memory", cusim_tensor.n_column);
	else if (cusim_tensor.used && cusim_tensor.n_ended < cusim_tensor.n_started)
		cusim_report(NULL, 56, "the block ends before what its tensor cores do");
}

/* What one thread has seen, all have. */
void cusim_tensor_met(uint32_t n_thread)
{
	uint32_t most = 0;

	if (!cusim_tensor.used)
		return;
	for (uint32_t i = 0; i < n_thread; i++)
		most = cusim_tensor.seen[i] > most ? cusim_tensor.seen[i] : most;
	for (uint32_t i = 0; i < n_thread; i++)
		cusim_tensor.seen[i] = most;
}

/* ---- columns ---- */

struct cusim_tensor_cell *cusim_tensor_cell(uint32_t lane, uint32_t column, const void *pc)
{
	if (lane >= CUSIM_TENSOR_LANES || column - cusim_tensor.column >= cusim_tensor.n_column)
		cusim_tensor_wrong(pc, 57, "tensor memory at lane %u, column %u: the block has %u columns from %u on",
				   lane, column, cusim_tensor.n_column, cusim_tensor.column);
	return &cusim_tensor_memory[lane][column];
}

/* Not the first ones, which another block of the same multiprocessor may have. */
static void cusim_tensor_alloc_do(const struct cusim_lane *warp)
{
	uint32_t n = (uint32_t)warp->arg, *shared = warp->p[0];

	if (n < 32 || n > CUSIM_TENSOR_COLUMNS || (n & (n - 1)))
		cusim_tensor_warp_wrong(warp, "%u columns, no power of two from 32 to 512", n);
	if (cusim_tensor.asked)
		cusim_tensor_warp_wrong(warp, "a second one");
	cusim_tensor.used = cusim_tensor.asked = true;
	cusim_tensor.column = 2 * n <= CUSIM_TENSOR_COLUMNS ? n : 0;
	cusim_tensor.n_column = n;
	for (uint32_t lane = 0; lane < CUSIM_TENSOR_LANES; lane++)
		memset(&cusim_tensor_memory[lane][cusim_tensor.column], 0, n * sizeof cusim_tensor_memory[0][0]);
	cusim_access_check(shared, sizeof *shared, CUSIM_WRITE, NULL);
	*shared = cusim_tensor.column;
}

static void cusim_tensor_free_do(const struct cusim_lane *warp)
{
	uint32_t n = (uint32_t)warp->arg, column = (uint32_t)warp->width;

	if (!cusim_tensor.n_column || n != cusim_tensor.n_column || column != cusim_tensor.column)
		cusim_tensor_warp_wrong(warp, "%u columns from %u on: the block has %u from %u on", n, column,
					cusim_tensor.n_column, cusim_tensor.column);
	if (cusim_tensor.n_ended < cusim_tensor.n_started)
		cusim_tensor_warp_wrong(warp, "tensor cores are still at work");
	cusim_tensor.n_column = 0;
}

/* Lane l gets lane l of the warp's quarter; arg columns from width on. */
static void cusim_tensor_load_do(struct cusim_lane *warp)
{
	uint32_t first = (uint32_t)warp->width >> 16, column = (uint32_t)warp->width & 0xffff;
	uint32_t thread = cusim_now.thread / CUSIM_WARP * CUSIM_WARP, quarter = thread % CUSIM_TENSOR_LANES;

	if (first != quarter)
		cusim_tensor_warp_wrong(warp, "lanes from %u on in a warp that has those from %u on", first, quarter);
	for (uint32_t lane = 0; lane < CUSIM_WARP; lane++)
		for (uint32_t c = 0; c < (uint32_t)warp->arg; c++) {
			const struct cusim_tensor_cell *cell = cusim_tensor_cell(first + lane, column + c, NULL);

			if (!cell->by || cell->by > cusim_tensor.seen[thread + lane])
				cusim_tensor_warp_wrong(warp, "lane %u, column %u, which %s", first + lane, column + c,
							cell->by ? "its thread did not wait for" : "nobody wrote");
			memcpy((char *)warp[lane].p[0] + 4 * c, &cell->bits, 4);
		}
}

void cusim_tensor_warp(struct cusim_lane *warp)
{
	for (int i = 1; i < CUSIM_WARP; i++)
		if (warp[i].arg != warp->arg || warp[i].width != warp->width)
			cusim_tensor_warp_wrong(warp, "lanes differ");
	if (warp->op == CUSIM_TENSOR_ALLOC)
		cusim_tensor_alloc_do(warp);
	else if (warp->op == CUSIM_TENSOR_FREE)
		cusim_tensor_free_do(warp);
	else
		cusim_tensor_load_do(warp);
}

void cusim_tensor_alloc(uint32_t *shared, uint32_t columns, int line)
{
	cusim_collective(CUSIM_TENSOR_ALLOC, shared, (int)columns, 0, line);
}

void cusim_tensor_free(uint32_t at, uint32_t columns, int line)
{
	cusim_collective(CUSIM_TENSOR_FREE, NULL, (int)columns, (int)at, line);
}

void cusim_tensor_load(float *v, int n, uint32_t at, int line)
{
	cusim_collective(CUSIM_TENSOR_LOAD, v, n, (int)at, line);
}

/* ---- shared memory ---- */

uint32_t cusim_tensor_address(const void *shared)
{
	uintptr_t at = (uintptr_t)shared - cusim_shared_base();

	if (at >= CUSIM_TENSOR_WINDOW)
		cusim_tensor_wrong(__builtin_return_address(0), 58, "tensor cores read what is no shared variable");
	return (uint32_t)at;
}

void cusim_tensor_publish(void)
{
	uint32_t thread = cusim_now.thread, epoch = cusim_now.stamp.epoch;

	cusim_tensor.used = true;
	if (cusim_tensor_published[thread] == epoch)
		cusim_tensor.again[thread] = epoch;
	cusim_tensor_published[thread] = epoch;
	cusim_now.late = CUSIM_BY_LATE;
}

/* Did its writer publish afterwards? */
static bool cusim_tensor_public(const struct cusim_stamp *w)
{
	uint32_t thread = w->who & CUSIM_WHO_THREAD, last = cusim_tensor_published[thread];

	if (last != w->epoch)
		return last > w->epoch;
	return !(w->who & CUSIM_BY_LATE) || cusim_tensor.again[thread] == w->epoch;
}

/* Who wrote it must have published it since, and met the running thread. */
static void cusim_tensor_word(uintptr_t p, const void *pc)
{
	const struct cusim_page *page = cusim_page(p);
	size_t at = p % CUSIM_PAGE;
	bool there = page && page->shared && page->valid[at / 64] & page->written[at / 64] & 1ull << at % 64;
	struct cusim_stamp w = there ? page->word[at / 4].w : (struct cusim_stamp){ 0 };
	uint32_t thread = w.who & CUSIM_WHO_THREAD;
	bool met = w.epoch != cusim_now.stamp.epoch || thread == cusim_now.thread;
	char where[160];

	if (there && met && (w.epoch < cusim_now.block_epoch || cusim_tensor_public(&w)))
		return;
	cusim_memory_where(p, where, sizeof where);
	if (!there)
		cusim_tensor_wrong(pc, 59, "tensor cores read what nobody wrote, %s", where);
	if (!met)
		cusim_tensor_wrong(pc, 59, "race: tensor cores read %s, which thread %u wrote, with no barrier between",
				   where, thread);
	cusim_tensor_wrong(pc, 59, "tensor cores read %s, which thread %u wrote and did not publish", where, thread);
}

void cusim_tensor_read(uint32_t address, void *to, size_t n, const void *pc, bool check)
{
	uintptr_t p = cusim_shared_base() + address;

	for (size_t i = 0; check && i < n; i += 4)
		cusim_tensor_word(p + i, pc);
	memcpy(to, (const void *)p, n);
}

/* ---- operations ---- */

/* The next one, of the running thread. */
static struct cusim_tensor_op *cusim_tensor_next(const void *pc)
{
	const struct cusim_tensor_op *last = &cusim_tensor.op[cusim_tensor.n_started % CUSIM_TENSOR_OPS];
	uint32_t n = cusim_tensor.n_started - cusim_tensor.n_ended;
	struct cusim_tensor_op *op = &cusim_tensor.op[(cusim_tensor.n_started + 1) % CUSIM_TENSOR_OPS];

	if (n == CUSIM_TENSOR_OPS)
		cusim_tensor_wrong(pc, 60, "more than %d operations of tensor cores under way", CUSIM_TENSOR_OPS);
	/* those of two threads are in no order */
	if (n && last->thread != cusim_now.thread)
		cusim_tensor_wrong(pc, 60, "gives tensor cores work beside thread %u", last->thread);
	op->pc = pc;
	op->thread = cusim_now.thread;
	return op;
}

const struct cusim_tensor_op *cusim_tensor_under_way(uint32_t i)
{
	uint32_t number = cusim_tensor.n_ended + 1 + i;

	return number <= cusim_tensor.n_started ? &cusim_tensor.op[number % CUSIM_TENSOR_OPS] : NULL;
}

static void cusim_tensor_start(struct cusim_tensor_op *op)
{
	cusim_tensor.used = true;
	cusim_tensor_begin_op(op, cusim_tensor.n_started + 1);
	cusim_tensor.n_started++;
}

void cusim_tensor_scales(uint32_t to, uint64_t from)
{
	struct cusim_tensor_op *op = cusim_tensor_next(__builtin_return_address(0));

	op->to = to;
	op->a = from;
	op->b = 0;
	cusim_tensor_start(op);
}

void cusim_tensor_mma(uint32_t d, uint64_t a, uint64_t b, uint32_t how, uint32_t scale_a, uint32_t scale_b, int add)
{
	struct cusim_tensor_op *op = cusim_tensor_next(__builtin_return_address(0));

	op->to = d;
	op->a = a;
	op->b = b;
	op->how = how;
	op->scale_a = scale_a;
	op->scale_b = scale_b;
	op->add = add;
	cusim_tensor_start(op);
}

/* ---- barriers ---- */

static struct cusim_tensor_barrier *cusim_tensor_barrier_of(const uint64_t *at, const void *pc)
{
	uint32_t i = 0;

	cusim_access_check(at, sizeof *at, CUSIM_READ, pc);
	while (i < cusim_tensor.n_barrier && cusim_tensor.barrier[i].at != at)
		i++;
	if (i == cusim_tensor.n_barrier)
		cusim_tensor_wrong(pc, 61, "no barrier: nobody made it one");
	return &cusim_tensor.barrier[i];
}

void cusim_tensor_barrier(uint64_t *at)
{
	const void *pc = __builtin_return_address(0);

	if ((uintptr_t)at % 8 || cusim_tensor.n_barrier == CUSIM_TENSOR_BARRIERS)
		cusim_tensor_wrong(pc, 61, "a barrier too many, or misaligned");
	cusim_access_check(at, sizeof *at, CUSIM_WRITE, pc);
	*at = 0;
	cusim_tensor.used = true;
	cusim_tensor.barrier[cusim_tensor.n_barrier++] = (struct cusim_tensor_barrier){ .at = at };
}

void cusim_tensor_commit(uint64_t *at)
{
	const void *pc = __builtin_return_address(0);
	struct cusim_tensor_barrier *b = cusim_tensor_barrier_of(at, pc);

	if (b->commit && b->commit > cusim_tensor.n_ended)
		cusim_tensor_wrong(pc, 61, "a second commit to a barrier before the first was waited for");
	if (cusim_tensor.n_started == 0 ||
	    cusim_tensor.op[cusim_tensor.n_started % CUSIM_TENSOR_OPS].thread != cusim_now.thread)
		cusim_tensor_wrong(pc, 61, "commits what it did not start");
	b->commit = cusim_tensor.n_started;
}

static bool cusim_tensor_passed(const struct cusim_tensor_barrier *b, uint32_t phase)
{
	return (b->phase & 1) != (phase & 1);
}

bool cusim_tensor_goes_on(const void *at, int phase)
{
	for (uint32_t i = 0; i < cusim_tensor.n_barrier; i++)
		if (cusim_tensor.barrier[i].at == at)
			return cusim_tensor.barrier[i].commit ||
			       cusim_tensor_passed(&cusim_tensor.barrier[i], (uint32_t)phase);
	return false;
}

/* All up to operation n; barriers whose commits are over by then go on. */
static void cusim_tensor_finish(uint32_t n)
{
	while (cusim_tensor.n_ended < n) {
		cusim_tensor.n_ended++;
		cusim_tensor_end_op(&cusim_tensor.op[cusim_tensor.n_ended % CUSIM_TENSOR_OPS]);
	}
	for (uint32_t i = 0; i < cusim_tensor.n_barrier; i++) {
		struct cusim_tensor_barrier *b = &cusim_tensor.barrier[i];

		if (!b->commit || b->commit > n)
			continue;
		b->phase++;
		b->done = b->commit;
		b->commit = 0;
	}
}

void cusim_tensor_wait(uint64_t *at, uint32_t phase, int line)
{
	const struct cusim_tensor_barrier *b = cusim_tensor_barrier_of(at, __builtin_return_address(0));
	uint32_t *seen = &cusim_tensor.seen[cusim_now.thread];

	while (!cusim_tensor_passed(b, phase)) {
		if (b->commit)
			cusim_tensor_finish(b->commit);
		else
			cusim_block_sleep(at, (int)(phase & 1), line);
	}
	*seen = b->done > *seen ? b->done : *seen;
}
