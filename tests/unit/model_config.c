/* SPDX-License-Identifier: MIT
 * model_config.c (test) - the tiny model's config.json with one field changed: taken, or refused by name.
 * Threads: one. */
#include "engine/base/mapfile.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/checkpoint/generation_config.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct buf tiny; /* config.json of etc/tiny */

static int load_tiny(void **state)
{
	char path[4096];

	(void)state;
	snprintf(path, sizeof path, "%s/etc/tiny/config.json", getenv("top_srcdir"));
	return mapfile_slurp(path, 1 << 20, &tiny, NULL);
}

static int free_tiny(void **state)
{
	(void)state;
	buf_fini(&tiny);
	return 0;
}

/* One change: `field` or "object.field" set to the JSON `value`, NULL: removed. */
static int parse_changed(const char *field, const char *value, struct model_config *c, struct buf *why)
{
	json_t *o = json_loadb(tiny.data, tiny.len, 0, NULL), *at = o;
	const char *dot = strchr(field, '.');
	char outer[64], *text;
	int rc;

	assert_non_null(o);
	if (dot) {
		snprintf(outer, sizeof outer, "%.*s", (int)(dot - field), field);
		at = json_object_get(o, outer);
		field = dot + 1;
	}
	if (value)
		assert_int_equal(json_object_set_new(at, field, json_loads(value, JSON_DECODE_ANY, NULL)), 0);
	else
		json_object_del(at, field);
	text = json_dumps(o, 0);
	rc = model_config_parse(text, strlen(text), c, why);
	free(text);
	json_decref(o);
	return rc;
}

static void tiny_is_read(void **state)
{
	struct model_config c;
	struct buf why = { 0 };

	(void)state;
	assert_int_equal(model_config_parse(tiny.data, tiny.len, &c, &why), 0);
	assert_int_equal(c.vocab_size, 2048);
	assert_int_equal(c.n_layers, 5);
	assert_int_equal(c.head_dim, 96);
	assert_int_equal(c.compress_ratio[3], 128);
	assert_int_equal(c.yarn_original_context, 1024);
	assert_true(c.yarn_factor == 4 && c.compress_rope_theta == 160000);
	assert_true(c.hc_eps == 1e-6f && c.swiglu_limit == 10 && c.routed_scaling == 1.5f);
	buf_fini(&why);
}

