/* SPDX-License-Identifier: MIT
 * request.c - one request on its way through the engine: made of a spec, admitted, fed, ended.
 * Threads: who submits makes it, then it is the engine thread's. Locks: generation, record. */
#include "engine/serve/request.h"
#include "engine/base/clock.h"
#include "engine/base/hexid.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/serve/request_answer.h"
#include "engine/serve/request_input.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* ---- limits ---- */

static int request_limits(struct request *r, const struct generation_spec *spec, struct buf *why)
{
	const struct request_env *env = r->env;
	int room = env->max_context - r->n_prompt;

	if (room <= 0)
		return buf_why(why, RC_CONTEXT, "prompt %d exceeds context %d%s", r->n_prompt,
			       env->max_context, room == 0 ? ": no room for an answer" : "");
	r->max_is_context = !spec->answer && (spec->max_tokens <= 0 || spec->max_tokens > room);
	r->max_out = spec->answer ? spec->n_answer : r->max_is_context ? room : spec->max_tokens;
	if (r->max_out > room)
		return buf_why(why, RC_CONTEXT, "prompt %d and answer %d exceed context %d", r->n_prompt, r->max_out,
			       env->max_context);
	r->need = sequence_layout_bytes(&env->model->layout, (int64_t)r->n_prompt + r->max_out);
	if (r->need > env->max_state)
		return buf_why(why, RC_TOO_LARGE,
			       "max_tokens: prompt %d and answer %d need %zu bytes of state, there are %zu",
			       r->n_prompt, r->max_out, r->need, env->max_state);
	request_cache_need(r);
	return 0;
}

static int request_check(const struct request_env *env, const struct generation_spec *spec, struct buf *why)
{
	if (spec->id && strlen(spec->id) >= GENERATION_ID_MAX)
		return buf_why(why, RC_INVALID, "request id: longer than %d bytes", GENERATION_ID_MAX - 1);
	return sampler_check(&spec->sampling, env->model->config->vocab_size, why);
}

/* ---- making ---- */

/* The prompt's last token says where the answer begins, whatever the renderer made of the request. */
static enum completion_mode request_mode(const struct request *r, const struct generation_spec *spec)
{
	if (!spec->parse)
		return COMPLETION_RAW;
	return r->prompt[r->n_prompt - 1] == r->env->think ? COMPLETION_THINKING : COMPLETION_CHAT;
}

/* In the request or, as the model's own encoder takes them, in a message. */
static bool request_offers_tools(const struct generation_spec *spec)
{
	bool any = json_array_size(spec->tools) > 0;
	json_t *m;
	size_t i;

	json_array_foreach(spec->messages, i, m)
		any |= json_array_size(json_object_get(m, "tools")) > 0;
	return any || !spec->messages;
}

static int request_machinery(struct request *r, const struct generation_spec *spec,
			     const struct gen_sampling *set, struct buf *why)
{
	struct completion_options o = { .stop = set->stop, .n_stop = set->n_stop };
	int rc = 0;

	o.mode = request_mode(r, spec);
	rc = request_must_init(r, spec, o.mode == COMPLETION_THINKING, why);
	if (rc)
		return rc;
	o.no_tools = spec->calls == GEN_CALLS_NONE || !request_offers_tools(spec);
	o.tokens_only = r->must.constraint && !constraint_watches(r->must.constraint);
	o.sure_json = o.tokens_only;
	o.tell = r->logprobs = set->logprobs;
	o.emit = request_answer_emit;
	o.arg = r;
	rc = completion_new(&o, &r->parser, why);
	if (rc)
		return rc;
	rc = sampler_new(set, r->env->model->config->vocab_size, &r->sampler);
	if (rc)
		return buf_why(why, rc, "no memory for the penalties' counts");
	sampler_prompt(r->sampler, r->prompt, r->n_prompt);
	r->ignore_eos = set->ignore_eos || spec->answer;
	if (!spec->answer)
		r->guard = loopguard_new(&spec->guard,
					 o.mode == COMPLETION_THINKING ? GEN_PART_REASONING : GEN_PART_CONTENT);
	return 0;
}

/* The record and the generation, which outlive the request; nothing can fail any more. */
static void request_publish(struct request *r, const struct generation_spec *spec,
			    const struct gen_sampling *set, uint64_t epoch, struct request_input *in)
{
	struct record_setup s = { .messages = &in->messages, .prompt = &in->text, .tokens = &in->ids };
	struct generation_setup gs = { .notify = spec->notify, .full = spec->full, .arg = spec->arg,
				       .wake = r->env->wake, .wake_arg = r->env->wake_arg };
	struct record_view *v = &s.view;

	if (spec->id)
		snprintf(v->id, sizeof v->id, "%s", spec->id);
	else
		hexid_make(v->id, sizeof v->id, "req-");
	snprintf(v->label, sizeof v->label, "%s", spec->label ? spec->label : "");
	s.kset = kset_name(r->kset);
	v->kset_generation = kset_generation(r->kset);
	v->epoch = epoch;
	v->thinking = spec->thinking;
	v->numerics = r->task.numerics;
	v->sampling = *set;
	v->max_tokens = r->max_out;
	r->rec = record_new(&s);
	gs.id = v->id;
	r->gen = generation_new(&gs);
	r->usage.prompt_tokens = r->n_prompt;
	generation_set_usage(r->gen, &r->usage);
}

