/* SPDX-License-Identifier: MIT
 * checkpoint.c (test) - opening checkpoint directories: the tiny model, and directories wrong in one way each.
 * Threads: one. */
#include "engine/base/rc.h"
#include "engine/checkpoint.h"
#include "engine/weights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *tiny_dir(void)
{
	static char dir[4096];

	snprintf(dir, sizeof dir, "%s/etc/tiny", getenv("top_srcdir"));
	return dir;
}

static void tiny_opens(void **state)
{
	struct model_weights *w = NULL;
	struct buf why = { 0 };

	(void)state;
	if (weights_open(tiny_dir(), &w, &why))
		fail_msg("%s", buf_str(&why));
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
	buf_fini(&why);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tiny_opens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