/* Refusals: what is changed, the code, and what the message must name. */
static void changes_are_refused_by_name(void **state)
{
	static const struct {
		const char *field, *value;
		int rc;
		const char *says;
	} rows[] = {
		{ "model_type", "\"deepseek_v41\"", RC_UNSUPPORTED, "deepseek_v41" },
		{ "model_type", "\"llama\"", RC_UNSUPPORTED, "llama" },
		{ "model_type", NULL, RC_UNSUPPORTED, "model_type" },
		{ "architectures", "[\"DeepseekV4ForVision\"]", RC_UNSUPPORTED, "DeepseekV4ForVision" },
		{ "scoring_func", "\"sigmoid\"", RC_UNSUPPORTED,
		  "scoring_func: expected \"sqrtsoftplus\", found \"sigmoid\"" },
		{ "topk_method", "\"greedy\"", RC_UNSUPPORTED, "topk_method" },
		{ "hidden_act", "\"gelu\"", RC_UNSUPPORTED, "hidden_act" },
		{ "attention_bias", "true", RC_UNSUPPORTED, "attention_bias: expected false, found true" },
		{ "norm_topk_prob", "false", RC_UNSUPPORTED, "norm_topk_prob" },
		{ "tie_word_embeddings", "true", RC_UNSUPPORTED, "tie_word_embeddings" },
		{ "num_key_value_heads", "2", RC_UNSUPPORTED, "num_key_value_heads: expected 1, found 2" },
		{ "n_group", "8", RC_UNSUPPORTED, "n_group" },
		{ "rope_scaling.type", "\"linear\"", RC_UNSUPPORTED,
		  "rope_scaling.type: expected plain YaRN, found \"linear\"" },
		{ "rope_scaling.type", NULL, RC_UNSUPPORTED, "rope_scaling.type" },
		{ "rope_scaling.attention_factor", "1.277", RC_UNSUPPORTED, "rope_scaling.attention_factor" },
		{ "rope_scaling.mscale", "0.7", RC_UNSUPPORTED, "rope_scaling.mscale" },
		{ "rope_scaling.long_factor", "[1]", RC_UNSUPPORTED, "rope_scaling.long_factor" },
		{ "rope_scaling.factor", "0", RC_MODEL, "rope_scaling.factor" },
		{ "rope_scaling", "7", RC_MODEL, "rope_scaling" },
		{ "quantization_config.fmt", "\"e5m2\"", RC_UNSUPPORTED, "quantization_config.fmt" },
		{ "quantization_config.weight_block_size", "[32,32]", RC_UNSUPPORTED, "weight_block_size" },
		{ "quantization_config.group_size", "32", RC_UNSUPPORTED, "group_size: expected 16, found 32" },
		{ "quantization_config.activation_scheme", "\"static\"", RC_UNSUPPORTED,
		  "activation_scheme" },
		{ "compress_ratios", "[0,0,4,2,4,0]", RC_UNSUPPORTED,
		  "compress_ratios[3]: expected 0, 4 or 128, found 2" },
		{ "compress_ratios", "[0,0,4,128,4,4]", RC_UNSUPPORTED, "compress_ratios[5]" },
		{ "compress_ratios", "[0,0]", RC_MODEL, "compress_ratios" },
		{ "compress_ratios", "[0,0,4,128,4.0]", RC_UNSUPPORTED, "compress_ratios[4]" },
		{ "compress_ratios", NULL, RC_MODEL, "compress_ratios" },
		{ "engram_layers", "[1,14]", RC_UNSUPPORTED, "engram_layers: unknown field" },
		{ "vision_config", "{\"depth\":32}", RC_UNSUPPORTED, "vision_config" },
		{ "vocab_size", "2e9", RC_MODEL, "vocab_size" },
		{ "vocab_size", "-1", RC_MODEL, "vocab_size: expected an integer from 1" },
		{ "hidden_size", "9223372036854775807", RC_MODEL, "hidden_size" },
		{ "hidden_size", "100", RC_UNSUPPORTED, "hidden_size: expected a multiple of 32" },
		{ "hidden_size", NULL, RC_MODEL,
		  "hidden_size: expected an integer from 32 to 65536, found nothing" },
		{ "num_hidden_layers", "0", RC_MODEL, "num_hidden_layers" },
		{ "qk_rope_head_dim", "31", RC_UNSUPPORTED,
		  "qk_rope_head_dim: expected an even number, found 31" },
		{ "qk_rope_head_dim", "128", RC_UNSUPPORTED, "qk_rope_head_dim: expected at most head_dim" },
		{ "head_dim", "100", RC_UNSUPPORTED, "head_dim" },
		{ "index_head_dim", "96", RC_UNSUPPORTED, "index_head_dim: expected a power of two" },
		{ "o_groups", "3", RC_UNSUPPORTED, "o_groups: expected a divisor" },
		{ "num_experts_per_tok", "9", RC_UNSUPPORTED, "num_experts_per_tok" },
		{ "num_hash_layers", "6", RC_UNSUPPORTED, "num_hash_layers" },
		{ "n_shared_experts", "2", RC_UNSUPPORTED, "n_shared_experts" },
		{ "eos_token_id", "[1]", RC_MODEL, "eos_token_id" },
		{ "eos_token_id", "2048", RC_UNSUPPORTED, "eos_token_id: expected below vocab_size" },
		{ "rms_norm_eps", "0", RC_MODEL, "rms_norm_eps" },
		{ "swiglu_limit", NULL, RC_MODEL, "swiglu_limit" },
		{ "dspark_target_layer_ids", "[1,2]", RC_MODEL, "dspark_markov_rank" },
	};
	struct model_config c, untouched;
	struct buf why = { 0 };
	size_t i;

	(void)state;
	memset(&untouched, 0x5a, sizeof untouched);
	for (i = 0; i < mem_countof(rows); i++) {
		int rc;

		c = untouched;
		rc = parse_changed(rows[i].field, rows[i].value, &c, &why);
		if (rc != rows[i].rc || !strstr(buf_str(&why), rows[i].says))
			fail_msg("%s = %s: %s, \"%s\"", rows[i].field,
				 rows[i].value ? rows[i].value : "nothing", rc_name(rc), buf_str(&why));
		assert_memory_equal(&c, &untouched, sizeof c);
	}
	buf_fini(&why);
}

