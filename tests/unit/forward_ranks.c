/* SPDX-License-Identifier: MIT
 * forward_ranks.c - a model on several devices computes what it does on one, to the last bit where that is promised,
 * and a step that fails on any of them leaves all as they were. The devices are the CPU, several times.
 * Threads: main, and the steps' own. Locks: none. */
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/device/ranks.h"
#include "engine/model/forward_priv.h"
#include "engine/model/mtp.h"
#include "plugins/ref/ref.h"
#include "tests/bench/mkmodel.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/tinykit.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Past a block, past where the indexer begins to choose, and no multiple of anything but three;
 * sanitized, a short one. */
#define N_TOK (WARM_STEP > 1 ? 45 : 141)
#define N_LONG 261

/* ---- two models: the tiny one, whose heads cannot be cut, and one of random weights whose
 * heads can, by two or four ---- */

static char cut_dir[64], tiny_dir[4096];

static struct fixture {
	int32_t token[N_LONG];
	pthread_t main;
} fix;

/* etc/tiny with more heads and groups of them. */
static void write_config(const char *path)
{
	static const struct { const char *from, *to; } change[] = {
		{ "\"num_attention_heads\": 4", "\"num_attention_heads\": 16" },
		{ "\"o_groups\": 2", "\"o_groups\": 4" },
		{ "\"o_lora_rank\": 64", "\"o_lora_rank\": 128" },
	};
	char from[4200], *text = calloc(1, 1 << 14);
	FILE *f;

	snprintf(from, sizeof from, "%s/config.json", tiny_dir);
	f = fopen(from, "r");
	assert_non_null(f);
	assert_true(fread(text, 1, (1 << 14) - 1, f) > 0);
	fclose(f);
	f = fopen(path, "w");
	for (size_t i = 0; i < mem_countof(change); i++) {
		char *at = strstr(text, change[i].from);
		char *rest;

		if (!at)
			fail_msg("config.json of the tiny model has no %s", change[i].from);
		rest = strdup(at + strlen(change[i].from));
		snprintf(at, (size_t)((1 << 14) - (at - text)), "%s%s", change[i].to, rest);
		free(rest);
	}
	assert_true(fputs(text, f) > 0);
	fclose(f);
	free(text);
}

static void write_model(void)
{
	char config[80], dir[80];
	struct mkmodel_shape shape = { .file = config, .hash_layers = -1, .mtp = true };
	struct mkmodel_options o = { .dir = dir, .n_threads = 1 };
	struct buf json = { 0 }, why = { 0 };
	struct mkmodel_plan plan = { 0 };
	struct model_config c;

	snprintf(config, sizeof config, "%s.json", cut_dir);
	snprintf(dir, sizeof dir, "%s", cut_dir);
	write_config(config);
	if (mkmodel_config(&shape, &json, &c, &why))
		fail_msg("%s", buf_str(&why));
	mkmodel_fill_init();
	mkmodel_plan_init(&plan, &c, MKMODEL_FP4, 1, (uint64_t)1 << 30);
	if (mkmodel_write(&plan, &o, &json, &why))
		fail_msg("%s", buf_str(&why));
	mkmodel_plan_fini(&plan);
	buf_fini(&json);
	buf_fini(&why);
	unlink(config);
}

/* ---- a model on n devices ---- */

struct rig {
	struct tinykit kit;
	struct ranks *ranks;
};

static void rig_open(struct rig *r, const char *dir, int n)
{
	struct tinykit *k = &r->kit;

	*r = (struct rig){ .ranks = ranks_cpu(n) };
	if (model_open(dir, &k->model, &k->why) || model_place_ranks(k->model, r->ranks, &k->why))
		fail_msg("%s: %s", dir, buf_str(&k->why));
	assert_int_equal(pool_new(1, &k->pool), 0);
	assert_int_equal(kset_build(NULL, 0, &k->ref, &k->why), 0);
	k->forward = forward_new(k->model, k->pool);
	k->vocab = k->model->config->vocab_size;
	numerics_init(&k->native, NUMERICS_NATIVE, k->model->config->index_topk);
	numerics_init(&k->exact, NUMERICS_EXACT, k->model->config->index_topk);
}

static void rig_close(struct rig *r)
{
	tinykit_fini(&r->kit);
	ranks_close(&r->ranks);
}

