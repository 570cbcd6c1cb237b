/* SPDX-License-Identifier: MIT
 * mkmodel_shape.c - the config of a checkpoint to be made: a known shape or a file, with changes.
 * Threads: one. Locks: none. */
#include "engine/base/mapfile.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "tests/bench/mkmodel.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define MKMODEL_MAX_CONFIG (1 << 20)

static const char *const mkmodel_formats[MKMODEL_N_FORMAT] = { "fp4", "fp8", "nvfp4", "bf16" };

int mkmodel_format_find(const char *name)
{
	for (int i = 0; i < MKMODEL_N_FORMAT; i++)
		if (strcmp(name, mkmodel_formats[i]) == 0)
			return i;
	return -1;
}

/* ---- where it begins ---- */

/* Two layers with a window only, then 4 and 128 in turn, as in V4-Flash. */
static int mkmodel_ratio(int layer)
{
	return layer < 2 ? 0 : layer % 2 == 0 ? 4 : 128;
}

static json_t *mkmodel_known(bool flash)
{
	json_t *o = json_pack("{s:[s], s:s, s:s, s:s, s:s, s:b, s:b, s:s, s:i}", "architectures",
			      "DeepseekV4ForCausalLM",
			      "model_type", "deepseek_v4", "hidden_act", "silu", "scoring_func", "sqrtsoftplus",
			      "topk_method", "noaux_tc", "norm_topk_prob", 1, "tie_word_embeddings", 0, "torch_dtype",
			      "bfloat16", "num_nextn_predict_layers", 0);

#define INT(name, f, t) json_object_set_new(o, name, json_integer(flash ? f : t));
#define REAL(name, f, t) json_object_set_new(o, name, json_real(flash ? f : t));
#include "tests/bench/mkmodel_shape.def"
#undef INT
#undef REAL
	json_object_set_new(o, "rope_scaling",
			    json_pack("{s:s, s:i, s:i, s:i, s:i}", "type", "yarn", "factor", flash ? 16 : 4,
				      "beta_fast", 32,
				      "beta_slow", 1, "original_max_position_embeddings", flash ? 65536 : 1024));
	json_object_set_new(o, "quantization_config",
			    json_pack("{s:s, s:s, s:s, s:s, s:[ii]}", "quant_method", "fp8", "fmt", "e4m3", "scale_fmt",
				      "ue8m0", "activation_scheme", "dynamic", "weight_block_size", 128, 128));
	return o;
}

static int mkmodel_from_file(const char *path, json_t **ret_o, struct buf *why)
{
	struct buf text = { 0 };
	json_error_t e;
	int rc = mapfile_slurp(path, MKMODEL_MAX_CONFIG, &text, why);

	if (rc == 0) {
		*ret_o = json_loadb(buf_str(&text), text.len, JSON_REJECT_DUPLICATES, &e);
		if (!json_is_object(*ret_o)) {
			rc = buf_why(why, RC_INVALID, "%s: not a JSON object: %s", path, *ret_o ? "" : e.text);
			json_decref(*ret_o);
		}
	}
	buf_fini(&text);
	return rc;
}

static int mkmodel_begin(const struct mkmodel_shape *s, json_t **ret_o, struct buf *why)
{
	if (s->file)
		return mkmodel_from_file(s->file, ret_o, why);
	if (strcmp(s->name, "flash") && strcmp(s->name, "tiny"))
		return buf_why(why, RC_INVALID, "--shape: expected flash or tiny, found %s", s->name);
	*ret_o = mkmodel_known(s->name[0] == 'f');
	return 0;
}

/* ---- changes ---- */

static int mkmodel_layers(const struct mkmodel_shape *s, const json_t *o, int n_ratio)
{
	if (s->layers)
		return s->layers;
	return n_ratio ? n_ratio : (int)json_integer_value(json_object_get(o, "num_hidden_layers"));
}

