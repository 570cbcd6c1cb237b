/* SPDX-License-Identifier: MIT
 * fake_engine.c - stands in for the engine at link time: generations follow a script in the prompt.
 * Threads: one per generation; the test's own. Lock: fake (everything). */
#include "tests/http/fake_engine.h"
#include "tests/http/fake_spec.h"
#include "engine/base/list.h"
#include "engine/base/lock.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct engine {
	struct lock lock;
	pthread_cond_t changed;
	struct tokenizer *tokenizer;
	struct model_config config;
	struct engine_status status;
	int live, submitted, cancelled, released;
	int places, reserved;
	json_t *last;
	json_t *labels;              /* by the request's id */
	json_t *messages, *kept;     /* by the request's id: what was submitted, what engine_keep() was given */
};

struct fake_event {
	struct list node;
	struct gen_event ev;
};

struct generation {
	struct engine *e;
	pthread_t thread;
	struct list queue;
	char *script, *id;
	bool cancel, finished;
	int generated, calls;
	size_t characters;     /* of content so far */
	void (*notify)(void *arg); void *arg;
};

struct engine *fake_engine_open(const char *model_dir)
{
	struct engine *e = mem_new(sizeof *e);
	struct buf path = { 0 }, why = { 0 };

	e->places = 256;
	lock_init(&e->lock, "fake");
	lock_cond_init(&e->changed);
	e->messages = json_object();
	e->kept = json_object();
	e->labels = json_object();
	buf_printf(&path, "%s/tokenizer.json", model_dir);
	if (tokenizer_open(buf_str(&path), &e->tokenizer, &why)) {
		fprintf(stderr, "%s\n", buf_str(&why));
		exit(1);
	}
	e->config.vocab_size = tokenizer_vocab(e->tokenizer);
	buf_fini(&path);
	buf_fini(&why);
	return e;
}

void fake_engine_close(struct engine **e)
{
	must((*e)->live == 0 && (*e)->reserved == 0);
	tokenizer_free(&(*e)->tokenizer);
	json_decref((*e)->last);
	json_decref((*e)->messages);
	json_decref((*e)->kept);
	json_decref((*e)->labels);
	lock_fini(&(*e)->lock);
	must_zero(pthread_cond_destroy(&(*e)->changed));
	free(*e);
	*e = NULL;
}

void fake_engine_places(struct engine *e, int n)
{
	lock_take(&e->lock);
	e->places = n;
	lock_drop(&e->lock);
}

static void fake_changed(struct engine *e)
{
	must_zero(pthread_cond_broadcast(&e->changed));
	lock_drop(&e->lock);
}

void fake_engine_release(struct engine *e)
{
	lock_take(&e->lock);
	e->released++;
	fake_changed(e);
}

void fake_engine_wait_live(struct engine *e, int n)
{
	lock_take(&e->lock);
	while (e->live != n)
		lock_wait(&e->lock, &e->changed, -1);
	lock_drop(&e->lock);
}

void fake_engine_counts(struct engine *e, int *ret_submitted, int *ret_cancelled)
{
	lock_take(&e->lock);
	*ret_submitted = e->submitted;
	*ret_cancelled = e->cancelled;
	lock_drop(&e->lock);
}

void fake_engine_set(struct engine *e, const struct engine_status *s)
{
	lock_take(&e->lock);
	e->status = *s;
	lock_drop(&e->lock);
}

char *fake_engine_last(struct engine *e)
{
	char *text;

	lock_take(&e->lock);
	text = json_dumps(e->last, JSON_COMPACT);
	lock_drop(&e->lock);
	must(text);
	return text;
}

/* ---- engine.h ---- */

bool engine_model_is(const struct engine *e, const char *name)
{
	return !strcmp(name, engine_model_name(e)) || !strncmp(name, "claude-", strlen("claude-"));
}

const char *engine_model_name(const struct engine *e)
{
	(void)e;
	return "fake";
}

const struct model_config *engine_config(const struct engine *e)
{
	return &e->config;
}

const struct tokenizer *engine_tokenizer(const struct engine *e)
{
	return e->tokenizer;
}

int engine_max_context(const struct engine *e)
{
	(void)e;
	return 4096;
}

void engine_numerics(struct engine *e, struct numerics *ret_n)
{
	(void)e;
	memset(ret_n, 0, sizeof *ret_n);
}

void engine_status(struct engine *e, struct engine_status *ret_s)
{
	lock_take(&e->lock);
	*ret_s = e->status;
	lock_drop(&e->lock);
}