static bool rig_cuts(const struct rig *r)
{
	return r->kit.model->shard && r->kit.model->shard[0]->heads_cut;
}

static size_t bytes(const struct rig *r, int n)
{
	return (size_t)n * (size_t)r->kit.vocab * sizeof(float);
}

static void step(struct rig *r, const struct numerics *num, struct sequence *s, int n, float *logits)
{
	if (tinykit_step(&r->kit, r->kit.ref, num, s, fix.token + sequence_pos(s), n, logits ? n : 0, logits))
		fail_msg("%s", buf_str(&r->kit.why));
}

static float *prefill(struct rig *r, const struct numerics *num)
{
	return tinykit_prefill(&r->kit, r->kit.ref, num, fix.token, N_TOK);
}

/* ---- against one device ---- */

/* All experts to rank 0: what is left to differ is the attention and the head, which are no sums over devices. */
static void give_all_experts(struct model *m)
{
	for (int i = 0; i <= m->config->n_layers; i++)
		for (int rank = 0; rank < m->n_rank; rank++) {
			const struct weights_layer *from = i < m->config->n_layers ? &m->weights->layer[i] :
				&m->weights->mtp->layer;
			struct model_weights *w = m->shard[rank]->weights;
			struct weights_layer *to = i < m->config->n_layers ? &w->layer[i] : &w->mtp->layer;

			for (int e = 0; e < m->config->n_experts; e++) {
				to->expert[e] = from->expert[e];
				if (rank)
					to->expert[e].w1.data = to->expert[e].w2.data = to->expert[e].w3.data = NULL;
			}
			to->shared[0] = from->shared[0];
			if (rank)
				to->shared[0].w1.data = to->shared[0].w2.data = to->shared[0].w3.data = NULL;
		}
}

static void test_attention_and_head_are_the_bits_of_one(void **state)
{
	static const struct { const char *dir; int n; bool cuts; } all[] = {
		{ cut_dir, 2, true }, { cut_dir, 4, true }, { cut_dir, 3, false }, { tiny_dir, 2, false },
	};
	(void)state;

	for (size_t i = 0; i < mem_countof(all); i += WARM_STEP) {
		struct rig one, r;
		float *a, *b;

		rig_open(&one, all[i].dir, 1);
		rig_open(&r, all[i].dir, all[i].n);
		assert_int_equal(rig_cuts(&r), all[i].cuts);
		give_all_experts(r.kit.model);
		a = prefill(&one, &one.kit.native);
		b = prefill(&r, &r.kit.native);
		if (memcmp(a, b, bytes(&r, N_TOK)))
			fail_msg("%s on %d: other bits than on one", all[i].dir, all[i].n);
		free(a);
		free(b);
		rig_close(&one);
		rig_close(&r);
	}
}

static void expect_close(const float *a, const float *b, size_t n, const char *what)
{
	double worst = 0, most = 0;

	for (size_t i = 0; i < n; i++) {
		assert_true(isfinite(a[i]) && isfinite(b[i]));
		worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
		most = fmax(most, fabs((double)a[i]));
	}
	if (worst > 1e-4 * most || worst == 0) /* equal: nothing was cut */
		fail_msg("%s: %g apart, of values up to %g", what, worst, most);
}

/* Sums of experts are added up in another order, no more. Numerics that round would make a step of a last bit. */
static void test_whole_model_is_that_of_one(void **state)
{
	(void)state;
	for (int which = 0; which < 2; which++) {
		const char *dir = which ? cut_dir : tiny_dir;
		struct rig one;
		float *a;

		rig_open(&one, dir, 1);
		a = prefill(&one, &one.kit.exact);
		for (int n = 2; n <= 4; n += WARM_STEP) {
			struct rig r;
			float *b;

			rig_open(&r, dir, n);
			b = prefill(&r, &r.kit.exact);
			expect_close(a, b, (size_t)N_TOK * (size_t)r.kit.vocab, dir);
			free(b);
			rig_close(&r);
		}
		free(a);
		rig_close(&one);
	}
}

/* ---- any batch ---- */

