/* SPDX-License-Identifier: MIT
 * added.c - finds added tokens in text: the leftmost, and of those the longest.
 * Threads: any, read-only after loading. Locks: none. */
#include "engine/text/added.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

#include <stdlib.h>
#include <string.h>

void added_fini(struct added *a)
{
	for (int i = 0; i < a->n; i++)
		free(a->token[i].text);
	free(a->token);
	*a = (struct added){ 0 };
}

void added_add(struct added *a, const char *text, size_t len, int32_t id)
{
	must(len > 0 && len <= ADDED_MAX_LEN && a->n < ADDED_MAX);
	if (a->n == a->cap) {
		a->cap = a->cap ? a->cap * 2 : 64;
		a->token = mem_grow(a->token, (size_t)a->cap, sizeof *a->token);
	}
	a->token[a->n++] = (struct added_token){ mem_strndup(text, len), len, id };
	a->starts[(unsigned char)text[0]] = true;
}

static int added_compare(const void *a, const void *b)
{
	const struct added_token *x = a, *y = b;
	int c = memcmp(x->text, y->text, x->len < y->len ? x->len : y->len);

	return c ? c : (x->len > y->len) - (x->len < y->len);
}

void added_sort(struct added *a)
{
	if (a->n > 0)
		qsort(a->token, (size_t)a->n, sizeof *a->token, added_compare);
}

int32_t added_id(const struct added *a, const char *text, size_t len)
{
	const struct added_token key = { (char *)text, len, -1 }, *found = NULL;

	if (a->n > 0)
		found = bsearch(&key, a->token, (size_t)a->n, sizeof *a->token, added_compare);
	return found ? found->id : -1;
}

/* The first token in [low, high), all longer than depth, whose byte at depth is at least c. */
static int added_lower(const struct added *a, int low, int high, size_t depth, int c)
{
	while (low < high) {
		int mid = low + (high - low) / 2;

		if ((unsigned char)a->token[mid].text[depth] < c)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* The longest token that s begins with. Narrows the sorted tokens to those that agree, one byte at a time. */
static const struct added_token *added_longest(const struct added *a, const char *s, size_t len)
{
	const struct added_token *best = NULL;
	int low = 0, high = a->n;

	for (size_t depth = 0; depth < len; depth++) {
		int c = (unsigned char)s[depth];

		low = added_lower(a, low, high, depth, c);
		high = added_lower(a, low, high, depth, c + 1);
		if (low < high && a->token[low].len == depth + 1)
			best = &a->token[low++]; /* the shortest of a prefix sorts first */
		if (low == high)
			break;
	}
	return best;
}

const struct added_token *added_search(const struct added *a, const char *s, size_t len, size_t from,
				       size_t *ret_at)
{
	for (size_t i = from; i < len; i++) {
		const struct added_token *t;

		if (!a->starts[(unsigned char)s[i]])
			continue;
		t = added_longest(a, s + i, len - i);
		if (t) {
			*ret_at = i;
			return t;
		}
	}
	return NULL;
}
