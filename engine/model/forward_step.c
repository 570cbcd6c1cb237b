/* SPDX-License-Identifier: MIT
 * forward_step.c - a step's begin and end on a device: whether it is a graph, the one wait, what is read back.
 * Threads: as forward.h. Locks: none. */
#include "engine/base/rc.h"
#include "engine/model/forward_priv.h"

#include <errno.h>
#include <string.h>

/* Where nobody looks at rank 0 alone all ranks come here, and what was captured is launched by all or by none. */
int forward_look(struct forward *f)
{
	int rc = f->no_graph ? 0 : forward_agree(f, forward_ready(f));

	return rc ? rc : queue_sync(f->queue, f->why);
}

int forward_pass_by(struct forward *f, enum dsv4_op op, enum dsv4_wfmt wf)
{
	return !f->gpu || kset_slot(f->kset, op, f->phase, wf)->provider->host.gpu ? 0 : forward_look(f);
}

int forward_begin(struct forward *f, struct buf *why)
{
	f->detour = f->watch || f->gpu;
	f->logits_back = f->streams_back = NULL;
	f->told = false;
	if (!f->queue)
		f->queue = queue_new(f->device, why);
	if (!f->queue)
		return RC_DEVICE;
	if (f->slots)
		expert_slots_fill(f->slots, f->queue);
	return 0;
}

int forward_capture(struct forward *f)
{
	const char *why = f->no_graph;

	if (!f->gpu || f->phase != DSV4_DECODE)
		return 0;
	if (!why && f->n_pass < f->plain_until)
		why = f->lacks ? "no memory for a graph" : "another GPU has no memory for a graph";
	if (why) {
		queue_no_graph(f->queue, why);
		return 0;
	}
	f->lacks = queue_graph(f->queue, f->generation) != 0;
	return f->lacks ? FORWARD_NO_GRAPH : 0;
}

int forward_ready(struct forward *f)
{
	if (queue_ready(f->queue)) {
		f->lacks = true;
		return FORWARD_NO_GRAPH;
	}
	return f->m->n_rank < 2 ? 0 : queue_failed(f->queue);
}

void forward_last(struct forward *f)
{
	size_t row = (size_t)f->m->config->hc_mult * (size_t)f->m->config->hidden_size;

	if (f->tap && f->tap->end) /* short of memory the queue fails */
		f->streams_back = queue_fetch(f->queue, f->streams, (size_t)f->n_tok * row * sizeof *f->streams);
	if (f->slots)
		expert_slots_fetch(f->slots, f->queue);
}

/* Its rows of the head, of every token's logits. */
static void forward_give_logits(const struct forward *f, float *logits)
{
	size_t rows = (size_t)f->m->weights->head.rows, vocab = (size_t)f->m->config->vocab_size;

	for (size_t i = 0; i < (size_t)f->n_want; i++)
		memcpy(logits + i * vocab + f->m->lm_head_row, f->logits_back + i * rows, rows * sizeof *logits);
}

static int forward_end_gpu(struct forward *f, int rc)
{
	/* The driver's words say more than the op's; nobody's words are lost to a number. */
	struct buf *say = rc && rc != RC_KERNEL && f->why && f->why->len ? NULL : f->why;
	int end;

	if (f->told) {
		queue_drop(f->queue); /* some of what was captured another may wait for, which has not captured it */
		if (f->slots)
			expert_slots_drop(f->slots);
	}
	/* What it has grown to is what others lack. */
	if (rc == -ENOMEM) {
		(void)queue_end(f->queue, say);
		forward_release(f);
		if (f->slots)
			expert_slots_end(f->slots, true);
		return rc;
	}
	end = queue_end(f->queue, say);
	if (f->slots)
		expert_slots_end(f->slots, end != 0);
	return end && (rc == 0 || rc == RC_KERNEL) ? end : rc;
}

int forward_end(struct forward *f, int rc, float *logits)
{
	bool wanted = forward_own_logits(f) && f->n_want > 0 && f->m->weights->head.rows > 0;

	if (f->gpu && f->queue)
		rc = forward_end_gpu(f, rc);
	if (rc)
		return rc;
	if (wanted && !f->logits_back)
		return buf_why(f->why, -ENOMEM, "no memory to read logits back");
	if (wanted)
		forward_give_logits(f, logits);
	return 0;
}

void forward_tell_end(const struct forward *f)
{
	if (f->tap && f->tap->end)
		f->tap->end(f->tap->arg, f->n_tok, f->streams_back);
}
