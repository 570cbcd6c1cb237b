/* SPDX-License-Identifier: MIT
 * probe_text.c - figures of one text that show repetition, while it grows.
 * Threads: one at a time per object. Locks: none. */
#include "ctl/probe/probe_text.h"
#include "ctl/probe/gzip_size.h"
#include "engine/base/must.h"

/* Lines that are told apart; answers of a million of them would take days. */
#define PROBE_TEXT_LINES (1 << 20)

void probe_text_init(struct probe_text *t)
{
	*t = (struct probe_text){ 0 };
	repetition_init(&t->said, PROBE_TEXT_LINES);
}

void probe_text_fini(struct probe_text *t)
{
	buf_fini(&t->text);
	repetition_fini(&t->said);
}

void probe_text_put(struct probe_text *t, const char *text, size_t len)
{
	buf_add(&t->text, text, len);
	repetition_put(&t->said, text, len);
}

double probe_text_gzip(const struct probe_text *t, size_t from, size_t to)
{
	must(from <= to && to <= t->text.len);
	return from == to ? 1 : (double)gzip_size(t->text.data + from, to - from) / (double)(to - from);
}

void probe_text_figures(const struct probe_text *t, struct probe_figures *ret_f)
{
	repetition_now(&t->said, &ret_f->said);
	ret_f->gzip = probe_text_gzip(t, 0, t->text.len);
}
