/* SPDX-License-Identifier: MIT
 * cache_diff.c - the reply of Cache.Diff, tensor by tensor: made by the daemon of blocks, by dsv4ctl of files.
 * Threads: any, one at a time per object. Locks: none. */
#include "ctl/cache_diff.h"
#include "engine/base/must.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void cache_diff_set(json_t *o, const char *key, json_t *v)
{
	must(v && json_object_set_new(o, key, v) == 0);
}

/* JSON has no infinity. */
static json_t *cache_diff_real(double x)
{
	return isfinite(x) ? json_real(x) : json_null();
}

/* Digits enough to tell any two apart, and the bits: of NaNs and zeroes there are several. */
static json_t *cache_diff_value(float x)
{
	char text[48];
	uint32_t bits;

	memcpy(&bits, &x, sizeof bits);
	snprintf(text, sizeof text, "%.9g (0x%08x)", (double)x, (unsigned)bits);
	return json_string(text);
}

/* N of "layers.N.rows_kv"; -1 for other names. */
static int cache_diff_layer(const char *name)
{
	int layer;

	return sscanf(name, "layers.%d.", &layer) == 1 ? layer : -1;
}

static json_t *cache_diff_where(const char *name, const struct rowdiff *d)
{
	json_t *o = json_object();

	cache_diff_set(o, "tensor", json_string(name));
	cache_diff_set(o, "layer", json_integer(cache_diff_layer(name)));
	cache_diff_set(o, "row", json_integer(d->row));
	cache_diff_set(o, "element", json_integer(d->element));
	cache_diff_set(o, "a", cache_diff_value(d->a));
	cache_diff_set(o, "b", cache_diff_value(d->b));
	return o;
}

void cache_diff_add(struct cache_diff *x, const char *name, int64_t rows_a, int64_t rows_b, int64_t compared,
	const struct rowdiff *d)
{
	json_t *o = json_object();
	bool equal = rows_a == rows_b && compared == rows_a && d->differ == 0;

	cache_diff_set(o, "name", json_string(name));
	cache_diff_set(o, "rows_a", json_integer(rows_a));
	cache_diff_set(o, "rows_b", json_integer(rows_b));
	cache_diff_set(o, "compared", json_integer(compared));
	cache_diff_set(o, "values", json_integer(d->values));
	cache_diff_set(o, "differing", json_integer(d->differ));
	cache_diff_set(o, "max", cache_diff_real(d->max_abs));
	cache_diff_set(o, "relative", cache_diff_real(rowdiff_relative(d)));
	if (d->differ)
		cache_diff_set(o, "first", cache_diff_where(name, d));
	if (d->differ && !x->first)
		x->first = cache_diff_where(name, d);
	if (!x->tensors)
		x->tensors = json_array();
	must(json_array_append_new(x->tensors, o) == 0);
	x->n_equal += equal;
	x->n_other += !equal;
}

bool cache_diff_same(const struct cache_diff *x)
{
	return x->n_other == 0;
}

void cache_diff_take(struct cache_diff *x, json_t *reply)
{
	if (x->first)
		cache_diff_set(reply, "first", x->first);
	cache_diff_set(reply, "equal", json_integer(x->n_equal));
	cache_diff_set(reply, "tensors", x->tensors ? x->tensors : json_array());
	*x = (struct cache_diff){ 0 };
}

void cache_diff_fini(struct cache_diff *x)
{
	json_decref(x->tensors);
	json_decref(x->first);
	*x = (struct cache_diff){ 0 };
}