static void harmless_changes_are_taken(void **state)
{
	static const char *const rows[][2] = {
		{ "transformers_version", "\"5.0\"" },
		{ "expert_dtype", NULL },
		{ "use_sliding_window", "null" },
		{ "some_bias", "false" },
		{ "_name_or_path", "\"x\"" },
		{ "quantization_config", NULL },
		{ "num_nextn_predict_layers", "3" },
		{ "scoring_func", NULL },
		{ "rope_scaling.attention_factor", "1.0" },
		{ "rope_scaling.rope_type", "\"yarn\"" },
		{ "torch_dtype", "\"float32\"" },
		{ "quantization_config.quant_algo", "\"MIXED_PRECISION\"" },
		{ "quantization_config.fmt", "null" },
		{ "num_hash_layers", "0" },
	};
	struct model_config c;
	struct buf why = { 0 };
	size_t i;

	(void)state;
	for (i = 0; i < mem_countof(rows); i++)
		if (parse_changed(rows[i][0], rows[i][1], &c, &why))
			fail_msg("%s: %s", rows[i][0], buf_str(&why));
	assert_int_equal(parse_changed("rope_scaling", "null", &c, &why), 0);
	assert_true(c.yarn_factor == 1);
	buf_fini(&why);
}

static void malformed_text_is_refused(void **state)
{
	static const char *const rows[] = {
		"", "{", "[]", "7", "{\"a\":1,\"a\":2}", "{\"model_type\":\"deepseek_v4\"}"
	};
	struct model_config c;
	struct buf why = { 0 };
	size_t i;

	(void)state;
	for (i = 0; i < mem_countof(rows); i++) {
		assert_int_equal(model_config_parse(rows[i], strlen(rows[i]), &c, &why), RC_MODEL);
		assert_non_null(strstr(buf_str(&why), "config.json: "));
	}
	buf_fini(&why);
}

static void generation_config_sets_sampling(void **state)
{
	struct model_config c;
	struct buf why = { 0 };
	const char *text = "{\"do_sample\":false,\"temperature\":0.6,\"top_p\":0.95,\"new_thing\":[1]}";

	(void)state;
	assert_int_equal(model_config_parse(tiny.data, tiny.len, &c, &why), 0);
	assert_true(c.do_sample && c.temperature == 1 && c.top_p == 1);
	assert_int_equal(generation_config_parse(text, strlen(text), &c, &why), 0);
	assert_true(!c.do_sample && c.temperature == 0.6f && c.top_p == 0.95f);
	text = "{\"temperature\":-1}";
	assert_int_equal(generation_config_parse(text, strlen(text), &c, &why), RC_MODEL);
	assert_string_equal(buf_str(&why),
			    "generation_config.json: temperature: expected a number from 0 to 100, found -1");
	assert_true(c.temperature == 0.6f);
	buf_fini(&why);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tiny_is_read),
		cmocka_unit_test(changes_are_refused_by_name),
		cmocka_unit_test(harmless_changes_are_taken),
		cmocka_unit_test(malformed_text_is_refused),
		cmocka_unit_test(generation_config_sets_sampling),
	};

	return cmocka_run_group_tests(tests, load_tiny, free_tiny);
}
