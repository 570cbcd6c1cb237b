/* SPDX-License-Identifier: MIT
 * numerics.c - the numerics parameters: table, parsing, and their meaning for ops.
 * Threads: any. Locks: none. */
#include "engine/kernels/numerics.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct numerics_row numerics_table[] = {
#define NUMERIC(name, choices, native, exact, text) { #name, choices, text, offsetof(struct numerics, name) },
#include "engine/kernels/numerics.def"
#undef NUMERIC
};
const int numerics_count = mem_countof(numerics_table);

static int32_t *numerics_field(struct numerics *n, const struct numerics_row *row)
{
	return (int32_t *)((char *)n + row->offset);
}

static int32_t numerics_value(const struct numerics *n, const struct numerics_row *row)
{
	return *(const int32_t *)((const char *)n + row->offset);
}

void numerics_init(struct numerics *n, enum numerics_profile p, int config_topk)
{
	static const int32_t value[][2] = {
#define NUMERIC(name, choices, native, exact, text) { native, exact },
#include "engine/kernels/numerics.def"
#undef NUMERIC
	};

	for (int i = 0; i < numerics_count; i++)
		*numerics_field(n, &numerics_table[i]) = value[i][p == NUMERICS_EXACT];
	n->index_topk = config_topk;
}

/* ---- words ---- */

/* The index of a word in "a|b|c", or -1. */
static int numerics_find_word(const char *choices, const char *word)
{
	size_t len = strlen(word);

	for (int i = 0; *choices; i++) {
		size_t n = strcspn(choices, "|");

		if (n == len && memcmp(choices, word, n) == 0)
			return i;
		choices += n + (choices[n] == '|');
	}
	return -1;
}

static const char *numerics_word(const char *choices, int index, size_t *ret_len)
{
	while (index-- > 0)
		choices += strcspn(choices, "|") + 1;
	*ret_len = strcspn(choices, "|");
	return choices;
}

/* Is the parameter a whole number, and within which bounds? */
static bool numerics_range(const struct numerics_row *row, long *ret_min, long *ret_max)
{
	return sscanf(row->choices, "int %ld %ld", ret_min, ret_max) == 2;
}

static int numerics_parse(const struct numerics_row *row, const char *text, int32_t *ret_value)
{
	long min, max, v;
	char *end;

	if (!numerics_range(row, &min, &max)) {
		v = numerics_find_word(row->choices, text);
		*ret_value = (int32_t)v;
		return v < 0 ? RC_INVALID : 0;
	}
	if (text[0] < '0' || text[0] > '9')
		return RC_INVALID;
	errno = 0;
	v = strtol(text, &end, 10);
	if (errno || *end || v < min || v > max)
		return RC_INVALID;
	*ret_value = (int32_t)v;
	return 0;
}

/* ---- get and set ---- */

const struct numerics_row *numerics_find(const char *name, size_t len)
{
	for (int i = 0; i < numerics_count; i++)
		if (strlen(numerics_table[i].name) == len && memcmp(numerics_table[i].name, name, len) == 0)
			return &numerics_table[i];
	return NULL;
}

static void numerics_names(struct buf *out)
{
	for (int i = 0; i < numerics_count; i++)
		buf_printf(out, "%s%s", i ? ", " : "", numerics_table[i].name);
}

static int numerics_bad_value(const struct numerics_row *row, const char *value, struct buf *why)
{
	long min, max;

	if (numerics_range(row, &min, &max))
		return buf_why(why, RC_INVALID, "%s: \"%.96s\" is not a whole number from %ld to %ld",
			row->name, value, min, max);
	return buf_why(why, RC_INVALID, "%s: \"%.96s\" is none of %s", row->name, value, row->choices);
}

int numerics_set(struct numerics *n, const char *name, const char *value, struct buf *why)
{
	const struct numerics_row *row = numerics_find(name, strlen(name));
	struct buf names = { 0 };
	int32_t v;
	int rc;

	if (row && numerics_parse(row, value, &v) < 0)
		return numerics_bad_value(row, value, why);
	if (row) {
		*numerics_field(n, row) = v;
		return 0;
	}
	numerics_names(&names);
	rc = buf_why(why, RC_NOT_FOUND, "no parameter \"%.96s\"; there are: %s", name, buf_str(&names));
	buf_fini(&names);
	return rc;
}

const char *numerics_get(const struct numerics *n, const struct numerics_row *row, char out[32])
{
	int32_t v = numerics_value(n, row);
	long min, max;
	size_t len;

	if (numerics_range(row, &min, &max)) {
		snprintf(out, 32, "%d", v);
	} else {
		const char *word = numerics_word(row->choices, v, &len);

		snprintf(out, 32, "%.*s", (int)len, word);
	}
	return out;
}

/* ---- meaning ---- */

static enum dsv4_round numerics_round(int32_t word, const enum dsv4_round *table, size_t n)
{
	must(word >= 0 && (size_t)word < n);
	return table[word];
}

enum dsv4_round numerics_index_round(const struct numerics *n)
{
	static const enum dsv4_round r[] = { DSV4_ROUND_FP4, DSV4_ROUND_FP8, DSV4_ROUND_BF16,
		DSV4_ROUND_NONE };

	return numerics_round(n->index_key, r, mem_countof(r));
}

enum dsv4_round numerics_kv_round(const struct numerics *n)
{
	static const enum dsv4_round r[] = { DSV4_ROUND_FP8, DSV4_ROUND_BF16, DSV4_ROUND_NONE };

	return numerics_round(n->kv_format, r, mem_countof(r));
}

enum dsv4_act numerics_act(const struct numerics *n)
{
	return n->act_quant == 0 ? DSV4_ACT_FP8 : DSV4_ACT_NONE;
}

enum dsv4_prec numerics_mhc(const struct numerics *n)
{
	return n->mhc_precision == 0 ? DSV4_PREC_FP32 : DSV4_PREC_BF16;
}

enum dsv4_prec numerics_attn(const struct numerics *n)
{
	return n->attn_scores == 0 ? DSV4_PREC_FP32 : DSV4_PREC_BF16;
}

bool numerics_scale_output(const struct numerics *n)
{
	return n->routed_scaling == 1;
}

bool numerics_same_state(const struct numerics *a, const struct numerics *b)
{
	struct numerics c = *a;

	c.drop_thinking = b->drop_thinking;
	return memcmp(&c, b, sizeof c) == 0;
}
