/* SPDX-License-Identifier: MIT
 * model_config.c - config.json of a checkpoint, checked (doc/format.md 1).
 * Threads: any. Locks: none. */
#include "engine/checkpoint/model_config.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/checkpoint/model_config_priv.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODEL_CONFIG_MAX_BYTES (1 << 20)

enum model_config_kind {
	KIND_INT, KIND_REAL, KIND_IS_INT, KIND_IS_BOOL, KIND_IS_TEXT, KIND_CHECKED, KIND_IGNORED
};

struct model_config_row {
	const char *name;
	enum model_config_kind kind;
	size_t offset, size;    /* INT, REAL: the field, int or float or double */
	double min, max;
	int is;                 /* IS_INT, IS_BOOL */
	const char *text;       /* IS_TEXT */
};

#define FIELD(f) offsetof(struct model_config, f), sizeof(((struct model_config *)NULL)->f)
static const struct model_config_row model_config_table[] = {
#define INT(name, field, lo, hi) { name, KIND_INT, FIELD(field), lo, hi, 0, NULL },
#define REAL(name, field, lo, hi) { name, KIND_REAL, FIELD(field), lo, hi, 0, NULL },
#define IS_INT(name, v) { name, KIND_IS_INT, 0, 0, 0, 0, v, NULL },
#define IS_BOOL(name, v) { name, KIND_IS_BOOL, 0, 0, 0, 0, v, NULL },
#define IS_TEXT(name, v) { name, KIND_IS_TEXT, 0, 0, 0, 0, 0, v },
#define CHECKED(name) { name, KIND_CHECKED, 0, 0, 0, 0, 0, NULL },
#define IGNORED(name) { name, KIND_IGNORED, 0, 0, 0, 0, 0, NULL },
#include "engine/checkpoint/model_config.def"
#undef INT
#undef REAL
#undef IS_INT
#undef IS_BOOL
#undef IS_TEXT
#undef CHECKED
#undef IGNORED
};

/* ---- errors: all name the field, what was expected and what was found ---- */

const char *model_config_show(const json_t *v, char out[64])
{
	char *s = v ? json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;

	strncpy(out, s ? s : "nothing", 63);
	out[63] = '\0';
	if (s && strlen(s) > 63)
		memcpy(out + 60, "...", 4);
	free(s);
	return out;
}

static int model_config_bad(struct buf *why, int rc, const char *field, const char *expected,
			    const json_t *found)
{
	char text[64];

	return buf_why(why, rc, "config.json: %s: expected %s, found %s", field, expected,
		       model_config_show(found, text));
}

/* ---- numbers ---- */

static int model_config_int(const json_t *o, const char *path, const struct model_config_row *row,
			    int *ret_v, struct buf *why)
{
	const json_t *v = json_object_get(o, row->name);
	char expected[96], field[96];

	if (json_is_integer(v) && json_integer_value(v) >= (json_int_t)row->min &&
	    json_integer_value(v) <= (json_int_t)row->max) {
		*ret_v = (int)json_integer_value(v);
		return 0;
	}
	snprintf(expected, sizeof expected, "an integer from %.0f to %.0f", row->min, row->max);
	snprintf(field, sizeof field, "%s%s", path, row->name);
	return model_config_bad(why, RC_MODEL, field, expected, v);
}

static int model_config_real(const json_t *o, const char *path, const struct model_config_row *row,
			     double *ret_v, struct buf *why)
{
	const json_t *v = json_object_get(o, row->name);
	char expected[96], field[96];

	if (json_is_number(v) && json_number_value(v) >= row->min && json_number_value(v) <= row->max) {
		*ret_v = json_number_value(v);
		return 0;
	}
	snprintf(expected, sizeof expected, "a number from %g to %g", row->min, row->max);
	snprintf(field, sizeof field, "%s%s", path, row->name);
	return model_config_bad(why, RC_MODEL, field, expected, v);
}

/* Stores the number that a row describes; `path` is where `o` stands in the file, for messages. */
static int model_config_store(const json_t *o, const char *path, const struct model_config_row *row,
			      struct model_config *c, struct buf *why)
{
	char *field = (char *)c + row->offset;
	double real = 0;
	float narrow;
	int rc, n = 0;

	if (row->kind == KIND_INT) {
		rc = model_config_int(o, path, row, &n, why);
		if (rc == 0)
			memcpy(field, &n, sizeof n);
		return rc;
	}
	rc = model_config_real(o, path, row, &real, why);
	narrow = (float)real;
	if (rc == 0)
		memcpy(field, row->size == sizeof narrow ? (void *)&narrow : (void *)&real, row->size);
	return rc;
}

