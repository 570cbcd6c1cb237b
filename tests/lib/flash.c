/* SPDX-License-Identifier: MIT
 * flash.c - makes a directory with the whole inventory of DeepSeek-V4-Flash: true headers over sparse files.
 * Threads: one. */
#include "tests/lib/flash.h"
#include "engine/base/buf.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LAYERS 43
#define HASH_LAYERS 3
#define EXPERTS 256

struct flash {
	const char *dir;
	enum flash_kind kind;
	bool data;
	struct buf header, map;  /* of the file being written; of the index */
	uint64_t at;             /* data bytes of the file being written */
	char file[64];
	int stages;              /* blocks under mtp. */
	struct flash_total total;
	int rc;
};

static int flash_ratio(int layer)
{
	return layer < 2 ? 0 : layer % 2 == 0 ? 4 : 128;
}

/* ---- one tensor ---- */

/* dims: d1 0 is a vector, d0 0 a scalar. */
static void flash_put(struct flash *f, const char *dtype, int bytes, int64_t d0, int64_t d1, const char *name)
{
	uint64_t size = (uint64_t)bytes * (uint64_t)(d0 ? d0 : 1) * (uint64_t)(d1 ? d1 : 1);

	buf_printf(&f->header, "%c\"%s\":{\"dtype\":\"%s\",\"shape\":[", f->header.len ? ',' : '{', name,
		   dtype);
	if (d1)
		buf_printf(&f->header, "%" PRId64 ",%" PRId64, d0, d1);
	else if (d0)
		buf_printf(&f->header, "%" PRId64, d0);
	buf_printf(&f->header, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", f->at, f->at + size);
	buf_printf(&f->map, "%s\n  \"%s\": \"%s\"", f->map.len ? "," : "", name, f->file);
	f->at += size;
	f->total.tensors++;
	f->total.bytes += size;
}

/* PREFIX + name, with a suffix. */
static const char *flash_name(char out[160], const char *prefix, const char *name, const char *suffix)
{
	snprintf(out, 160, "%s%s%s", prefix, name, suffix);
	return out;
}

static void flash_bf16(struct flash *f, const char *prefix, const char *name, int64_t d0, int64_t d1)
{
	char full[160];

	flash_put(f, "BF16", 2, d0, d1, flash_name(full, prefix, name, ".weight"));
}

static void flash_f32(struct flash *f, const char *prefix, const char *name, int64_t d0, int64_t d1)
{
	char full[160];

	flash_put(f, "F32", 4, d0, d1, flash_name(full, prefix, name, ""));
}

/* Every side here is a multiple of 128. */
static void flash_fp8(struct flash *f, const char *prefix, const char *name, int64_t rows, int64_t cols)
{
	bool wide = f->kind == FLASH_BASE;
	char full[160];

	flash_put(f, "F8_E4M3", 1, rows, cols, flash_name(full, prefix, name, ".weight"));
	flash_put(f, wide ? "F32" : "F8_E8M0", wide ? 4 : 1, rows / 128, cols / 128,
		  flash_name(full, prefix, name, ".scale"));
}

static void flash_expert(struct flash *f, const char *prefix, const char *name, int64_t rows, int64_t cols)
{
	bool nvfp4 = f->kind == FLASH_NVFP4 && strncmp(prefix, "layers.", 7) == 0;
	char full[160];

	if (f->kind == FLASH_BASE) {
		flash_fp8(f, prefix, name, rows, cols);
	} else if (nvfp4) {
		flash_put(f, "U8", 1, rows, cols / 2, flash_name(full, prefix, name, ".weight"));
		flash_put(f, "F8_E4M3", 1, rows, cols / 16, flash_name(full, prefix, name, ".weight_scale"));
		flash_put(f, "F32", 4, 0, 0, flash_name(full, prefix, name, ".weight_scale_2"));
		flash_put(f, "F32", 4, 0, 0, flash_name(full, prefix, name, ".input_scale"));
	} else {
		flash_put(f, "I8", 1, rows, cols / 2, flash_name(full, prefix, name, ".weight"));
		flash_put(f, "F8_E8M0", 1, rows, cols / 32, flash_name(full, prefix, name, ".scale"));
	}
}

/* ---- one file ---- */

static int flash_write(int fd, const void *data, size_t len)
{
	ssize_t n = write(fd, data, len);

	return n == (ssize_t)len ? 0 : n < 0 ? -errno : -EIO;
}

static void flash_text(struct flash *f, const char *name, const char *text, size_t len)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof path, "%s/%s", f->dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || flash_write(fd, text, len) < 0)
		f->rc = f->rc ? f->rc : -errno;
	if (fd >= 0)
		close(fd);
}

