/* SPDX-License-Identifier: MIT
 * cusim_memory.c - which bytes kernels may touch and which hold values: regions, and the pages below them.
 * Threads: one at a time. Locks: none. */
#include "tests/cusim/cusim_page.h"

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cusim_region {
	uintptr_t at;
	size_t bytes;
	const char *name;           /* of a shared variable, else NULL */
};

struct cusim_page **cusim_pages[1 << 18];
static struct cusim_region *cusim_region;          /* [cusim_n_region] by address */
static size_t cusim_n_region, cusim_max_region;
static struct cusim_region cusim_dropped[64];      /* the last ones */
static unsigned cusim_n_dropped;
static uintptr_t cusim_image_lo, cusim_image_hi;

/* ---- pages ---- */

static void *cusim_memory_need(void *p)
{
	if (!p) {
		perror("cusim");
		abort();
	}
	return p;
}

static struct cusim_page **cusim_memory_slot(uintptr_t p)
{
	struct cusim_page ***t = &cusim_pages[p >> 30 & 0x3ffff];

	if (!*t)
		*t = cusim_memory_need(calloc(1 << 18, sizeof **t));
	return &(*t)[p >> 12 & 0x3ffff];
}

void cusim_page_bits(uint64_t *bits, size_t at, size_t n, bool on)
{
	for (size_t i = at; i < at + n;) {
		size_t run = 64 - i % 64 < at + n - i ? 64 - i % 64 : at + n - i;
		uint64_t mask = (run == 64 ? ~0ull : (1ull << run) - 1) << i % 64;

		bits[i / 64] = on ? bits[i / 64] | mask : bits[i / 64] & ~mask;
		i += run;
	}
}

void cusim_page_stamps(struct cusim_page *page)
{
	page->word = cusim_memory_need(calloc(CUSIM_PAGE_WORDS, sizeof *page->word));
}

/* For each page of [p, p + bytes): its part. */
typedef void cusim_memory_part_f(struct cusim_page **page, size_t at, size_t n, int arg);

static void cusim_memory_parts(uintptr_t p, size_t bytes, cusim_memory_part_f *f, int arg)
{
	while (bytes) {
		size_t at = p % CUSIM_PAGE, n = CUSIM_PAGE - at < bytes ? CUSIM_PAGE - at : bytes;

		f(cusim_memory_slot(p), at, n, arg);
		p += n;
		bytes -= n;
	}
}

static void cusim_memory_add_part(struct cusim_page **slot, size_t at, size_t n, int written)
{
	struct cusim_page *page = *slot;

	if (!page)
		page = *slot = cusim_memory_need(calloc(1, sizeof *page));
	cusim_page_bits(page->valid, at, n, true);
	cusim_page_bits(page->written, at, n, written & 1);
	page->shared = written & 2;
	page->bytes += (uint32_t)n;
	/* Whoever had this place before is no party of a race. */
	if (page->word)
		memset(page->word + at / 4, 0, (n + at % 4 + 3) / 4 * sizeof *page->word);
}

static void cusim_memory_drop_part(struct cusim_page **slot, size_t at, size_t n, int arg)
{
	struct cusim_page *page = *slot;

	(void)arg;
	cusim_page_bits(page->valid, at, n, false);
	cusim_page_bits(page->written, at, n, false);
	page->bytes -= (uint32_t)n;
	if (page->bytes)
		return;
	free(page->word);
	free(page);
	*slot = NULL;
}

static void cusim_memory_written_part(struct cusim_page **slot, size_t at, size_t n, int written)
{
	struct cusim_page *page = *slot;

	if (!page)
		return;
	cusim_page_bits(page->written, at, n, written);
	for (size_t i = at / 64; written && i <= (at + n - 1) / 64; i++)
		page->written[i] &= page->valid[i];
}

/* ---- regions ---- */