static int mkmodel_read_ratios(const char *text, int ratio[MODEL_MAX_LAYERS], int *ret_n, struct buf *why)
{
	const char *p = text;
	char *end;

	for (*ret_n = 0; p && *p && *ret_n < MODEL_MAX_LAYERS; p = *end == ',' ? end + 1 : end) {
		long r = strtol(p, &end, 10);

		if (end == p || (*end && *end != ',') || (r != 0 && r != 4 && r != 128))
			return buf_why(why, RC_INVALID, "--ratios: expected 0, 4 or 128, one a layer, found \"%s\"",
				       text);
		ratio[(*ret_n)++] = (int)r;
	}
	return 0;
}

/* One ratio for each layer, and 0 for the draft block. */
static int mkmodel_set_ratios(const struct mkmodel_shape *s, json_t *o, struct buf *why)
{
	json_t *had = json_object_get(o, "compress_ratios"), *list;
	int given[MODEL_MAX_LAYERS], n_given = 0, layers;
	int rc = mkmodel_read_ratios(s->ratios, given, &n_given, why);

	if (rc)
		return rc;
	layers = mkmodel_layers(s, o, n_given);
	if (layers < 1 || layers > MODEL_MAX_LAYERS)
		return buf_why(why, RC_INVALID, "expected 1 to %d layers, found %d", MODEL_MAX_LAYERS, layers);
	if (!n_given && had && (size_t)layers > json_array_size(had))
		return buf_why(why, RC_INVALID, "%s has compression ratios for %zu layers; --ratios gives them for %d",
			       s->file, json_array_size(had), layers);
	list = json_array();
	for (int i = 0; i < layers; i++)
		if (!n_given && had)
			json_array_append(list, json_array_get(had, (size_t)i));
		else
			json_array_append_new(list, json_integer(n_given ? given[i % n_given] : mkmodel_ratio(i)));
	if (s->mtp)
		json_array_append_new(list, json_integer(0));
	json_object_set_new(o, "compress_ratios", list);
	json_object_set_new(o, "num_hidden_layers", json_integer(layers));
	json_object_set_new(o, "num_nextn_predict_layers", json_integer(s->mtp));
	return 0;
}

static void mkmodel_set_hash(const struct mkmodel_shape *s, json_t *o)
{
	json_int_t layers = json_integer_value(json_object_get(o, "num_hidden_layers"));
	json_int_t hash = json_integer_value(json_object_get(o, "num_hash_layers"));

	if (s->hash_layers >= 0)
		hash = s->hash_layers;
	else if (hash > layers)
		hash = layers;
	json_object_set_new(o, "num_hash_layers", json_integer(hash));
}

static void mkmodel_set_format(const struct mkmodel_shape *s, json_t *o)
{
	json_t *q = json_object_get(o, "quantization_config");

	json_object_set_new(o, "expert_dtype", json_string(mkmodel_formats[s->format]));
	if (s->format == MKMODEL_NVFP4 && q)
		json_object_update_new(q, json_pack("{s:s, s:s, s:i}", "quant_algo", "MIXED_PRECISION",
						    "moe_quant_algo", "NVFP4", "group_size", 16));
}

int mkmodel_config(const struct mkmodel_shape *s, struct buf *ret_json, struct model_config *ret_c, struct buf *why)
{
	static const char *const draft[] = { "dspark_block_size", "dspark_markov_rank", "dspark_noise_token_id",
					     "dspark_target_layer_ids" };
	json_t *o = NULL;
	char *text;
	int rc = mkmodel_begin(s, &o, why);

	if (rc)
		return rc;
	rc = mkmodel_set_ratios(s, o, why);
	if (rc == 0) {
		mkmodel_set_hash(s, o);
		mkmodel_set_format(s, o);
		for (size_t i = 0; i < mem_countof(draft); i++) /* the draft block made here is V4-Flash's */
			json_object_del(o, draft[i]);
		if (s->experts)
			json_object_set_new(o, "n_routed_experts", json_integer(s->experts));
		if (s->vocab)
			json_object_set_new(o, "vocab_size", json_integer(s->vocab));
		text = json_dumps(o, JSON_INDENT(2));
		buf_adds(ret_json, text);
		buf_addc(ret_json, '\n');
		free(text);
		rc = model_config_parse(ret_json->data, ret_json->len, ret_c, why);
		ret_c->n_mtp = s->mtp;
	}
	json_decref(o);
	return rc;
}