/* ---- fields with one value that this engine computes ---- */

static int model_config_is(const json_t *o, const struct model_config_row *row, struct buf *why)
{
	const json_t *v = json_object_get(o, row->name);
	char expected[64];
	bool same;

	if (!v || json_is_null(v))
		return 0;
	if (row->kind == KIND_IS_INT)
		same = json_is_integer(v) && json_integer_value(v) == row->is;
	else if (row->kind == KIND_IS_BOOL)
		same = json_is_boolean(v) && json_boolean_value(v) == (row->is != 0);
	else
		same = json_is_string(v) && strcmp(json_string_value(v), row->text) == 0;
	if (same)
		return 0;
	if (row->kind == KIND_IS_TEXT)
		snprintf(expected, sizeof expected, "\"%s\"", row->text);
	else if (row->kind == KIND_IS_BOOL)
		snprintf(expected, sizeof expected, "%s", row->is ? "true" : "false");
	else
		snprintf(expected, sizeof expected, "%d", row->is);
	return model_config_bad(why, RC_UNSUPPORTED, row->name, expected, v);
}

static bool model_config_neutral(const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_NULL:
	case JSON_FALSE:
		return true;
	case JSON_INTEGER:
	case JSON_REAL:
		return json_number_value(v) == 0;
	case JSON_STRING:
		return json_string_length(v) == 0;
	case JSON_ARRAY:
		return json_array_size(v) == 0;
	case JSON_OBJECT:
		return json_object_size(v) == 0;
	default:
		return false;
	}
}

static int model_config_unknown(json_t *o, struct buf *why)
{
	const char *name;
	char text[64];
	json_t *v;
	size_t i;

	json_object_foreach(o, name, v) {
		for (i = 0; i < mem_countof(model_config_table); i++)
			if (strcmp(name, model_config_table[i].name) == 0)
				break;
		if (i < mem_countof(model_config_table) || name[0] == '_' || model_config_neutral(v))
			continue;
		return buf_why(why, RC_UNSUPPORTED,
			       "config.json: %.80s: unknown field with value %s; it may change "
			       "numbers (remove it if it does not)",
			       name, model_config_show(v, text));
	}
	return 0;
}

/* ---- fields with structure ---- */

static int model_config_type(const json_t *o, struct buf *why)
{
	const json_t *type = json_object_get(o, "model_type"), *arch = json_object_get(o, "architectures");

	if (!json_is_string(type) || strcmp(json_string_value(type), "deepseek_v4") != 0)
		return model_config_bad(why, RC_UNSUPPORTED, "model_type", "\"deepseek_v4\"", type);
	if (!arch || json_is_null(arch))
		return 0;
	type = json_array_get(arch, 0);
	if (json_array_size(arch) != 1 || !json_is_string(type) ||
	    strcmp(json_string_value(type), "DeepseekV4ForCausalLM") != 0)
		return model_config_bad(why, RC_UNSUPPORTED, "architectures", "[\"DeepseekV4ForCausalLM\"]",
					arch);
	return 0;
}

static int model_config_ratios(const json_t *o, struct model_config *c, struct buf *why)
{
	const json_t *list = json_object_get(o, "compress_ratios");
	size_t i, n = json_array_size(list), layers = (size_t)c->n_layers;
	char field[64];

	if (n < layers || n > layers + MODEL_MAX_MTP) {
		snprintf(field, sizeof field, "an array of %zu to %zu ratios", layers,
			 layers + MODEL_MAX_MTP);
		return model_config_bad(why, RC_MODEL, "compress_ratios", field, list);
	}
	for (i = 0; i < n; i++) {
		const json_t *v = json_array_get(list, i);
		json_int_t r = json_is_integer(v) ? json_integer_value(v) : -1;

		if (r == 0 || (i < layers && (r == 4 || r == 128))) {
			c->compress_ratio[i] = (int)r;
			continue;
		}
		snprintf(field, sizeof field, "compress_ratios[%zu]", i);
		return model_config_bad(why, RC_UNSUPPORTED, field, i < layers ? "0, 4 or 128" : "0", v);
	}
	return 0;
}

static const struct model_config_row model_config_yarn_table[] = {
	{ "factor", KIND_REAL, FIELD(yarn_factor), 1, 1e6, 0, NULL },
	{ "beta_fast", KIND_REAL, FIELD(yarn_beta_fast), 1e-3, 1e6, 0, NULL },
	{ "beta_slow", KIND_REAL, FIELD(yarn_beta_slow), 1e-3, 1e6, 0, NULL },
	{ "original_max_position_embeddings", KIND_INT, FIELD(yarn_original_context), 1, 1 << 26, 0, NULL },
};

