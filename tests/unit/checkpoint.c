/* SPDX-License-Identifier: MIT
 * checkpoint.c (test) - opening directories: the tiny model, and copies of it wrong in one way each.
 * Threads: one. */
#include "engine/base/mapfile.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/inspect.h"
#include "engine/checkpoint/safetensors_write.h"
#include "engine/checkpoint/weights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MAX_TENSORS 1024

static char tiny[4096], dir[] = "/tmp/dsv4-checkpoint-XXXXXX";
static struct checkpoint *source;                 /* the tiny model, mapped */
static struct safetensors_entry entry[MAX_TENSORS]; /* its tensors, for a test to change and write */
static int n_entries;

static const char *in_dir(const char *name)
{
	static char path[4][4200];
	static int turn;

	turn = (turn + 1) % 4;
	snprintf(path[turn], sizeof path[turn], "%s/%s", dir, name);
	return path[turn];
}

static void put_file(const char *name, const char *text, size_t len)
{
	FILE *f = fopen(in_dir(name), "w");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

/* A fresh list of the tiny model's tensors, and a directory with its config. */
static int begin(void **state)
{
	struct buf text = { 0 };
	char path[4200];
	int i;

	(void)state;
	snprintf(tiny, sizeof tiny, "%s/etc/tiny", getenv("top_srcdir"));
	if (checkpoint_open(tiny, CHECKPOINT_MAP, &source, NULL))
		return -1;
	n_entries = source->n_tensors;
	for (i = 0; i < n_entries; i++) {
		const struct safetensors_tensor *t = source->tensor[i].t;

		entry[i] = (struct safetensors_entry){ .name = t->name, .dtype = t->dtype, .n_dim = t->n_dim,
						       .data = checkpoint_data(source, &source->tensor[i]) };
		memcpy(entry[i].dim, t->dim, sizeof entry[i].dim);
	}
	strcpy(dir + sizeof dir - 7, "XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof path, "%s/config.json", tiny);
	if (mapfile_slurp(path, 1 << 20, &text, NULL))
		return -1;
	put_file("config.json", text.data, text.len);
	buf_fini(&text);
	return 0;
}

static int end(void **state)
{
	static const char *const name[] = { "config.json", "generation_config.json", "model.safetensors",
					    "other.safetensors", "model.safetensors.index.json" };
	size_t i;

	(void)state;
	checkpoint_free(&source);
	for (i = 0; i < mem_countof(name); i++)
		unlink(in_dir(name[i]));
	return rmdir(dir);
}

static struct safetensors_entry *named(const char *name)
{
	int i;

	for (i = 0; i < n_entries; i++)
		if (strcmp(entry[i].name, name) == 0)
			return &entry[i];
	fail_msg("no tensor %s", name);
	return NULL;
}

static void drop(const char *prefix)
{
	int i, n = 0;

	for (i = 0; i < n_entries; i++)
		if (strncmp(entry[i].name, prefix, strlen(prefix)) != 0)
			entry[n++] = entry[i];
	assert_true(n < n_entries);
	n_entries = n;
}

static void write_all(void)
{
	assert_int_equal(safetensors_write(in_dir("model.safetensors"), entry, n_entries, NULL), 0);
}

static struct model_weights *opens(const char *where)
{
	struct model_weights *w = NULL;
	struct buf why = { 0 };

	if (weights_open(where, &w, &why))
		fail_msg("%s", buf_str(&why));
	buf_fini(&why);
	return w;
}

static void is_refused(int rc, const char *says)
{
	struct model_weights *w = NULL;
	struct buf why = { 0 };
	int got = weights_open(dir, &w, &why);

	if (got != rc || !strstr(buf_str(&why), says))
		fail_msg("expected %s, \"%s\"; found %s, \"%s\"", rc_name(rc), says, rc_name(got),
			 buf_str(&why));
	assert_null(w);
	buf_fini(&why);
}

/* ---- what opens ---- */

static void tiny_opens(void **state)
{
	struct model_weights *w = opens(tiny);

	(void)state;
	assert_int_equal(w->config.n_layers, 5);
	assert_int_equal(w->config.n_mtp, 1);
	assert_int_equal(w->layer[2].ratio, 4);
	assert_int_equal(w->layer[2].wq_b.rows, 384);
	assert_int_equal(w->layer[2].wq_b.fmt, DSV4_W_FP8);
	assert_int_equal(w->layer[0].expert[7].w2.fmt, DSV4_W_FP4);
	assert_non_null(w->layer[1].tid2eid);
	assert_null(w->layer[1].gate_bias);
	assert_null(w->layer[2].tid2eid);
	assert_non_null(w->layer[2].gate_bias);
	assert_non_null(w->mtp->enorm);
	weights_close(&w);
	assert_null(w);
}

/* One file without an index, and in an order that leaves f32 on odd addresses: the same values. */
static void order_and_alignment_do_not_matter(void **state)
{
	struct model_weights *a, *b;
	struct safetensors_entry e;
	int i;

	(void)state;
	for (i = 0; i < n_entries / 2; i++) {
		e = entry[i];
		entry[i] = entry[n_entries - 1 - i];
		entry[n_entries - 1 - i] = e;
	}
	e = *named("layers.0.attn.wkv.scale"); /* one odd byte goes first */
	*named("layers.0.attn.wkv.scale") = entry[0];
	entry[0] = e;
	write_all();
	a = opens(tiny);
	b = opens(dir);
	assert_int_equal((uintptr_t)b->layer[4].hc_attn.fn % sizeof(float), 0);
	assert_memory_equal(a->layer[4].hc_attn.fn, b->layer[4].hc_attn.fn, 24 * 512 * sizeof(float));
	assert_memory_equal(a->layer[3].compressor.ape, b->layer[3].compressor.ape, 128 * 96 * sizeof(float));
	assert_memory_equal(a->norm, b->norm, 128 * sizeof(float));
	assert_memory_equal(a->layer[1].tid2eid, b->layer[1].tid2eid, 2048 * 2 * sizeof(int64_t));
	assert_memory_equal(a->mtp->layer.expert[3].w2.data, b->mtp->layer.expert[3].w2.data, 128 * 64);
	weights_close(&a);
	weights_close(&b);
}

static void draft_block_may_be_absent_as_a_whole(void **state)
{
	struct model_weights *w;

	(void)state;
	drop("mtp.");
	write_all();
	w = opens(dir);
	assert_int_equal(w->config.n_mtp, 0);
	assert_null(w->mtp);
	weights_close(&w);
}

/* A matrix is what its dtype says: plain ones need no scale. */
static void formats_follow_from_dtypes(void **state)
{
	static const float zeros[128 * 128];
	struct safetensors_entry *e = named("layers.0.attn.wq_a.weight");
	struct buf out = { 0 }, why = { 0 };
	struct model_weights *w;

	(void)state;
	e->dtype = ST_F32;
	e->data = zeros;
	drop("layers.0.attn.wq_a.scale");
	write_all();
	w = opens(dir);
	assert_int_equal(w->layer[0].wq_a.fmt, DSV4_W_F32);
	assert_null(w->layer[0].wq_a.scale);
	weights_close(&w);
	e = named("layers.1.ffn.experts.2.w3.weight");
	e->dtype = ST_BF16;
	e->dim[1] = 128;
	e->data = zeros;
	drop("layers.1.ffn.experts.2.w3.scale");
	write_all();
	is_refused(RC_UNSUPPORTED, "model.safetensors: tensor layers.1.ffn.experts.2.w3.weight: expected the number "
				   "format of the block's first expert");
	assert_int_equal(inspect_describe(dir, false, &out, &why), RC_MODEL);
	assert_non_null(strstr(buf_str(&why), "mismatched: model.safetensors: tensor layers.1.ffn.experts.2.w3"));
	assert_non_null(strstr(buf_str(&out), "mismatched: 1\n"));
	buf_fini(&out);
	buf_fini(&why);
}

/* ---- what is refused, and how it says so ---- */

static void missing_tensors_are_named(void **state)
{
	(void)state;
	drop("layers.3.attn.wkv.weight");
	write_all();
	is_refused(RC_MODEL,
		   "tensor layers.3.attn.wkv.weight: expected F8_E4M3, BF16 or F32 [96, 128], found nothing");
}

static void missing_scales_are_named(void **state)
{
	(void)state;
	drop("layers.2.ffn.experts.5.w1.scale");
	write_all();
	is_refused(RC_MODEL,
		   "tensor layers.2.ffn.experts.5.w1.scale: expected F8_E8M0 [128, 4], found nothing");
}

static void half_a_draft_block_is_refused(void **state)
{
	(void)state;
	drop("mtp.0.h_proj.");
	write_all();
	is_refused(RC_MODEL, "tensor mtp.0.h_proj.weight: expected");
}

static void unexpected_tensors_are_named(void **state)
{
	(void)state;
	named("norm.weight")->name = "norm.bias";
	write_all();
	is_refused(RC_MODEL, "(in all 1 missing, 1 unexpected, 0 mismatched)");
	entry[n_entries] = *named("norm.bias");
	entry[n_entries++].name = "norm.weight";
	write_all();
	is_refused(RC_MODEL,
		   "model.safetensors: tensor norm.bias: expected no such tensor, found BF16 [128]");
}

static void wrong_shapes_and_dtypes_are_named(void **state)
{
	struct safetensors_entry *e = named("norm.weight");

	(void)state;
	e->n_dim = 2;
	e->dim[0] = 64;
	e->dim[1] = 2;
	write_all();
	is_refused(RC_MODEL,
		   "model.safetensors: tensor norm.weight: expected BF16 or F32 [128], found BF16 [64, 2]");
	e->n_dim = 1;
	e->dim[0] = 128;
	e->dtype = ST_F16;
	write_all();
	is_refused(RC_MODEL,
		   "model.safetensors: tensor norm.weight: expected BF16 or F32 [128], found F16 [128]");
	e->dtype = ST_BF16;
	e = named("layers.1.attn.wo_a.scale");
	e->dim[0] = 2;
	e->dim[1] = 1;
	write_all();
	is_refused(RC_MODEL,
		   "tensor layers.1.attn.wo_a.scale: expected F8_E8M0 or F32 [1, 2], found F8_E8M0 [2, 1]");
}

static void hash_table_beyond_the_experts_is_refused(void **state)
{
	static int64_t table[2048][2];

	(void)state;
	memcpy(table, named("layers.0.ffn.gate.tid2eid")->data, sizeof table);
	table[5][1] = 8;
	named("layers.0.ffn.gate.tid2eid")->data = table;
	write_all();
	is_refused(RC_MODEL,
		   "tensor layers.0.ffn.gate.tid2eid: expected expert ids below 8, found 8 for token 5");
	table[5][1] = -1;
	write_all();
	is_refused(RC_MODEL, "found -1 for token 5");
}

static void tensors_in_two_files_are_refused(void **state)
{
	(void)state;
	write_all();
	assert_int_equal(safetensors_write(in_dir("other.safetensors"), named("norm.weight"), 1, NULL), 0);
	is_refused(RC_MODEL, "other.safetensors: tensor norm.weight: also in model.safetensors");
}

static void index_must_agree_with_the_files(void **state)
{
	static const struct {
		const char *text, *says;
	} rows[] = {
		{ "{", "index.json: byte 1" },
		{ "{}", "no weight_map" },
		{ "{\"weight_map\":{\"norm.weight\":\"../x.safetensors\"}}", "plain name" },
		{ "{\"weight_map\":{\"norm.weight\":\"config.json\"}}", "plain name" },
		{ "{\"weight_map\":{\"norm.weight\":7}}", "expected a string" },
		{ "{\"weight_map\":{\"norm.weight\":\"absent.safetensors\"}}",
		  "absent.safetensors: No such file" },
		{ "{\"weight_map\":{\"norm.weight\":\"model.safetensors\"}}", ": not in model.safetensors.index.json" },
		{ "{\"weight_map\":{\"nothing\":\"model.safetensors\"}}",
		  "tensor nothing: expected in model.safetensors, found in no file" },
	};
	size_t i;

	(void)state;
	write_all();
	for (i = 0; i < mem_countof(rows); i++) {
		put_file("model.safetensors.index.json", rows[i].text, strlen(rows[i].text));
		is_refused(strstr(rows[i].says, "No such") ? -2 : RC_MODEL, rows[i].says);
	}
}

static void directories_without_a_model_are_refused(void **state)
{
	(void)state;
	is_refused(RC_MODEL, "no .safetensors file");
	put_file("model.safetensors", "short", 5);
	is_refused(RC_MODEL, "model.safetensors: not a safetensors file: 5 bytes");
	put_file("model.safetensors", "\377\377\377\377\377\377\377\377{}", 10);
	is_refused(RC_MODEL,
		   "not a safetensors file: a header of 18446744073709551615 bytes in a file of 10");
	put_file("generation_config.json", "{\"top_p\":2}", 11);
	is_refused(RC_MODEL, "generation_config.json: top_p: expected a number from 0 to 1, found 2");
	unlink(in_dir("config.json"));
	is_refused(RC_MODEL, "config.json: no such file");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(tiny_opens),
		TEST(order_and_alignment_do_not_matter),
		TEST(draft_block_may_be_absent_as_a_whole),
		TEST(formats_follow_from_dtypes),
		TEST(missing_tensors_are_named),
		TEST(missing_scales_are_named),
		TEST(half_a_draft_block_is_refused),
		TEST(unexpected_tensors_are_named),
		TEST(wrong_shapes_and_dtypes_are_named),
		TEST(hash_table_beyond_the_experts_is_refused),
		TEST(tensors_in_two_files_are_refused),
		TEST(index_must_agree_with_the_files),
		TEST(directories_without_a_model_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