/* Whoever is let go of is cancelled, as in the engine; why is not kept here. */
int engine_cancel(struct engine *e, const char *id, int why)
{
	(void)e;
	(void)id;
	(void)why;
	return RC_NOT_FOUND;
}

void gen_sampling_init(const struct engine *e, struct gen_sampling *s)
{
	(void)e;
	s->temperature = s->top_p = s->repetition_penalty = 1;
}

/* ---- a generation's thread ---- */

static void fake_put(struct generation *g, struct gen_event ev, const char *text, size_t len)
{
	struct fake_event *fe = mem_new(sizeof *fe);

	fe->ev = ev;
	fe->ev.stop--; /* zero is no stop string */
	fe->ev.len = len;
	fe->ev.text = mem_strndup(text, len);
	if (len >= 2 && !memcmp(text + len - 2, "\\0", 2))
		fe->ev.text[--fe->ev.len - 1] = '\0';
	for (size_t i = 0; ev.kind == GEN_EV_CONTENT && i < len; i++)
		g->characters += ((unsigned char)text[i] & 0xc0) != 0x80;
	lock_take(&g->e->lock);
	g->generated++;
	g->finished |= ev.kind == GEN_EV_FINISH;
	list_put(&g->queue, &fe->node);
	fake_changed(g->e);
	if (g->notify)
		g->notify(g->arg);
}

static void fake_finish(struct generation *g, enum gen_finish f, int rc, const char *detail)
{
	fake_put(g, (struct gen_event){ .kind = GEN_EV_FINISH, .finish = f, .rc = rc }, detail,
		 strlen(detail));
}

/* False when cancelled. */
static bool fake_wait(struct generation *g)
{
	bool go;

	lock_take(&g->e->lock);
	while (!g->cancel && !g->e->released)
		lock_wait(&g->e->lock, &g->e->changed, -1);
	go = !g->cancel;
	if (go)
		g->e->released--;
	lock_drop(&g->e->lock);
	return go;
}

static void fake_call(struct generation *g, const char *name, size_t n)
{
	struct gen_event ev = { .kind = GEN_EV_TOOL_BEGIN, .call = g->calls++ };
	char id[32];

	snprintf(id, sizeof id, "call_%d", g->calls);
	ev.tool_id = mem_strdup(id);
	fake_put(g, ev, name, n);
}

static void fake_logprob(struct generation *g, const char *text, enum gen_text of)
{
	struct gen_token_logprob lp = { atoi(text), -0.25f };
	struct gen_event ev = { .kind = GEN_EV_LOGPROB, .lp = lp, .lp_place = { of, g->characters }, .n_top = 1 };

	ev.top = mem_new(sizeof *ev.top);
	*ev.top = lp;
	fake_put(g, ev, "", 0);
}

/* Of one request's choices: 0, and then what the id ends with. */
static int fake_choice(const struct generation *g)
{
	const char *dash = strchr(g->id, '-');

	dash = dash ? strchr(dash + 1, '-') : NULL;
	return dash ? atoi(dash + 1) : 0;
}

static void fake_step(struct generation *g, const char *s, size_t len)
{
	char text[4096];
	size_t n = len - 1;

	snprintf(text, sizeof text, "%.*s", (int)n, s + 1);
	switch (s[0]) {
	case 'r': fake_put(g, (struct gen_event){ .kind = GEN_EV_REASONING }, s + 1, n); break;
	case 'c': fake_put(g, (struct gen_event){ .kind = GEN_EV_CONTENT }, s + 1, n); break;
	case 'b': fake_call(g, s + 1, n); break;
	case 'a': fake_put(g, (struct gen_event){ .kind = GEN_EV_TOOL_ARGS, .call = g->calls - 1 }, s + 1, n); break;
	case 'e': fake_put(g, (struct gen_event){ .kind = GEN_EV_TOOL_END, .call = g->calls - 1 }, "", 0); break;
	case 'l': fake_logprob(g, text, GEN_TEXT_CONTENT); break;
	case 'L': fake_logprob(g, text, GEN_TEXT_REASONING); break;
	case 'm': fake_logprob(g, text, GEN_TEXT_NONE); break;
	case 's': fake_finish(g, GEN_STOP, 0, "eos"); break;
	case 'n': fake_finish(g, GEN_LENGTH, 0, "max_tokens"); break;
	case 'S':
		fake_put(g, (struct gen_event){ .kind = GEN_EV_FINISH, .finish = GEN_STOP, .stop = atoi(text) + 1 },
			 "stop_string", strlen("stop_string"));
		break;
	case 'o': fake_finish(g, GEN_LENGTH, 0, "context"); break;
	case 'i': fake_finish(g, GEN_LENGTH, 0, "incomplete_tool_call"); break;
	case 'g': fake_finish(g, GEN_LENGTH, 0, "repetition"); break;
	case 't': fake_finish(g, GEN_TOOL_CALLS, 0, "tool_calls"); break;
	case 'x': fake_finish(g, GEN_ERROR, RC_KERNEL, text); break;
	case 'y':
		if (!n || atoi(text) == fake_choice(g))
			fake_finish(g, GEN_CANCELLED, RC_CANCELLED, "operator");
		break;
	case 'd':
		n = (size_t)snprintf(text, sizeof text, "%d", fake_choice(g));
		fake_put(g, (struct gen_event){ .kind = GEN_EV_CONTENT }, text, n);
		break;
	case 'K': break;
	case 'z': fake_finish(g, GEN_CANCELLED, RC_DRAINING, "cancelled"); break;
	default: must_fail("a known step", __FILE__, __LINE__, __func__);
	}
}

