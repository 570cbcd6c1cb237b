/* SPDX-License-Identifier: MIT
 * pretok_regex.c - rewrites a pattern of tokenizer.json, in Oniguruma's syntax with Unicode 16, for PCRE2.
 * Threads: any. Locks: none. */
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/text/pretok.h"

#include <ctype.h>
#include <string.h>

/* \s in Oniguruma is the property White_Space; PCRE2's has U+180E besides. */
#define PRETOK_SPACE \
	"\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}" \
	"\\x{3000}"

struct pretok_recent {
	const char category[3], *range;
};

static const struct pretok_recent pretok_recent[] = {
#define RECENT(category, first, last) { #category, "\\x{" #first "}-\\x{" #last "}" },
#include "engine/text/unicode_recent.def"
#undef RECENT
};

struct pretok_rewrite {
	const char *p, *end;
	struct buf *out, *why;
	bool in_class;
};

static int pretok_unsupported(struct pretok_rewrite *w, const char *what)
{
	return buf_why(w->why, RC_MODEL, "%s is not supported in a pattern", what);
}

/* Writes the members of a class, in brackets when it does not stand in brackets already. */
static void pretok_members(struct pretok_rewrite *w, const char *open, const char *members)
{
	buf_printf(w->out, w->in_class ? "%.0s%s" : "%s%s]", open, members);
}

/* After "\p" or "\P": a general category is written with the characters it gained since PCRE2's Unicode. */
static int pretok_property(struct pretok_rewrite *w, bool negated)
{
	const char *close = w->p < w->end && *w->p == '{' ? memchr(w->p, '}', (size_t)(w->end - w->p)) : NULL;
	struct buf set = { 0 };
	char name[64];
	size_t len;

	if (!close || (len = (size_t)(close - w->p) - 1) == 0 || len >= sizeof name || w->p[1] == '^')
		return pretok_unsupported(w, "\\p without a name in braces");
	memcpy(name, w->p + 1, len);
	name[len] = '\0';
	w->p = close + 1;
	buf_printf(&set, "\\p{%s}", name);
	for (size_t i = 0; len <= 2 && i < mem_countof(pretok_recent); i++)
		if (strncmp(pretok_recent[i].category, name, len) == 0)
			buf_adds(&set, pretok_recent[i].range);
	if (negated && w->in_class) /* no way to write the complement of several ranges inside brackets */
		buf_printf(w->out, "\\P{%s}", name);
	else
		pretok_members(w, negated ? "[^" : "[", buf_str(&set));
	buf_fini(&set);
	return 0;
}

/* After a backslash. Only what means the same in both syntaxes passes as it is. */
static int pretok_escape(struct pretok_rewrite *w)
{
	char c = w->p < w->end ? *w->p++ : 'E';

	if (c == 'p' || c == 'P')
		return pretok_property(w, c == 'P');
	if (c == 's')
		pretok_members(w, "[", PRETOK_SPACE);
	else if (c == 'S' && !w->in_class)
		pretok_members(w, "[^", PRETOK_SPACE);
	else if (c == 'u' && w->end - w->p >= 4) {
		buf_printf(w->out, "\\x{%.4s}", w->p);
		w->p += 4;
	} else if (strchr("rntfvadDwWSbBAzZx", c) || !isalnum((unsigned char)c))
		buf_printf(w->out, "\\%c", c);
	else
		return pretok_unsupported(w, "this escape");
	return 0;
}

/* After "[". */
static int pretok_class(struct pretok_rewrite *w)
{
	w->in_class = true;
	buf_addc(w->out, '[');
	if (w->p < w->end && *w->p == '^')
		buf_addc(w->out, *w->p++);
	return w->p < w->end && *w->p == ']' ? pretok_unsupported(w, "a class that begins with ]") : 0;
}

int pretok_regex(const char *pattern, size_t len, struct buf *out, struct buf *why)
{
	struct pretok_rewrite w = { pattern, pattern + len, out, why, false };
	int rc = 0;

	while (rc == 0 && w.p < w.end) {
		char c = *w.p++;

		if (c == '\\') {
			rc = pretok_escape(&w);
			continue;
		}
		if (w.in_class && (c == '[' || (c == '&' && w.p < w.end && *w.p == '&')))
			rc = pretok_unsupported(&w, "a class inside a class");
		else if (c == '(' && w.p < w.end && *w.p == '*')
			rc = pretok_unsupported(&w, "(*");
		else if (!w.in_class && c == '[')
			rc = pretok_class(&w);
		else
			buf_addc(out, c);
		if (c == ']')
			w.in_class = false;
	}
	return rc;
}
