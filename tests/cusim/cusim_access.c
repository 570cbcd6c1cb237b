/* SPDX-License-Identifier: MIT
 * cusim_access.c - what the compiler calls at each load and store of a simulated kernel: is it allowed, and who else was
 * there?
 * Threads: one at a time. Locks: none.
 *
 * An access is at odds with one before it when both are of one launch, one of them writes, and no barrier (for another
 * warp), no operation of the warp (for another lane), nothing at all (for another block) stands between them. A word has
 * one stamp of each kind: of bytes that several threads share a word of, some races are missed, and none is told that is
 * none. */
#include "tests/cusim/cusim_fibre.h"
#include "tests/cusim/cusim_page.h"

#include <stdio.h>
#include <string.h>

#define HOOK __attribute__((visibility("hidden")))
#define HERE __builtin_return_address(0)
#define SELDOM(x) __builtin_expect(!!(x), 0)
#define FAST static inline __attribute__((always_inline))

struct cusim_now cusim_now;

/* ---- races ---- */

/* 0, or at odds with: 1 another lane, 2 another warp, 3 another block. `many`: the stamp's readers. */
FAST int cusim_access_odds(const struct cusim_page *page, const struct cusim_stamp *s, unsigned many)
{
	unsigned other = s->who & CUSIM_WHO_THREAD;

	if (s->epoch < cusim_now.since[0])
		return 0;
	if (many == CUSIM_BY_BLOCKS || (s->epoch < cusim_now.block_epoch && !page->shared))
		return 3;
	if (s->epoch != cusim_now.stamp.epoch)
		return 0;
	if (many == CUSIM_BY_WARPS || (other ^ cusim_now.thread) >= CUSIM_WARP)
		return 2;
	return s->lap == cusim_now.stamp.lap && (many == CUSIM_BY_LANES || other != cusim_now.thread);
}

FAST void cusim_access_set(struct cusim_stamp *s, unsigned bytes, unsigned flags)
{
	struct cusim_stamp stamp = cusim_now.stamp;

	stamp.who = (uint16_t)(cusim_now.thread | bytes << 10 | flags);
	*s = stamp;
}

/* Adds the running thread to who has read a word. */
FAST void cusim_access_reader(const struct cusim_page *page, struct cusim_stamp *r, unsigned bytes)
{
	unsigned was = r->who & CUSIM_WHO_FLAGS, both = CUSIM_WHO_BYTES(r->who) & bytes, other = r->who & CUSIM_WHO_THREAD;

	if (r->epoch < cusim_now.since[0] || !both)
		cusim_access_set(r, bytes, 0);
	else if (was == CUSIM_BY_BLOCKS || (r->epoch < cusim_now.block_epoch && !page->shared))
		cusim_access_set(r, both, CUSIM_BY_BLOCKS);
	else if (r->epoch != cusim_now.stamp.epoch)
		cusim_access_set(r, bytes, 0);
	else if (was == CUSIM_BY_WARPS || (other ^ cusim_now.thread) >= CUSIM_WARP)
		cusim_access_set(r, both, CUSIM_BY_WARPS);
	else if (r->lap != cusim_now.stamp.lap || (other == cusim_now.thread && !was))
		cusim_access_set(r, bytes, 0);
	else
		cusim_access_set(r, both, CUSIM_BY_LANES);
}

static __attribute__((noinline)) void cusim_access_race(uintptr_t p, enum cusim_access how, int odds, const char *did,
							struct cusim_stamp *s, const void *pc)
{
	static const char *const who[] = { "", "thread", "thread", "a thread of another block" };
	static const char *const after[] = { "", ", with no __syncwarp between", ", with no barrier between", "" };
	static const char *const does[] = { "reads", "writes", "changes" };
	char where[160], number[16] = "";

	cusim_memory_where(p, where, sizeof where);
	if (odds < 3)
		snprintf(number, sizeof number, " %u", s->who & CUSIM_WHO_THREAD);
	cusim_report(pc, 10, "race: %s %s, which %s%s %s%s", does[how], where, who[odds], number, did, after[odds]);
	s->epoch = 0;
}

FAST void cusim_access_word(const struct cusim_page *page, struct cusim_word *w, unsigned bytes, uintptr_t p,
			    enum cusim_access how, const void *pc)
{
	int odds;