/* The tokens in chunks, then one by one, with another sequence in every step. */
static void run_cut_up(struct rig *r, int chunk, int split, float *logits)
{
	struct sequence *s = tinykit_sequence(&r->kit), *mate = tinykit_sequence(&r->kit);
	float *out = malloc(bytes(r, chunk));

	for (int pos = 0, n; pos < N_TOK; pos += n) {
		int32_t other[3];
		struct forward_item item[2] = { { mate, other, 0, 0 } };
		struct forward_batch b = { .kset = r->kit.ref, .numerics = &r->kit.native, .item = item, .n_item = 2,
					   .logits = out };

		n = pos >= split ? 1 : split - pos < chunk ? split - pos : chunk;
		tinykit_tokens(&r->kit, (uint32_t)pos + 7, other, 3);
		item[0].n = n == 1 ? 1 : 3;
		item[1] = (struct forward_item){ s, fix.token + pos, n, n };
		b.phase = n == 1 ? DSV4_DECODE : DSV4_PREFILL;
		if (forward_run(r->kit.forward, &b, &r->kit.why))
			fail_msg("%s", buf_str(&r->kit.why));
		memcpy(logits + (size_t)pos * (size_t)r->kit.vocab, out, bytes(r, n));
	}
	sequence_free(&s);
	sequence_free(&mate);
	free(out);
}

static void test_any_batch_has_the_same_bits(void **state)
{
	static const struct { const char *dir; int n, chunk, split; } all[] = {
		{ cut_dir, 2, 50, N_TOK - 11 }, { cut_dir, 4, 7, N_TOK }, { cut_dir, 3, 64, N_TOK - 41 },
		{ tiny_dir, 2, 64, N_TOK - 13 },
	};
	(void)state;

	for (size_t i = 0; i < mem_countof(all); i += WARM_STEP) {
		struct rig r;
		float *whole, *cut;

		rig_open(&r, all[i].dir, all[i].n);
		whole = prefill(&r, &r.kit.native);
		cut = malloc(bytes(&r, N_TOK));
		run_cut_up(&r, all[i].chunk, all[i].split, cut);
		if (memcmp(whole, cut, bytes(&r, N_TOK)))
			fail_msg("%s on %d, chunks of %d: other bits", all[i].dir, all[i].n, all[i].chunk);
		free(whole);
		free(cut);
		rig_close(&r);
	}
}

/* ---- what fails ---- */

static atomic_int fail_in;   /* ops until one fails; negative: none */
static bool fail_here;       /* on rank 0, or on another */
static int fail_with;

static int failing_norm(struct dsv4_exec *x, const struct dsv4_host *host, const struct dsv4_rms_norm *a)
{
	if (!!pthread_equal(pthread_self(), fix.main) == fail_here && atomic_fetch_sub(&fail_in, 1) == 0)
		return fail_with;
	return ref_rms_norm(x, host, a);
}

static const struct dsv4_op_entry failing_ops[] = {
	{ .size = sizeof(struct dsv4_op_entry), .op = DSV4_OP_rms_norm, .phases = 1 << DSV4_PREFILL | 1 << DSV4_DECODE,
	  .wfmts = ~0u, .numerics = DSV4_EXACT, .tag = "fails", .fn = (dsv4_any_f *)failing_norm },
};
static const struct dsv4_plugin failing_plugin = {
	.magic = DSV4_PLUGIN_MAGIC, .size = sizeof failing_plugin, .abi_major = DSV4_ABI_MAJOR,
	.abi_minor = DSV4_ABI_MINOR,
	.n_op = 1, .signature = DSV4_BUILD_SIGNATURE, .name = "failing", .version = "1", .cpu = "", .gpu = "",
	.op = failing_ops,
};
static struct provider failing;

static struct provider *find_failing(void *arg, const char *name)
{
	(void)arg;
	return strcmp(name, "failing") ? NULL : &failing;
}

static struct kset *failing_set(struct rig *r)
{
	struct kset_overlay o;
	struct kset *ks = NULL;

	provider_init(&failing, &failing_plugin, NULL);
	if (kset_overlay_parse(&o, "norm=failing", find_failing, NULL, &r->kit.why) ||
	    kset_build(&o, 1, &ks, &r->kit.why))
		fail_msg("%s", buf_str(&r->kit.why));
	return ks;
}

static bool stops(void *arg)
{
	return (*(int *)arg)-- == 0;
}

