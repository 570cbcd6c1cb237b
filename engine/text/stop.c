/* SPDX-License-Identifier: MIT
 * stop.c - finds stop strings in text that comes in pieces, and holds back only what may begin one.
 * Threads: one at a time per object. Locks: none. */
#include "engine/text/stop.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/gen.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* One pattern with its failure table (Knuth, Morris, Pratt): linear time whatever the text. */
struct stop_pattern {
	char *text;
	size_t len, matched;
	uint16_t *fail; /* [len]: longest proper border of text[0..i] */
};

struct stop_match {
	struct stop_pattern p[GEN_MAX_STOPS];
	int n;
	int found;       /* index of the one found; -1 */
	struct buf held; /* the longest suffix of the text that begins a pattern */
};

_Static_assert(STOP_MAX_BYTES < UINT16_MAX, "failure tables hold lengths in 16 bits");

static void stop_pattern_init(struct stop_pattern *p, const char *text, size_t len)
{
	size_t i, k = 0;

	p->text = mem_strndup(text, len);
	p->len = len;
	p->fail = mem_new(len * sizeof *p->fail);
	for (i = 1; i < len; i++) {
		while (k > 0 && text[i] != text[k])
			k = p->fail[k - 1];
		if (text[i] == text[k])
			k++;
		p->fail[i] = (uint16_t)k;
	}
}

static void stop_pattern_step(struct stop_pattern *p, char c)
{
	while (p->matched > 0 && p->text[p->matched] != c)
		p->matched = p->fail[p->matched - 1];
	if (p->text[p->matched] == c)
		p->matched++;
}

int stop_match_new(const char *const *stop, int n, struct stop_match **ret_m, struct buf *why)
{
	struct stop_match *m;
	int i;

	if (n > GEN_MAX_STOPS)
		return buf_why(why, RC_INVALID, "stop: %d strings, at most %d are allowed", n, GEN_MAX_STOPS);
	for (i = 0; i < n; i++) {
		size_t len = strlen(stop[i]);

		if (len == 0)
			return buf_why(why, RC_INVALID, "stop[%d]: is empty", i);
		if (len > STOP_MAX_BYTES)
			return buf_why(why, RC_INVALID, "stop[%d]: %zu bytes, at most %d are allowed", i, len,
				STOP_MAX_BYTES);
	}
	m = mem_new(sizeof *m);
	m->n = n;
	m->found = -1;
	for (i = 0; i < n; i++)
		stop_pattern_init(&m->p[i], stop[i], strlen(stop[i]));
	*ret_m = m;
	return 0;
}

void stop_match_free(struct stop_match **m)
{
	int i;

	if (!*m)
		return;
	for (i = 0; i < (*m)->n; i++) {
		free((*m)->p[i].text);
		free((*m)->p[i].fail);
	}
	buf_fini(&(*m)->held);
	free(*m);
	*m = NULL;
}

/* Appends held text but for its last `keep` bytes. */
static void stop_match_release(struct stop_match *m, size_t keep, struct buf *out)
{
	size_t n = m->held.len - keep;

	buf_add(out, m->held.data, n);
	buf_drop(&m->held, n);
}

bool stop_match_put(struct stop_match *m, const char *text, size_t len, struct buf *out)
{
	size_t i, keep = 0, hit;
	int k;

	for (i = 0; i < len; i++) {
		buf_addc(&m->held, text[i]);
		for (k = 0, keep = 0, hit = 0; k < m->n; k++) {
			struct stop_pattern *p = &m->p[k];

			stop_pattern_step(p, text[i]);
			if (p->matched > keep)
				keep = p->matched;
			if (p->matched == p->len && p->len > hit) {
				hit = p->len;
				m->found = k;
			}
		}
		if (hit) {
			stop_match_release(m, hit, out);
			buf_clear(&m->held);
			return true;
		}
		/* Released in strides, for the buffer moves its bytes. */
		if (m->held.len > 2 * STOP_MAX_BYTES)
			stop_match_release(m, keep, out);
	}
	if (m->held.len)
		stop_match_release(m, keep, out);
	return false;
}

int stop_match_found(const struct stop_match *m)
{
	return m->found;
}

void stop_match_flush(struct stop_match *m, struct buf *out)
{
	int k;

	for (k = 0; k < m->n; k++)
		m->p[k].matched = 0;
	stop_match_release(m, 0, out);
}