/* Is this field of rope_scaling one of the four numbers, or a value that leaves YaRN as doc/format.md 3.4 has it?
 */
static bool model_config_yarn_field(const char *name, const json_t *v)
{
	static const char *const one[] = { "attention_factor", "mscale", "mscale_all_dim" };
	size_t i;

	for (i = 0; i < mem_countof(model_config_yarn_table); i++)
		if (strcmp(name, model_config_yarn_table[i].name) == 0)
			return true;
	for (i = 0; i < mem_countof(one); i++)
		if (strcmp(name, one[i]) == 0 && json_number_value(v) == 1)
			return true;
	if (strcmp(name, "type") == 0 || strcmp(name, "rope_type") == 0)
		return json_is_string(v) && strcmp(json_string_value(v), "yarn") == 0;
	return json_is_null(v) || (strcmp(name, "truncate") == 0 && json_is_true(v));
}

static int model_config_yarn_fields(json_t *yarn, struct buf *why)
{
	const char *name;
	char text[64];
	json_t *v;

	if (!json_object_get(yarn, "type") && !json_object_get(yarn, "rope_type"))
		return model_config_bad(why, RC_UNSUPPORTED, "rope_scaling.type", "\"yarn\"", NULL);
	json_object_foreach(yarn, name, v) {
		if (!model_config_yarn_field(name, v))
			return buf_why(why, RC_UNSUPPORTED,
				       "config.json: rope_scaling.%.60s: expected plain YaRN, found %s", name,
				       model_config_show(v, text));
	}
	return 0;
}

/* Without rope_scaling the compressed layers' positions are unscaled: factor 1. */
static int model_config_yarn(const json_t *o, struct model_config *c, struct buf *why)
{
	json_t *yarn = json_object_get(o, "rope_scaling");
	size_t i;
	int rc;

	c->yarn_factor = 1;
	c->yarn_beta_fast = 32;
	c->yarn_beta_slow = 1;
	c->yarn_original_context = c->max_context;
	if (!yarn || json_is_null(yarn))
		return 0;
	if (!json_is_object(yarn))
		return model_config_bad(why, RC_MODEL, "rope_scaling", "an object", yarn);
	rc = model_config_yarn_fields(yarn, why);
	for (i = 0; rc == 0 && i < mem_countof(model_config_yarn_table); i++)
		rc = model_config_store(yarn, "rope_scaling.", &model_config_yarn_table[i], c, why);
	return rc;
}

/* Formats come from the tensors' dtypes; what is checked here is what dtypes cannot tell. */
static int model_config_quant(const json_t *o, struct buf *why)
{
	static const char *const rows[][2] = {
		{ "fmt", "\"e4m3\"" }, { "activation_scheme", "\"dynamic\"" },
		{ "weight_block_size", "[128,128]" }, { "group_size", "16" },
	};
	const json_t *q = json_object_get(o, "quantization_config"), *v;
	char field[64];
	json_t *only;
	bool same;
	size_t i;

	if (!q || json_is_null(q))
		return 0;
	if (!json_is_object(q))
		return model_config_bad(why, RC_MODEL, "quantization_config", "an object", q);
	for (i = 0; i < mem_countof(rows); i++) {
		v = json_object_get(q, rows[i][0]);
		if (!v || json_is_null(v))
			continue;
		only = json_loads(rows[i][1], JSON_DECODE_ANY, NULL);
		same = json_equal(v, only);
		json_decref(only);
		snprintf(field, sizeof field, "quantization_config.%s", rows[i][0]);
		if (!same)
			return model_config_bad(why, RC_UNSUPPORTED, field, rows[i][1], v);
	}
	return 0;
}

static int model_config_dspark(const json_t *o, struct model_config *c, struct buf *why)
{
	static const struct model_config_row rank = { "dspark_markov_rank", KIND_INT,
						      FIELD(dspark_markov_rank), 1, 1 << 16, 0, NULL };
	const json_t *targets = json_object_get(o, "dspark_target_layer_ids");

	if (!targets || json_is_null(targets))
		return 0;
	if (!json_is_array(targets) || json_array_size(targets) > (size_t)c->n_layers)
		return model_config_bad(why, RC_MODEL, "dspark_target_layer_ids", "an array of layers",
					targets);
	c->dspark_targets = (int)json_array_size(targets);
	return model_config_store(o, "", &rank, c, why);
}