static bool fake_cancelled(struct generation *g)
{
	bool c;

	lock_take(&g->e->lock);
	c = g->cancel;
	lock_drop(&g->e->lock);
	return c;
}

static void *fake_thread(void *arg)
{
	struct generation *g = arg;
	const char *before = "c", *s = g->script;
	size_t n_before = 1;
	bool go = true;

	while (go && *s && !g->finished) {
		size_t n = strcspn(s, "|");

		if (*s == 'w')
			go = fake_wait(g);
		else if (*s == '*')
			for (int i = atoi(s + 1); i > 0 && (go = !fake_cancelled(g)); i--)
				fake_step(g, before, n_before);
		else
			fake_step(g, before = s, n_before = n);
		s += n + (s[n] == '|');
		go = go && !fake_cancelled(g);
	}
	if (!g->finished)
		fake_finish(g, go ? GEN_STOP : GEN_CANCELLED, 0, go ? "eos" : "cancelled");
	return NULL;
}

/* ---- engine.h ---- */

static const char *fake_label(const struct engine *e, const char *id)
{
	const char *s = json_string_value(json_object_get(e->labels, id));

	return s ? s : "";
}

/* Nothing is ever evicted. */
int engine_keep(struct engine *e, const char *id, struct buf *text)
{
	int rc = 0;

	lock_take(&e->lock);
	if (!json_object_get(e->messages, id))
		rc = RC_NOT_FOUND;
	else if (text->len)
		json_object_set_new(e->kept, id, json_stringn(text->data, text->len));
	else
		json_object_del(e->kept, id);
	lock_drop(&e->lock);
	buf_fini(text);
	return rc;
}

int engine_kept(struct engine *e, const char *id, const char *label, struct buf *ret_text, struct buf *ret_messages)
{
	char *messages;
	json_t *text;

	lock_take(&e->lock);
	text = json_object_get(e->kept, id);
	if (strcmp(label, fake_label(e, id)))
		text = NULL;
	if (text) {
		messages = json_dumps(json_object_get(e->messages, id), JSON_COMPACT);
		buf_add(ret_text, json_string_value(text), json_string_length(text));
		buf_adds(ret_messages, messages);
		free(messages);
	}
	lock_drop(&e->lock);
	return text ? 0 : RC_NOT_FOUND;
}

/* ---- generation.h ---- */

/* The last message's text, or the raw prompt's. */
static char *fake_script(struct engine *e, const struct generation_spec *spec)
{
	json_t *m = json_array_get(spec->messages, json_array_size(spec->messages) - 1);
	const char *text = spec->messages ? json_string_value(json_object_get(m, "content")) : spec->text;
	struct buf decoded = { 0 };
	char *script;

	if (!spec->tokens)
		return mem_strdup(text ? text : "");
	tokenizer_decode(e->tokenizer, spec->tokens, spec->n_tokens, true, &decoded);
	script = mem_strdup(buf_str(&decoded));
	buf_fini(&decoded);
	return script;
}

static int fake_live(struct engine *e)
{
	int n;

	lock_take(&e->lock);
	n = e->live;
	lock_drop(&e->lock);
	return n;
}