static void flash_begin(struct flash *f)
{
	f->total.files++;
	snprintf(f->file, sizeof f->file, "model-%05d-of-%05d.safetensors", f->total.files, 45 + f->stages);
	buf_clear(&f->header);
	f->at = 0;
}

static void flash_end(struct flash *f)
{
	unsigned char prefix[8];
	char path[4096];
	size_t i;
	int fd;

	buf_addc(&f->header, '}');
	while (f->header.len % 8)
		buf_addc(&f->header, ' ');
	for (i = 0; i < 8; i++)
		prefix[i] = (unsigned char)(f->header.len >> 8 * i);
	snprintf(path, sizeof path, "%s/%s", f->dir, f->file);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || flash_write(fd, prefix, 8) || flash_write(fd, f->header.data, f->header.len) ||
	    (f->data && ftruncate(fd, (off_t)(8 + f->header.len + f->at)) < 0))
		f->rc = f->rc ? f->rc : errno ? -errno : -EIO;
	if (fd >= 0)
		close(fd);
}

/* ---- the model ---- */

static void flash_hc_head(struct flash *f, const char *prefix)
{
	flash_f32(f, prefix, "hc_head_fn", 4, 16384);
	flash_f32(f, prefix, "hc_head_base", 4, 0);
	flash_f32(f, prefix, "hc_head_scale", 1, 0);
}

static void flash_attention(struct flash *f, const char *prefix, int ratio)
{
	flash_f32(f, prefix, "attn.attn_sink", 64, 0);
	flash_bf16(f, prefix, "attn.q_norm", 1024, 0);
	flash_bf16(f, prefix, "attn.kv_norm", 512, 0);
	flash_fp8(f, prefix, "attn.wq_a", 1024, 4096);
	flash_fp8(f, prefix, "attn.wq_b", 32768, 1024);
	flash_fp8(f, prefix, "attn.wkv", 512, 4096);
	flash_fp8(f, prefix, "attn.wo_a", 8192, 4096);
	flash_fp8(f, prefix, "attn.wo_b", 4096, 8192);
	if (ratio == 0)
		return;
	flash_f32(f, prefix, "attn.compressor.ape", ratio, ratio == 4 ? 1024 : 512);
	flash_bf16(f, prefix, "attn.compressor.norm", 512, 0);
	flash_bf16(f, prefix, "attn.compressor.wkv", ratio == 4 ? 1024 : 512, 4096);
	flash_bf16(f, prefix, "attn.compressor.wgate", ratio == 4 ? 1024 : 512, 4096);
	if (ratio != 4)
		return;
	flash_fp8(f, prefix, "attn.indexer.wq_b", 8192, 1024);
	flash_bf16(f, prefix, "attn.indexer.weights_proj", 64, 4096);
	flash_f32(f, prefix, "attn.indexer.compressor.ape", 4, 256);
	flash_bf16(f, prefix, "attn.indexer.compressor.norm", 128, 0);
	flash_bf16(f, prefix, "attn.indexer.compressor.wkv", 256, 4096);
	flash_bf16(f, prefix, "attn.indexer.compressor.wgate", 256, 4096);
}