/* How many regions begin at or before p. */
static size_t cusim_memory_upto(uintptr_t p)
{
	size_t lo = 0, hi = cusim_n_region;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (cusim_region[mid].at <= p)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static void cusim_memory_enter(uintptr_t p, size_t bytes, const char *name)
{
	size_t i = cusim_memory_upto(p);

	if (cusim_n_region == cusim_max_region) {
		cusim_max_region = cusim_max_region ? 2 * cusim_max_region : 256;
		cusim_region = cusim_memory_need(realloc(cusim_region, cusim_max_region * sizeof *cusim_region));
	}
	memmove(cusim_region + i + 1, cusim_region + i, (cusim_n_region - i) * sizeof *cusim_region);
	cusim_region[i] = (struct cusim_region){ p, bytes, name };
	cusim_n_region++;
}

void cusim_memory_add(void *p, size_t bytes, int written)
{
	cusim_memory_enter((uintptr_t)p, bytes, NULL);
	cusim_memory_parts((uintptr_t)p, bytes, cusim_memory_add_part, written != 0);
}

void cusim_memory_add_shared(void *p, size_t bytes, const char *name)
{
	cusim_memory_enter((uintptr_t)p, bytes, name);
	cusim_memory_parts((uintptr_t)p, bytes, cusim_memory_add_part, 2);
}

void cusim_memory_drop(void *p)
{
	size_t i = cusim_memory_upto((uintptr_t)p);
	struct cusim_region *r = &cusim_region[i - 1];

	if (!i || r->at != (uintptr_t)p) {
		fprintf(stderr, "cusim: %p is dropped, which is no memory's begin\n", p);
		abort();
	}
	cusim_dropped[cusim_n_dropped++ % 64] = *r;
	cusim_memory_parts(r->at, r->bytes, cusim_memory_drop_part, 0);
	memmove(r, r + 1, (cusim_n_region - i) * sizeof *r);
	cusim_n_region--;
}

void cusim_memory_written(const void *p, size_t bytes)
{
	cusim_memory_parts((uintptr_t)p, bytes, cusim_memory_written_part, 1);
}

void cusim_memory_unwritten(const void *p, size_t bytes)
{
	cusim_memory_parts((uintptr_t)p, bytes, cusim_memory_written_part, 0);
}

static void cusim_memory_own_part(struct cusim_page **slot, size_t at, size_t n, int device)
{
	(void)at;
	(void)n;
	(*slot)->owner = (uint8_t)(1u << device);
}

void cusim_memory_own(const void *p, size_t bytes, int device)
{
	cusim_memory_parts((uintptr_t)p, bytes, cusim_memory_own_part, device);
}

int cusim_memory_check(const char *who, const void *address, size_t bytes, int write)
{
	uintptr_t p = (uintptr_t)address;

	for (size_t left = bytes; left;) {
		struct cusim_page *page = cusim_page(p);
		size_t i = p % CUSIM_PAGE / 64, n = 64 - p % 64 < left ? 64 - p % 64 : left;
		uint64_t bits = (n == 64 ? ~0ull : (1ull << n) - 1) << p % 64;
		bool there = page && (page->valid[i] & bits) == bits;
		char where[160];

		if (!there || (!write && (page->written[i] & bits) != bits)) {
			cusim_memory_where(p, where, sizeof where);
			fprintf(stderr, "cusim: %s %s %zu bytes, %s %s\n", who, write ? "writes" : "reads", bytes,
				there ? "which nobody wrote," : "some of them", where);
			return -1;
		}
		if (write)
			page->written[i] |= bits;
		p += n;
		left -= n;
	}
	return 0;
}

static int cusim_memory_image_part(struct dl_phdr_info *info, size_t size, void *arg)
{
	uintptr_t code = (uintptr_t)arg, lo = UINTPTR_MAX, hi = 0;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *h = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + h->p_vaddr;

		if (h->p_type != PT_LOAD)
			continue;
		lo = at < lo ? at : lo;
		hi = at + h->p_memsz > hi ? at + h->p_memsz : hi;
	}
	if (code < lo || code >= hi)
		return 0;
	cusim_image_lo = lo;
	cusim_image_hi = hi;
	return 1;
}

void cusim_memory_image(const void *code)
{
	if ((uintptr_t)code < cusim_image_lo || (uintptr_t)code >= cusim_image_hi)
		dl_iterate_phdr(cusim_memory_image_part, (void *)code);
}

bool cusim_page_constant(uintptr_t p)
{
	return p >= cusim_image_lo && p < cusim_image_hi && !cusim_shared_has(p);
}

/* ---- words for a report ---- */

/* How far from it. */
static size_t cusim_memory_far(uintptr_t p, const struct cusim_region *r)
{
	return p < r->at ? r->at - p : p >= r->at + r->bytes ? p - r->at - r->bytes : 0;
}

static void cusim_memory_near(uintptr_t p, const struct cusim_region *r, const char *what, char *text, size_t size)
{
	char of[96];

	if (r->name)
		snprintf(of, sizeof of, "the %zu of shared %.40s", r->bytes, r->name);
	else
		snprintf(of, sizeof of, "the %zu at %#tx%s", r->bytes, (ptrdiff_t)r->at, what);
	if (p < r->at)
		snprintf(text, size, "%zu before %s", (size_t)(r->at - p), of);
	else if (p >= r->at + r->bytes)
		snprintf(text, size, "%zu beyond %s", (size_t)(p - r->at - r->bytes), of);
	else
		snprintf(text, size, "at %zu of %s", (size_t)(p - r->at), of);
}

void cusim_memory_where(uintptr_t p, char *text, size_t size)
{
	size_t i = cusim_memory_upto(p);

	for (unsigned k = 0; k < 64; k++) {
		const struct cusim_region *r = &cusim_dropped[k];

		/* Unless something else lies there now. */
		if (!r->name && p - r->at < r->bytes && !(i && p - cusim_region[i - 1].at < cusim_region[i - 1].bytes)) {
			cusim_memory_near(p, r, ", which were freed", text, size);
			return;
		}
	}
	if (i < cusim_n_region && (!i || cusim_memory_far(p, &cusim_region[i]) < cusim_memory_far(p, &cusim_region[i - 1])))
		i++;
	if (i && cusim_memory_far(p, &cusim_region[i - 1]) < 65536)
		cusim_memory_near(p, &cusim_region[i - 1], "", text, size);
	else
		snprintf(text, size, "at %#tx, where no memory is", (ptrdiff_t)p);
}