static int fake_refuse(struct engine *e, const char *script, struct buf *why)
{
	if (script[0] == 'K' && fake_live(e) < atoi(script + 1))
		return 0;
	switch (script[0]) {
	case 'K':
	case 'Q': return buf_why(why, RC_BUSY, "256 requests are waiting");
	case 'D': return buf_why(why, RC_DRAINING, "draining");
	case 'P': return buf_why(why, RC_CONTEXT, "prompt 5000 exceeds context 4096");
	case 'I': return buf_why(why, RC_INVALID, "%s: is not what the renderer takes", script + 1);
	default: return 0;
	}
}

int engine_reserve(struct engine *e, int n, struct buf *why)
{
	int rc = 0;

	lock_take(&e->lock);
	if (n > e->places)
		rc = buf_why(why, RC_INVALID, "%d at once, and no more than %d may ever wait", n, e->places);
	else
		e->reserved += n;
	lock_drop(&e->lock);
	return rc;
}

void engine_unreserve(struct engine *e, int n)
{
	lock_take(&e->lock);
	must(e->reserved >= n);
	e->reserved -= n;
	lock_drop(&e->lock);
}

int engine_submit(struct engine *e, const struct generation_spec *spec, struct generation **ret_g,
		  struct buf *why)
{
	char *script = fake_script(e, spec);
	json_t *last = fake_spec(spec);
	struct generation *g;
	int rc;

	lock_take(&e->lock);
	json_decref(e->last);
	e->last = last;
	if (spec->id && spec->messages)
		json_object_set_new(e->messages, spec->id, json_deep_copy(spec->messages));
	if (spec->id && spec->label)
		json_object_set_new(e->labels, spec->id, json_string(spec->label));
	lock_drop(&e->lock);
	rc = fake_refuse(e, script, why);
	if (rc) {
		free(script);
		return rc;
	}
	g = mem_new(sizeof *g);
	g->e = e;
	g->script = script;
	g->id = mem_strdup(spec->id ? spec->id : "gen-1");
	g->notify = spec->notify;
	g->arg = spec->arg;
	list_init(&g->queue);
	lock_take(&e->lock);
	must(!spec->reserved || e->reserved > 0);
	e->reserved -= spec->reserved;
	e->live++;
	e->submitted++;
	fake_changed(e);
	must_zero(pthread_create(&g->thread, NULL, fake_thread, g));
	*ret_g = g;
	return 0;
}

static bool fake_pop(struct generation *g, struct gen_event *ret_ev)
{
	struct fake_event *fe;

	if (list_empty(&g->queue))
		return false;
	fe = list_entry(g->queue.next, struct fake_event, node);
	list_del(&fe->node);
	*ret_ev = fe->ev;
	free(fe);
	return true;
}

bool generation_next(struct generation *g, struct gen_event *ret_ev)
{
	bool got;

	lock_take(&g->e->lock);
	got = fake_pop(g, ret_ev);
	lock_drop(&g->e->lock);
	return got;
}

int generation_wait(struct generation *g, struct gen_event *ret_ev, long timeout_ms)
{
	int rc = 0;

	lock_take(&g->e->lock);
	while (!fake_pop(g, ret_ev) && !rc)
		rc = lock_wait(&g->e->lock, &g->e->changed, timeout_ms);
	lock_drop(&g->e->lock);
	return rc;
}

void gen_event_fini(struct gen_event *ev)
{
	free(ev->text);
	free(ev->tool_id);
	free(ev->top);
	*ev = (struct gen_event){ 0 };
}

const char *generation_id(const struct generation *g)
{
	return g->id;
}

void generation_usage(struct generation *g, struct gen_usage *ret_u)
{
	lock_take(&g->e->lock);
	*ret_u = (struct gen_usage){ .prompt_tokens = 7, .completion_tokens = g->generated, .reasoning_tokens = 2,
				     .cached_tokens = 3 };
	lock_drop(&g->e->lock);
}

void generation_cancel(struct generation *g)
{
	lock_take(&g->e->lock);
	if (!g->cancel && !g->finished)
		g->e->cancelled++;
	g->cancel = true;
	fake_changed(g->e);
}

void generation_unref(struct generation **pg)
{
	struct generation *g = *pg;
	struct engine *e;
	struct gen_event ev;

	*pg = NULL;
	if (!g)
		return;
	e = g->e;
	generation_cancel(g);
	must_zero(pthread_join(g->thread, NULL));
	while (generation_next(g, &ev))
		gen_event_fini(&ev);
	free(g->script);
	free(g->id);
	free(g);
	lock_take(&e->lock);
	e->live--;
	fake_changed(e);
}