static void flash_moe(struct flash *f, const char *prefix, bool hash)
{
	char full[160];
	int e;

	flash_bf16(f, prefix, "ffn.gate", EXPERTS, 4096);
	if (hash)
		flash_put(f, "I64", 8, 129280, 6, flash_name(full, prefix, "ffn.gate.tid2eid", ""));
	else
		flash_f32(f, prefix, "ffn.gate.bias", EXPERTS, 0);
	flash_fp8(f, prefix, "ffn.shared_experts.w1", 2048, 4096);
	flash_fp8(f, prefix, "ffn.shared_experts.w2", 4096, 2048);
	flash_fp8(f, prefix, "ffn.shared_experts.w3", 2048, 4096);
	for (e = 0; e < EXPERTS; e++) {
		snprintf(full, sizeof full, "%sffn.experts.%d.", prefix, e);
		flash_expert(f, full, "w1", 2048, 4096);
		flash_expert(f, full, "w2", 4096, 2048);
		flash_expert(f, full, "w3", 2048, 4096);
	}
}

static void flash_block(struct flash *f, const char *prefix, int ratio, bool hash)
{
	flash_bf16(f, prefix, "attn_norm", 4096, 0);
	flash_bf16(f, prefix, "ffn_norm", 4096, 0);
	flash_f32(f, prefix, "hc_attn_fn", 24, 16384);
	flash_f32(f, prefix, "hc_attn_base", 24, 0);
	flash_f32(f, prefix, "hc_attn_scale", 3, 0);
	flash_f32(f, prefix, "hc_ffn_fn", 24, 16384);
	flash_f32(f, prefix, "hc_ffn_base", 24, 0);
	flash_f32(f, prefix, "hc_ffn_scale", 3, 0);
	flash_attention(f, prefix, ratio);
	flash_moe(f, prefix, hash);
}

static void flash_stage(struct flash *f, int stage)
{
	char prefix[24];

	snprintf(prefix, sizeof prefix, "mtp.%d.", stage);
	flash_block(f, prefix, 0, false);
	if (f->kind != FLASH_0731) {
		flash_fp8(f, prefix, "e_proj", 4096, 4096);
		flash_fp8(f, prefix, "h_proj", 4096, 4096);
		flash_bf16(f, prefix, "enorm", 4096, 0);
		flash_bf16(f, prefix, "hnorm", 4096, 0);
	} else if (stage == 0) {
		flash_fp8(f, prefix, "main_proj", 4096, 12288);
		flash_bf16(f, prefix, "main_norm", 4096, 0);
	}
	if (stage < f->stages - 1)
		return;
	flash_bf16(f, prefix, "norm", 4096, 0);
	flash_hc_head(f, prefix);
	if (f->kind == FLASH_0731) {
		flash_bf16(f, prefix, "markov_head.markov_w1", 129280, 256);
		flash_bf16(f, prefix, "markov_head.markov_w2", 129280, 256);
		flash_bf16(f, prefix, "confidence_head.proj", 1, 4352);
	}
}

static void flash_shards(struct flash *f)
{
	char prefix[24];
	int i;

	flash_begin(f);
	flash_bf16(f, "", "embed", 129280, 4096);
	flash_end(f);
	for (i = 0; i < LAYERS; i++) {
		flash_begin(f);
		snprintf(prefix, sizeof prefix, "layers.%d.", i);
		flash_block(f, prefix, flash_ratio(i), i < HASH_LAYERS);
		flash_end(f);
	}
	flash_begin(f);
	flash_hc_head(f, "");
	flash_bf16(f, "", "head", 129280, 4096);
	flash_bf16(f, "", "norm", 4096, 0);
	flash_end(f);
	for (i = 0; i < f->stages; i++) {
		flash_begin(f);
		flash_stage(f, i);
		flash_end(f);
	}
}

