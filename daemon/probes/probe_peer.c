/* SPDX-License-Identifier: MIT
 * probe_peer.c - this daemon as the chat server that a probe talks to, mostly without a socket.
 * Threads: ops. Locks: none. */
#include "daemon/probes/probe_peer.h"
#include "api/chat/chat.h"
#include "ctl/probe/probe_http.h"
#include "engine/base/hexid.h"
#include "engine/base/mem.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <string.h>

/* An answer that the probe stops half-way, put together from the events seen so far. */
struct peer_stream {
	struct probe_here *here;
	probe_delta_f *delta;
	void *arg;
	struct buf reasoning, content;
	int tokens;
	bool stopped; /* by the probe */
};

bool probe_here_cancelled(struct probe_here *h)
{
	if (h->look)
		h->look(h);
	return h->cancel && atomic_load(h->cancel);
}

int probe_here_begin(struct probe_here *h, struct buf *why)
{
	if (h->cancel && atomic_load(h->cancel))
		return buf_why(why, RC_CANCELLED, "the run was cancelled");
	return h->admit ? h->admit(h, why) : 0;
}

static const struct peer_active {
	const char *probe, *why;
} peer_active_only[] = {
	{ "api", "it asks over HTTP, where the active set would answer" },
	{ "warmcold", "it looks for what the prefix cache has, which is of the active set" },
};

int probe_here_under(const char *probe, struct buf *why)
{
	for (size_t i = 0; i < mem_countof(peer_active_only); i++)
		if (!strcmp(probe, peer_active_only[i].probe))
			return buf_why(why, RC_INVALID,
				       "the probe %s cannot be run under a set that is not in force: %s", probe,
				       peer_active_only[i].why);
	return 0;
}

/* Not of the request and not of the set's kernels. */
static bool peer_turned_away(int rc)
{
	return rc == RC_DRAINING || rc == RC_BUSY || rc == RC_NOT_READY || rc == -ENOMEM;
}

static int peer_event(void *arg, const struct gen_event *ev)
{
	struct peer_stream *s = arg;
	bool reasoning = ev && ev->kind == GEN_EV_REASONING;

	if (probe_here_cancelled(s->here))
		return 1;
	if (!ev)
		return 0; /* a long prompt is computed, or the request waits */
	if (ev->kind == GEN_EV_LOGPROB)
		s->tokens++;
	if (!reasoning && ev->kind != GEN_EV_CONTENT)
		return 0;
	buf_add(reasoning ? &s->reasoning : &s->content, ev->text, ev->len);
	if (s->delta && s->delta(s->arg, reasoning, ev->text, ev->len))
		s->stopped = true;
	return s->stopped;
}

static int peer_chat(void *arg, json_t *body, probe_delta_f *delta, void *delta_arg, json_t **ret_reply,
		     struct buf *why)
{
	struct peer_stream s = { .here = arg, .delta = delta, .arg = delta_arg };
	struct chat_under under = s.here->under;
	char id[48];
	int rc;

	rc = probe_here_begin(s.here, why);
	if (rc)
		return rc;
	/* One LOGPROB event per token: the only count that an answer stopped half-way leaves. */
	if (delta)
		json_object_set_new(body, "logprobs", json_true());
	/* What was stopped half-way is what one wants to look at: its id is told too. */
	hexid_make(id, sizeof id, "req-");
	under.id = id;
	rc = chat_run(s.here->engine, &under, body, peer_event, &s, ret_reply, why);
	if (peer_turned_away(rc))
		s.here->refused = rc;
	if (s.stopped && rc == RC_CANCELLED) {
		*ret_reply = json_pack("{s:s, s:[{s:s, s:{s:s, s:s, s:s}}], s:{s:i, s:i}}", "id", id, "choices",
				       "finish_reason", "stopped_by_probe", "message", "role", "assistant", "content",
				       buf_str(&s.content),
				       "reasoning_content", buf_str(&s.reasoning), "usage", "prompt_tokens", 0,
				       "completion_tokens", s.tokens);
		rc = 0;
	}
	buf_fini(&s.reasoning);
	buf_fini(&s.content);
	return rc;
}

static int peer_http(void *arg, const struct probe_request *q, struct probe_reply *ret_r, struct buf *why)
{
	struct probe_here *h = arg;
	int rc = probe_here_begin(h, why);

	return rc ? rc : probe_http_exchange(h->front, q, ret_r, why);
}

/* These would look at what the active set does. */
static void probe_peer_under(struct probe_peer *p)
{
	p->http = NULL;
	p->replay = NULL;
}

void probe_peer_init(struct probe_peer *ret_p, struct probe_here *h)
{
	*ret_p = (struct probe_peer){
		.chat = peer_chat,
		.replay = probe_here_replay,
		.compare = probe_here_compare,
		.arg = h,
		.model = engine_model_name(h->engine),
		.context = engine_max_context(h->engine),
		.http = h->front ? peer_http : NULL,
		.local = h->local,
	};
	if (h->under.set)
		probe_peer_under(ret_p);
}