/* Everything of a request that can be refused; `in` is filled in for the record. */
static int request_build(struct request *r, const struct generation_spec *spec,
			 const struct gen_sampling *set, struct request_input *in, struct buf *why)
{
	int rc = request_input_read(r->env, spec, &r->task.numerics, in, why);

	if (rc)
		return rc;
	r->n_prompt = r->task.left = in->ids.n;
	rc = request_limits(r, spec, why);
	if (rc)
		return rc;
	r->prompt = mem_try((size_t)r->n_prompt, sizeof *r->prompt);
	if (!r->prompt)
		return buf_why(why, -ENOMEM, "no memory for a prompt of %d tokens", r->n_prompt);
	memcpy(r->prompt, in->ids.id, (size_t)r->n_prompt * sizeof *r->prompt);
	return request_machinery(r, spec, set, why);
}

int request_new(const struct request_env *env, const struct generation_spec *spec, struct request_pins *pins,
		struct request **ret_r, struct generation **ret_g, struct buf *why)
{
	struct gen_sampling set = spec->sampling;
	struct request_input in = { 0 };
	struct request *r;
	int rc = request_check(env, spec, why);

	if (rc)
		return rc;
	r = mem_new(sizeof *r);
	r->env = env;
	r->own = pins->own;
	r->speculate = pins->speculate;
	r->cache.off = spec->cache_off;
	r->submitted_ns = clock_ns();
	list_init(&r->live);
	list_init(&r->task.link);
	r->task.numerics = pins->numerics;
	if (!set.has_seed)
		must(getrandom(&set.seed, sizeof set.seed, 0) == (ssize_t)sizeof set.seed);
	rc = request_build(r, spec, &set, &in, why);
	if (rc == 0) {
		r->kset = pins->kset;
		r->task.kset = r->kset;
		pins->kset = NULL;
		request_publish(r, spec, &set, pins->epoch, &in);
		*ret_g = r->gen;
		*ret_r = r;
	} else {
		request_free(&r);
	}
	request_input_fini(&in);
	return rc;
}

void request_free(struct request **pr)
{
	struct request *r = *pr;

	if (!r)
		return;
	*pr = NULL;
	request_cache_drop(r);
	sequence_free(&r->seq);
	sampler_free(&r->sampler);
	completion_free(&r->parser);
	buf_fini(&r->pick.why);
	free(r->untold);
	loopguard_free(&r->guard);
	request_must_fini(r);
	kset_unpin(&r->kset);
	record_unref(&r->rec);
	generation_release(&r->gen);
	free(r->prompt);
	free(r);
}

/* ---- running ---- */

void request_deadline(struct request *r, int seconds)
{
	r->deadline = seconds;
	r->deadline_ns = seconds > 0 ? clock_ns() + seconds * 1000000000LL : 0;
}

struct kset *request_repin(struct request *r, struct kset *ks)
{
	struct kset *old = r->kset;

	r->task.kset = r->kset = ks;
	return old;
}

int request_admit(struct request *r)
{
	int rc = sequence_new(&r->env->model->layout, &r->seq);

	if (rc)
		return rc;
	request_cache_resume(r);
	record_admitted(r->rec);
	return 0;
}

const int32_t *request_tokens(const struct request *r)
{
	return r->task.left ? r->prompt + r->n_prompt - r->task.left : r->next;
}

void request_computed(struct request *r, int n)
{
	if (r->task.left) {
		must(n <= r->task.left);
		r->task.left -= n;
	} else {
		request_cache_fed(r, r->next[0]);
	}
}

/* ---- ending ---- */

void request_cancelled(struct request *r, int why, struct request_end *ret_end)
{
	request_answer_end(r, COMPLETION_CANCELLED, ret_end);
	ret_end->rc = why;
	if (why == RC_UNREAD) {
		buf_clear(&ret_end->detail);
		buf_adds(&ret_end->detail, "unread");
	}
}

void request_failed(struct request *r, int rc, const char *why, struct request_end *ret_end)
{
	(void)r;
	*ret_end = (struct request_end){ .finish = GEN_ERROR, .rc = rc };
	buf_adds(&ret_end->detail, why && *why ? why : rc_text(rc));
}

void request_close(struct request *r, const struct request_end *end)
{
	unsigned flags = end->flags & ~(unsigned)COMPLETION_NO_END; /* the detail says so already */
	struct buf detail = { 0 };

	if (end->rc == RC_KERNEL)
		request_cache_distrust(r);
	if (end->finish == GEN_CANCELLED)
		request_cache_left(r);
	request_cache_drop(r);
	sequence_free(&r->seq);
	buf_adds(&detail, buf_str(&end->detail));
	if (flags) {
		buf_adds(&detail, " (");
		completion_remarks(flags, &detail);
		buf_addc(&detail, ')');
	}
	record_finished(r->rec, end->finish, end->rc, buf_str(&detail));
	buf_fini(&detail);
}

void request_tell(struct request *r, const struct request_end *end)
{
	generation_finish(r->gen, end->finish, end->rc, buf_str(&end->detail));
}