	if (CUSIM_WHO_BYTES(w->w.who) & bytes && !(how == CUSIM_ATOMIC && w->w.who & CUSIM_BY_ATOMIC)) {
		odds = cusim_access_odds(page, &w->w, 0);
		if (SELDOM(odds))
			cusim_access_race(p, how, odds, "wrote", &w->w, pc);
	}
	if (how == CUSIM_READ) {
		cusim_access_reader(page, &w->r, bytes);
		return;
	}
	if (CUSIM_WHO_BYTES(w->r.who) & bytes) {
		odds = cusim_access_odds(page, &w->r, w->r.who & CUSIM_WHO_FLAGS);
		if (SELDOM(odds))
			cusim_access_race(p, how, odds, "read", &w->r, pc);
	}
	cusim_access_set(&w->w, bytes, cusim_now.late | (how == CUSIM_ATOMIC ? CUSIM_BY_ATOMIC : 0));
}

/* ---- bounds ---- */

static __attribute__((noinline)) void cusim_access_bad(uintptr_t p, size_t n, enum cusim_access how, const void *pc)
{
	char where[160];

	cusim_memory_where(p, where, sizeof where);
	cusim_report(pc, how, "%s %zu bytes, %s", how == CUSIM_READ ? "reads" : "writes", n, where);
	cusim_block_abandon();
}

static __attribute__((noinline)) void cusim_access_fresh(struct cusim_page *page, uintptr_t p, size_t n, const void *pc)
{
	char where[160];

	while (page->written[p % CUSIM_PAGE / 64] >> p % 64 & 1) {
		p++;
		n--;
	}
	cusim_memory_where(p, where, sizeof where);
	cusim_report(pc, 3, "reads what nobody wrote, %s", where);
	cusim_page_bits(page->written, p % CUSIM_PAGE, n, true);
}

static __attribute__((noinline)) void cusim_access_strange(uintptr_t p, size_t n, enum cusim_access how, const void *pc)
{
	char where[160];

	cusim_memory_where(p, where, sizeof where);
	cusim_report(pc, 12, "%s %zu bytes, %s, which is another device's memory", how == CUSIM_READ ? "reads" : "writes", n,
		     where);
	cusim_block_abandon();
}

/* Within 64 bytes. */
static __attribute__((noinline)) void cusim_access_one(uintptr_t p, size_t n, enum cusim_access how, const void *pc)
{
	struct cusim_page *page = cusim_page(p);
	size_t at = p % CUSIM_PAGE;
	uint64_t bits = (n == 64 ? ~0ull : (1ull << n) - 1) << at % 64;

	if (SELDOM(!page || (page->valid[at / 64] & bits) != bits)) {
		if (how == CUSIM_READ && cusim_page_constant(p))
			return;
		cusim_access_bad(p, n, how, pc);
	}
	if (SELDOM(page->owner & cusim_now.strangers))
		cusim_access_strange(p, n, how, pc);
	if (how != CUSIM_WRITE && SELDOM((page->written[at / 64] & bits) != bits))
		cusim_access_fresh(page, p, n, pc);
	if (how != CUSIM_READ)
		page->written[at / 64] |= bits;
	if (SELDOM(!page->word))
		cusim_page_stamps(page);
	if (!(p % 4 | n % 4)) {
		for (size_t i = 0; i < n; i += 4)
			cusim_access_word(page, &page->word[(at + i) / 4], 15, p + i, how, pc);
		return;
	}
	for (size_t i = 0; i < n;) {
		size_t off = (at + i) % 4, run = 4 - off < n - i ? 4 - off : n - i;

		cusim_access_word(page, &page->word[(at + i) / 4], ((1u << run) - 1) << off, p + i, how, pc);
		i += run;
	}
}

/* Most accesses: written memory that nobody wrote since the last barrier, nor read if this is a write. What
 * cusim_access_one() would do of them; false, and nothing done: it has to look itself. */
