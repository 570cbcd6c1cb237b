/* SPDX-License-Identifier: MIT
 * numerics.h - the numerics parameters of one request (numerics.def), as plain values.
 * Threads: any. Locks: none. */
#ifndef ENGINE_NUMERICS_H
#define ENGINE_NUMERICS_H

#include "engine/base/buf.h"
#include "plugins/dsv4_plugin.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One int32 per parameter: the number, or the index of the word in its choices. */
struct numerics {
#define NUMERIC(name, choices, native, exact, text) int32_t name;
#include "engine/kernels/numerics.def"
#undef NUMERIC
};

enum numerics_profile { NUMERICS_NATIVE, NUMERICS_EXACT };

struct numerics_row {
	const char *name, *choices, *text;
	size_t offset;     /* of the field in struct numerics */
};
extern const struct numerics_row numerics_table[];
extern const int numerics_count;
/* The row of this name, of len bytes; NULL when there is none. */
const struct numerics_row *numerics_find(const char *name, size_t len);

/* config_topk: index_topk of config.json. */
void numerics_init(struct numerics *n, enum numerics_profile p, int config_topk);
/* RC_NOT_FOUND for an unknown name, RC_INVALID for a bad value; why names both and the choices. */
int numerics_set(struct numerics *n, const char *name, const char *value, struct buf *why);
/* The value as text; returns out (32 bytes). */
const char *numerics_get(const struct numerics *n, const struct numerics_row *row, char out[32]);

/* The words as the plugin ABI's values. */
enum dsv4_round numerics_index_round(const struct numerics *n);
enum dsv4_round numerics_kv_round(const struct numerics *n);
enum dsv4_act numerics_act(const struct numerics *n);
enum dsv4_prec numerics_mhc(const struct numerics *n);
enum dsv4_prec numerics_attn(const struct numerics *n);
/* Is the routed scaling factor applied to the output, not to the weights? */
bool numerics_scale_output(const struct numerics *n);
/* Do a and b give the same numbers for the same tokens? (All but drop_thinking.) */
bool numerics_same_state(const struct numerics *a, const struct numerics *b);

#endif