/* One more token after the rest: 0, or as forward_run(). */
static int one_more(struct rig *r, const struct kset *ks, struct sequence *s, const struct forward_watch *w,
		    float *logits)
{
	struct forward_item item = { s, fix.token + N_TOK - 1, 1, 1 };
	struct forward_batch b = { .kset = ks, .numerics = &r->kit.native, .phase = DSV4_DECODE, .item = &item,
				   .n_item = 1, .watch = w, .logits = logits };

	buf_clear(&r->kit.why);
	return forward_run(r->kit.forward, &b, &r->kit.why);
}

static void expect_as_before(struct rig *r, struct sequence *s)
{
	for (int rank = 0; rank < r->kit.model->n_rank; rank++)
		assert_int_equal(sequence_pos(sequence_rank(s, rank)), N_TOK - 1);
}

/* What failed is tried again at the end, and has the bits of a step that never did. */
static void test_a_failure_on_one_ends_all(void **state)
{
	static const struct { bool here; int at, with, rc; } all[] = {
		{ true, 0, -EIO, RC_KERNEL }, { false, 0, -EIO, RC_KERNEL }, { true, 5, -EIO, RC_KERNEL },
		{ false, 6, -EIO, RC_KERNEL }, { false, 3, -ENOMEM, -ENOMEM }, { true, 12, -ENOMEM, -ENOMEM },
		{ false, 25, -EIO, RC_KERNEL },
	};
	struct rig r;
	struct kset *ks;
	struct sequence *s, *clean;
	float *right, *logits;
	(void)state;

	rig_open(&r, cut_dir, 2);
	ks = failing_set(&r);
	right = malloc(bytes(&r, 1));
	logits = malloc(bytes(&r, 1));
	clean = tinykit_sequence(&r.kit);
	step(&r, &r.kit.native, clean, N_TOK - 1, NULL);
	assert_int_equal(one_more(&r, r.kit.ref, clean, NULL, right), 0);
	s = tinykit_sequence(&r.kit);
	step(&r, &r.kit.native, s, N_TOK - 1, NULL);
	for (size_t i = 0; i < mem_countof(all); i++) {
		fail_here = all[i].here;
		fail_with = all[i].with;
		atomic_store(&fail_in, all[i].at);
		assert_int_equal(one_more(&r, ks, s, NULL, logits), all[i].rc);
		assert_non_null(strstr(buf_str(&r.kit.why), "rms_norm of failing failed"));
		assert_int_equal(!strstr(buf_str(&r.kit.why), "rank 1: "), all[i].here);
		expect_as_before(&r, s);
	}
	for (int at = 0; at < 40; at += 13) {
		int left = at;
		struct forward_watch w = { .arg = &left, .stop = stops };

		assert_int_equal(one_more(&r, r.kit.ref, s, &w, logits), RC_CANCELLED);
		expect_as_before(&r, s);
	}
	atomic_store(&fail_in, -1);
	assert_int_equal(one_more(&r, ks, s, NULL, logits), 0);
	assert_memory_equal(logits, right, bytes(&r, 1));
	sequence_free(&s);
	sequence_free(&clean);
	kset_unpin(&ks);
	free(right);
	free(logits);
	rig_close(&r);
}

static void test_a_step_that_none_can_begin(void **state)
{
	int32_t bad = -1;
	struct rig r;
	struct sequence *s;
	float *logits;
	(void)state;

	rig_open(&r, cut_dir, 2);
	logits = malloc(bytes(&r, 1));
	s = tinykit_sequence(&r.kit);
	assert_int_equal(tinykit_step(&r.kit, r.kit.ref, &r.kit.native, s, &bad, 1, 1, logits), RC_INVALID);
	step(&r, &r.kit.native, s, 1, logits);
	assert_int_equal(sequence_pos(sequence_rank(s, 1)), 1);
	sequence_free(&s);
	free(logits);
	rig_close(&r);
}

/* ---- kept and resumed ---- */

static void test_resumed_at_an_edge(void **state)
{
	struct rig r;
	struct sequence *s;
	struct sequence_block *block[2] = { NULL, NULL };
	struct sequence_state *st;
	float *right, *logits;
	(void)state;

	if (WARM_RACES_ONLY)
		skip();
	rig_open(&r, cut_dir, 2);
	right = malloc(bytes(&r, N_LONG - 256));
	logits = malloc(bytes(&r, N_LONG - 256));
	s = tinykit_sequence(&r.kit);
	step(&r, &r.kit.native, s, 256, NULL);
	for (int i = 0; i < 2; i++)
		block[i] = sequence_share(s, i);
	assert_int_equal(sequence_save(s, 256, &st), 0);
	step(&r, &r.kit.native, s, N_LONG - 256, right);
	sequence_free(&s);
	s = tinykit_sequence(&r.kit);
	assert_int_equal(sequence_resume(s, block, st), 0);
	step(&r, &r.kit.native, s, N_LONG - 256, logits);
	assert_memory_equal(logits, right, bytes(&r, N_LONG - 256));
	sequence_free(&s);
	for (int i = 0; i < 2; i++)
		sequence_block_unref(&block[i]);
	sequence_state_unref(&st);
	free(right);
	free(logits);
	rig_close(&r);
}