/* ---- numbers that must fit each other ---- */

/* One row per rule: what must hold, the field to blame, and the rule in words. */
static int model_config_fit(const struct model_config *c, struct buf *why)
{
	const struct {
		bool ok;
		int value;
		const char *field, *rule;
	} rules[] = {
		{ c->hidden_size % 32 == 0, c->hidden_size, "hidden_size",
		  "a multiple of 32 (FP4 scale groups)" },
		{ c->moe_inter % 32 == 0, c->moe_inter, "moe_intermediate_size",
		  "a multiple of 32 (FP4 scale groups)" },
		{ c->head_dim % 32 == 0, c->head_dim, "head_dim", "a multiple of 32" },
		{ c->rope_dim % 2 == 0, c->rope_dim, "qk_rope_head_dim", "an even number" },
		{ c->rope_dim <= c->head_dim, c->rope_dim, "qk_rope_head_dim", "at most head_dim" },
		{ c->rope_dim <= c->index_dim, c->rope_dim, "qk_rope_head_dim", "at most index_head_dim" },
		{ (c->index_dim & (c->index_dim - 1)) == 0, c->index_dim, "index_head_dim",
		  "a power of two (Hadamard rotation)" },
		{ c->n_heads % c->o_groups == 0, c->o_groups, "o_groups",
		  "a divisor of num_attention_heads" },
		{ c->experts_per_tok <= c->n_experts, c->experts_per_tok, "num_experts_per_tok",
		  "at most n_routed_experts" },
		{ c->n_hash_layers <= c->n_layers, c->n_hash_layers, "num_hash_layers",
		  "at most num_hidden_layers" },
		{ c->n_shared_experts == 1, c->n_shared_experts, "n_shared_experts", "1" },
		{ c->bos_id < c->vocab_size, c->bos_id, "bos_token_id", "below vocab_size" },
		{ c->eos_id < c->vocab_size, c->eos_id, "eos_token_id", "below vocab_size" },
		{ c->yarn_beta_fast > c->yarn_beta_slow, (int)c->yarn_beta_fast, "rope_scaling.beta_fast",
		  "above rope_scaling.beta_slow" },
	};
	size_t i;

	for (i = 0; i < mem_countof(rules); i++)
		if (!rules[i].ok)
			return buf_why(why, RC_UNSUPPORTED, "config.json: %s: expected %s, found %d",
				       rules[i].field, rules[i].rule, rules[i].value);
	return 0;
}

static int model_config_fields(json_t *o, struct model_config *c, struct buf *why)
{
	int rc = model_config_type(o, why);
	size_t i;

	for (i = 0; rc == 0 && i < mem_countof(model_config_table); i++) {
		const struct model_config_row *row = &model_config_table[i];

		if (row->kind == KIND_INT || row->kind == KIND_REAL)
			rc = model_config_store(o, "", row, c, why);
		else if (row->kind < KIND_CHECKED)
			rc = model_config_is(o, row, why);
	}
	rc = rc ? rc : model_config_ratios(o, c, why);
	rc = rc ? rc : model_config_yarn(o, c, why);
	rc = rc ? rc : model_config_quant(o, why);
	rc = rc ? rc : model_config_dspark(o, c, why);
	rc = rc ? rc : model_config_fit(c, why);
	return rc ? rc : model_config_unknown(o, why);
}

int model_config_load(const char *file, const char *json, size_t len, json_t **ret_o, struct buf *why)
{
	json_error_t e;
	json_t *o;

	if (len > MODEL_CONFIG_MAX_BYTES)
		return buf_why(why, RC_TOO_LARGE, "%s: larger than %d bytes", file, MODEL_CONFIG_MAX_BYTES);
	o = json_loadb(json ? json : "", len, JSON_REJECT_DUPLICATES, &e);
	if (!o)
		return buf_why(why, RC_MODEL, "%s: line %d: %s", file, e.line, e.text);
	if (!json_is_object(o)) {
		json_decref(o);
		return buf_why(why, RC_MODEL, "%s: expected an object", file);
	}
	*ret_o = o;
	return 0;
}

int model_config_parse(const char *json, size_t len, struct model_config *ret_c, struct buf *why)
{
	struct model_config c = { .do_sample = true, .temperature = 1, .top_p = 1 };
	json_t *o;
	int rc = model_config_load("config.json", json, len, &o, why);

	if (rc)
		return rc;
	rc = model_config_fields(o, &c, why);
	json_decref(o);
	if (rc == 0)
		*ret_c = c;
	return rc;
}
