/* SPDX-License-Identifier: MIT
 * golden.c - what ref computes here: a digest of every op's results on made-up inputs, cheap enough for every start.
 * Threads: any. Locks: none. */
#include "plugins/check/golden.h"
#include "engine/base/buf.h"
#include "engine/base/sha256.h"
#include "plugins/check/check.h"
#include "plugins/check/check_run.h"
#include "plugins/ref/ref.h"

#define GOLDEN_SEED 20250101

struct golden {
	struct check_kernel ref;
	struct check_team *team;
	struct buf digests;        /* one after the other, of each case */
};

static const struct check_way golden_way = { "golden", CHECK_SPLIT_WHOLE, 1, 0, 0, false };

static void golden_add(struct buf *b, const void *data, size_t n)
{
	uint8_t one[32];

	sha256(one, data, n);
	buf_add(b, (const char *)one, sizeof one);
}

/* Only what is defined counts: the rest of a row is as the op found it. */
static void golden_result(struct golden *g, const struct check_result *r)
{
	struct buf b = { 0 };

	buf_printf(&b, "%d\n", r->rc);
	for (int i = 0; i < r->n_out && !r->rc; i++)
		for (int64_t row = 0; row < r->out[i].n_row; row++)
			buf_add(&b, (const char *)r->out[i].data + row * r->out[i].ld * 4,
				(size_t)check_valid(&r->out[i], row) * 4);
	golden_add(&g->digests, b.data, b.len);
	buf_fini(&b);
}

static int golden_case(struct golden *g, const struct case_spec *spec, int i)
{
	const struct case_op *op = case_ops[g->ref.op];
	struct check_finding found = { 0 };
	struct check_result r = { 0 };
	struct check_case c;
	int rc;

	case_init(&c, GOLDEN_SEED + (uint64_t)i, GUARD_BYTES);
	rc = op->make(&c, spec, i);
	rc = rc ? rc : case_keep(&c);
	rc = rc ? rc : check_run(&g->ref, &c, &golden_way, g->team, &found, &r);
	if (rc == 0)
		golden_result(g, &r);
	check_result_fini(&r);
	case_fini(&c);
	return rc == CASE_SKIP ? 0 : rc;
}

static int golden_op(struct golden *g, enum dsv4_phase phase, enum dsv4_wfmt wfmt)
{
	const struct case_spec spec = { .shape = &check_shape_tiny, .phase = phase, .wfmt = wfmt,
					.numerics = DSV4_EXACT, .abi_minor = DSV4_ABI_MINOR, .quick = true };
	int rc = 0;

	for (int i = 0; i < case_ops[g->ref.op]->n && !rc; i++)
		rc = golden_case(g, &spec, i);
	return rc;
}

int check_golden(uint8_t ret_digest[32])
{
	static const struct dsv4_host none; /* ref keeps no state */
	struct golden g = { 0 };
	int rc = check_team_new(1, &g.team);

	check_host_init(&g.ref.host, &none);
	for (int op = 0; op < DSV4_N_OP; op++)
		for (int ph = 0; ph < DSV4_N_PHASE; ph++)
			for (int wf = 0; wf < (case_ops[op]->weighted ? DSV4_N_WFMT : 1) && !rc; wf++) {
				g.ref.op = (enum dsv4_op)op;
				g.ref.fn = ref_plugin.op[op].fn;
				rc = golden_op(&g, (enum dsv4_phase)ph, (enum dsv4_wfmt)wf);
			}
	if (rc == 0)
		sha256(ret_digest, g.digests.data, g.digests.len);
	check_team_free(&g.team);
	buf_fini(&g.digests);
	return rc;
}