/* ---- the draft block ---- */

struct streams {
	int layer;
	size_t row;
	float *data;
};

static void keep_streams(void *arg, int layer, int n_tok, const float *streams)
{
	struct streams *k = arg;

	if (layer == k->layer)
		memcpy(k->data, streams, (size_t)n_tok * k->row * sizeof *streams);
}

static float *drafts(struct rig *r)
{
	const struct model_config *c = r->kit.model->config;
	struct streams k = { c->n_layers - 1, (size_t)c->hc_mult * (size_t)c->hidden_size, NULL };
	struct forward_tap tap = { .arg = &k, .streams = keep_streams };
	struct sequence *s = tinykit_sequence(&r->kit);
	struct forward_item item = { s, fix.token, N_TOK, 0 };
	struct forward_batch b = { .kset = r->kit.ref, .numerics = &r->kit.exact, .phase = DSV4_PREFILL, .item = &item,
				   .n_item = 1, .tap = &tap };
	float *logits = malloc(bytes(r, N_TOK));

	k.data = malloc(N_TOK * k.row * sizeof *k.data);
	if (forward_run(r->kit.forward, &b, &r->kit.why))
		fail_msg("%s", buf_str(&r->kit.why));
	for (int pos = 0; pos < N_TOK; pos += N_TOK / 3) {
		struct mtp_item m = { s, k.data + (size_t)pos * k.row, fix.token + pos + 1, N_TOK / 3, N_TOK / 3 };
		struct mtp_batch mb = { .kset = r->kit.ref, .numerics = &r->kit.exact, .phase = DSV4_PREFILL,
					.item = &m, .n_item = 1,
					.logits = logits + (size_t)pos * (size_t)r->kit.vocab };

		if (mtp_run(r->kit.forward, &mb, &r->kit.why))
			fail_msg("%s", buf_str(&r->kit.why));
	}
	assert_int_equal(sequence_mtp_pos(s), N_TOK);
	free(k.data);
	sequence_free(&s);
	return logits;
}

static void test_drafts_are_those_of_one(void **state)
{
	struct rig one, r;
	float *a, *b;
	(void)state;

	rig_open(&one, cut_dir, 1);
	rig_open(&r, cut_dir, 2);
	a = drafts(&one);
	b = drafts(&r);
	expect_close(a, b, (size_t)N_TOK * (size_t)r.kit.vocab, "drafts");
	free(a);
	free(b);
	rig_close(&one);
	rig_close(&r);
}

/* ---- the program ---- */

static int setup(void **state)
{
	const char *top = getenv("top_srcdir"), *tmp = getenv("TMPDIR");
	struct tinykit k = { .vocab = 2048 };

	(void)state;
	snprintf(tiny_dir, sizeof tiny_dir, "%s/etc/tiny", top ? top : ".");
	snprintf(cut_dir, sizeof cut_dir, "%.40s/dsv4-ranks-XXXXXX", tmp ? tmp : "/tmp");
	assert_non_null(mkdtemp(cut_dir));
	write_model();
	tinykit_tokens(&k, 1, fix.token, N_LONG);
	fix.main = pthread_self();
	return 0;
}

static int teardown(void **state)
{
	char command[80];

	(void)state;
	snprintf(command, sizeof command, "rm -r %s", cut_dir);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_attention_and_head_are_the_bits_of_one),
		cmocka_unit_test(test_whole_model_is_that_of_one),
		cmocka_unit_test(test_any_batch_has_the_same_bits),
		cmocka_unit_test(test_a_failure_on_one_ends_all),
		cmocka_unit_test(test_a_step_that_none_can_begin),
		cmocka_unit_test(test_resumed_at_an_edge),
		cmocka_unit_test(test_drafts_are_those_of_one),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