/* The published config.json, but for what differs between releases. */
static const char flash_published[] =
	"{\"architectures\":[\"DeepseekV4ForCausalLM\"],\"model_type\":\"deepseek_v4\",\"vocab_size\":129280,"
	"\"hidden_size\":4096,\"num_hidden_layers\":43,\"num_nextn_predict_layers\":1,\"num_attention_"
	"heads\":64,"
	"\"num_key_value_heads\":1,\"head_dim\":512,\"qk_rope_head_dim\":64,\"q_lora_rank\":1024,\"o_lora_"
	"rank\":1024,"
	"\"o_groups\":8,\"n_routed_experts\":256,\"n_shared_experts\":1,\"num_experts_per_tok\":6,"
	"\"moe_intermediate_size\":2048,\"num_hash_layers\":3,\"scoring_func\":\"sqrtsoftplus\","
	"\"topk_method\":\"noaux_tc\",\"norm_topk_prob\":true,\"routed_scaling_factor\":1.5,\"swiglu_limit\":"
	"10.0,"
	"\"hidden_act\":\"silu\",\"index_n_heads\":64,\"index_head_dim\":128,\"index_topk\":512,"
	"\"sliding_window\":128,\"hc_mult\":4,\"hc_sinkhorn_iters\":20,\"hc_eps\":1e-6,\"rms_norm_eps\":1e-6,"
	"\"rope_theta\":10000,\"compress_rope_theta\":160000,\"rope_scaling\":{\"type\":\"yarn\",\"factor\":"
	"16,"
	"\"beta_fast\":32,\"beta_slow\":1,\"original_max_position_embeddings\":65536},"
	"\"max_position_embeddings\":1048576,\"attention_bias\":false,\"attention_dropout\":0.0,"
	"\"tie_word_embeddings\":false,\"bos_token_id\":0,\"eos_token_id\":1,\"torch_dtype\":\"bfloat16\","
	"\"initializer_range\":0.02,\"transformers_version\":\"4.57.1\",\"use_cache\":true,"
	"\"quantization_config\":{\"quant_method\":\"fp8\",\"fmt\":\"e4m3\",\"activation_scheme\":"
	"\"dynamic\","
	"\"weight_block_size\":[128,128]";

static void flash_config(const struct flash *f, struct buf *out)
{
	int i, n = LAYERS + f->stages;

	buf_adds(out, flash_published);
	if (f->kind == FLASH_NVFP4)
		buf_adds(out, ",\"quant_algo\":\"MIXED_PRECISION\",\"moe_quant_algo\":\"NVFP4\",\"group_"
			      "size\":16}");
	else
		buf_adds(out, ",\"scale_fmt\":\"ue8m0\"}");
	if (f->kind == FLASH_0731)
		buf_adds(out, ",\"expert_dtype\":\"fp4\",\"dspark_block_size\":5,\"dspark_markov_rank\":256,"
			 "\"dspark_noise_token_id\":128799,\"dspark_target_layer_ids\":[40,41,42]");
	if (f->kind == FLASH_BASE)
		buf_adds(out, ",\"expert_dtype\":\"fp8\"");
	buf_adds(out, ",\"compress_ratios\":[");
	for (i = 0; i < n; i++)
		buf_printf(out, "%s%d", i ? "," : "", i < LAYERS ? flash_ratio(i) : 0);
	buf_adds(out, "]}\n");
}

int flash_make(const char *dir, enum flash_kind kind, bool data, struct flash_total *ret_total)
{
	struct flash f = { .dir = dir, .kind = kind, .data = data, .stages = kind == FLASH_0731 ? 3 : 1 };
	struct buf text = { 0 };

	flash_config(&f, &text);
	flash_text(&f, "config.json", buf_str(&text), text.len);
	flash_shards(&f);
	buf_clear(&text);
	buf_printf(&text, "{\"metadata\":{\"total_size\":%" PRIu64 "},\n \"weight_map\":{%s}}\n",
		   f.total.bytes, buf_str(&f.map));
	flash_text(&f, "model.safetensors.index.json", buf_str(&text), text.len);
	buf_fini(&text);
	buf_fini(&f.header);
	buf_fini(&f.map);
	*ret_total = f.total;
	return f.rc;
}

void flash_remove(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;

	while (d && (e = readdir(d)) != NULL)
		if (strncmp(e->d_name, "model", 5) == 0 || strcmp(e->d_name, "config.json") == 0)
			unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		closedir(d);
	rmdir(dir);
}

int flash_kind_find(const char *name)
{
	static const char *const names[] = { "flash", "0731", "base", "nvfp4" };
	int i;

	for (i = 0; i < 4; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	return -1;
}
