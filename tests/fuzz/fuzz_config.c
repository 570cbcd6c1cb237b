/* SPDX-License-Identifier: MIT
 * fuzz_config.c - any bytes as config.json and as generation_config.json; what is taken keeps its promises.
 * Threads: one. Locks: none. */
#include "engine/base/must.h"
#include "engine/checkpoint/generation_config.h"

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct model_config c = { .temperature = 1, .top_p = 1 };
	struct buf why = { 0 };

	if (model_config_parse((const char *)data, size, &c, &why) == 0) {
		must(c.n_layers >= 1 && c.n_layers <= MODEL_MAX_LAYERS && c.n_heads % c.o_groups == 0);
		must(c.rope_dim % 2 == 0 && c.rope_dim <= c.head_dim && c.rope_dim <= c.index_dim);
		must(c.experts_per_tok <= c.n_experts && c.norm_eps > 0 && c.yarn_factor >= 1);
	} else {
		must(why.len > 0);
	}
	generation_config_parse((const char *)data, size, &c, &why);
	must(c.temperature >= 0 && c.top_p >= 0 && c.top_p <= 1);
	buf_fini(&why);
	return 0;
}
