/* SPDX-License-Identifier: MIT
 * mend.c - text of JSON that this server says or hears, but its parser does not take, as the nearest that it does.
 * Threads: any. Locks: none. */
#include "api/http/mend.h"

#include <stdint.h>
#include <string.h>

#define MEND_INTEGER "9223372036854775807" /* one more fits where there is a minus */
#define MEND_ESCAPE 6 /* \uXXXX */

/* Where the text is, and what of it is written. */
struct mend {
	const char *s;
	size_t len, at, written;
	struct buf *out;
	bool mended;
};

/* Everything up to `end` as it is, then `text`; goes on after `end`, or `skip` bytes later. */
static void mend_put(struct mend *m, size_t end, const char *text, size_t skip)
{
	buf_add(m->out, m->s + m->written, end - m->written);
	buf_adds(m->out, text);
	m->written = m->at = end + skip;
	m->mended = true;
}

static int mend_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 :
		c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The character of the \uXXXX at `at`; -1: there is none. */
static int mend_character(const struct mend *m, size_t at)
{
	int v = 0;

	if (at > m->len || m->len - at < MEND_ESCAPE || m->s[at] != '\\' || m->s[at + 1] != 'u')
		return -1;
	for (size_t i = at + 2; i < at + MEND_ESCAPE; i++) {
		int d = mend_digit(m->s[i]);

		if (d < 0)
			return -1;
		v = v * 16 + d;
	}
	return v;
}

static bool mend_is_surrogate(int c, int first)
{
	return c >= first && c < first + 0x400;
}

static void mend_escape(struct mend *m)
{
	int c = mend_character(m, m->at);
	bool high = mend_is_surrogate(c, 0xd800);

	if (c < 0)
		m->at += 2;
	else if (high && mend_is_surrogate(mend_character(m, m->at + MEND_ESCAPE), 0xdc00))
		m->at += 2 * MEND_ESCAPE;
	else if (c == 0 || high || mend_is_surrogate(c, 0xdc00))
		mend_put(m, m->at, "\\ufffd", MEND_ESCAPE);
	else
		m->at += MEND_ESCAPE;
}

static void mend_string(struct mend *m)
{
	m->at++;
	while (m->at < m->len && m->s[m->at] != '"') {
		if (m->s[m->at] == '\\')
			mend_escape(m);
		else
			m->at++;
	}
	m->at++;
}

static bool mend_in_number(char c)
{
	return (c >= '0' && c <= '9') || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-';
}

static void mend_number(struct mend *m)
{
	const char *s = m->s + m->at, *most = MEND_INTEGER;
	size_t end = m->at, n, digits = strlen(most);
	bool minus = *s == '-', whole = true;
	int past;

	for (; end < m->len && mend_in_number(m->s[end]); end++)
		whole &= end == m->at || (m->s[end] >= '0' && m->s[end] <= '9');
	s += minus;
	n = end - m->at - minus;
	past = n == digits ? memcmp(s, most, digits) : n > digits;
	if (past > 0 && minus && n == digits && !memcmp(s, "9223372036854775808", digits))
		past = 0;
	m->at = end;
	if (whole && past > 0)
		mend_put(m, end, ".0", 0);
}

bool mend_json(const char *s, size_t len, struct buf *out)
{
	struct mend m = { .s = s, .len = len, .out = out };

	while (m.at < len) {
		if (s[m.at] == '"')
			mend_string(&m);
		else if (s[m.at] == '-' || (s[m.at] >= '0' && s[m.at] <= '9'))
			mend_number(&m);
		else
			m.at++;
	}
	if (m.mended)
		buf_add(out, s + m.written, len - m.written);
	return m.mended;
}