FAST bool cusim_access_plain(uintptr_t p, size_t n, enum cusim_access how)
{
	struct cusim_page *page = cusim_page(p);
	size_t at = p % CUSIM_PAGE;
	uint64_t bits = ((1ull << n) - 1) << at % 64;
	unsigned bytes = n < 4 ? ((1u << n) - 1) << at % 4 : 15;
	struct cusim_word *w;
	uint32_t since;

	if (SELDOM(!page || !page->word || (page->owner & cusim_now.strangers)))
		return false;
	if (SELDOM(((how == CUSIM_READ ? page->written : page->valid)[at / 64] & bits) != bits))
		return false;
	since = cusim_now.since[page->shared];
	w = &page->word[at / 4];
	for (size_t i = 0; i < (n + 3) / 4; i++)
		if (w[i].w.epoch >= since || (how == CUSIM_WRITE && w[i].r.epoch >= since))
			return false;
	if (how == CUSIM_WRITE)
		page->written[at / 64] |= bits;
	for (size_t i = 0; i < (n + 3) / 4; i++) {
		if (how == CUSIM_WRITE)
			cusim_access_set(&w[i].w, bytes, cusim_now.late);
		else if (w[i].r.epoch < since)
			cusim_access_set(&w[i].r, bytes, 0);
		else
			cusim_access_reader(page, &w[i].r, bytes);
	}
	return true;
}

/* A thread's own variables and its kernel's arguments are nobody else's. */
FAST bool cusim_access_own(uintptr_t p, enum cusim_access how)
{
	return p - cusim_now.stack < CUSIM_STACK || (how == CUSIM_READ && p - cusim_now.args < cusim_now.args_bytes);
}

void cusim_access_check(const void *address, size_t n, enum cusim_access how, const void *pc)
{
	uintptr_t p = (uintptr_t)address;

	if (cusim_access_own(p, how))
		return;
	while (n) {
		size_t run = 64 - p % 64 < n ? 64 - p % 64 : n;

		cusim_access_one(p, run, how, pc);
		p += run;
		n -= run;
	}
}

/* ---- the compiler's calls ---- */

HOOK void __tsan_init(void);
HOOK void __tsan_func_entry(void *pc);
HOOK void __tsan_func_exit(void);
void __tsan_init(void) {}
void __tsan_func_entry(void *pc) { (void)pc; }
void __tsan_func_exit(void) {}

static __attribute__((noinline)) void cusim_access_misaligned(uintptr_t p, size_t n, const void *pc)
{
	cusim_report(pc, 4, "%zu bytes at %#tx: misaligned", n, (ptrdiff_t)p);
	cusim_block_abandon();
}

/* A GPU refuses what is not aligned to its own size. */
FAST void cusim_access_aligned(uintptr_t p, size_t n, enum cusim_access how, const void *pc)
{
	if (cusim_access_own(p, how))
		return;
	if (SELDOM(p % n))
		cusim_access_misaligned(p, n, pc);
	if (!cusim_access_plain(p, n, how))
		cusim_access_one(p, n, how, pc);
}

#define CUSIM_HOOKS(n) \
	HOOK void __tsan_read##n(void *p); \
	HOOK void __tsan_write##n(void *p); \
	void __tsan_read##n(void *p) { cusim_access_aligned((uintptr_t)p, n, CUSIM_READ, HERE); } \
	void __tsan_write##n(void *p) { cusim_access_aligned((uintptr_t)p, n, CUSIM_WRITE, HERE); }
CUSIM_HOOKS(1)
CUSIM_HOOKS(2)
CUSIM_HOOKS(4)
CUSIM_HOOKS(8)
CUSIM_HOOKS(16)

/* Copies of bytes that the compiler made one access. */
#define CUSIM_HOOKS_UNALIGNED(n) \
	HOOK void __tsan_unaligned_read##n(void *p); \
	HOOK void __tsan_unaligned_write##n(void *p); \
	void __tsan_unaligned_read##n(void *p) { cusim_access_check(p, n, CUSIM_READ, HERE); } \
	void __tsan_unaligned_write##n(void *p) { cusim_access_check(p, n, CUSIM_WRITE, HERE); }
CUSIM_HOOKS_UNALIGNED(2)
CUSIM_HOOKS_UNALIGNED(4)
CUSIM_HOOKS_UNALIGNED(8)
CUSIM_HOOKS_UNALIGNED(16)

HOOK void __tsan_read_range(void *p, size_t n);
HOOK void __tsan_write_range(void *p, size_t n);
void __tsan_read_range(void *p, size_t n) { cusim_access_check(p, n, CUSIM_READ, HERE); }
void __tsan_write_range(void *p, size_t n) { cusim_access_check(p, n, CUSIM_WRITE, HERE); }
