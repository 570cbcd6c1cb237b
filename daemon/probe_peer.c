/* SPDX-License-Identifier: MIT
 * probe_peer.c - this daemon as the chat server that a probe talks to, without a socket.
 * Threads: ops. Locks: none. */
#include "daemon/probe_peer.h"
#include "api/chat/chat.h"
#include "engine/base/rc.h"

#include <string.h>

/* An answer that the probe stops half-way, put together from the events seen so far. */
struct peer_stream {
	probe_delta_f *delta;
	void *arg;
	struct buf reasoning, content;
	int tokens;
	bool stopped;
};

static int peer_event(void *arg, const struct gen_event *ev)
{
	struct peer_stream *s = arg;
	bool reasoning = ev->kind == GEN_EV_REASONING;

	if (ev->kind == GEN_EV_LOGPROB)
		s->tokens++;
	if (!reasoning && ev->kind != GEN_EV_CONTENT)
		return 0;
	buf_add(reasoning ? &s->reasoning : &s->content, ev->text, ev->len);
	if (s->delta && s->delta(s->arg, reasoning, ev->text, ev->len))
		s->stopped = true;
	return s->stopped;
}

static int peer_chat(void *arg, json_t *body, probe_delta_f *delta, void *delta_arg, json_t **ret_reply, struct buf *why)
{
	struct peer_stream s = { .delta = delta, .arg = delta_arg };
	int rc;

	/* One LOGPROB event per token: the only count that an answer stopped half-way leaves. */
	if (delta)
		json_object_set_new(body, "logprobs", json_true());
	rc = chat_run(arg, body, peer_event, &s, ret_reply, why);
	if (s.stopped && rc == RC_CANCELLED) {
		*ret_reply = json_pack("{s:[{s:s, s:{s:s, s:s, s:s}}], s:{s:i, s:i}}", "choices", "finish_reason",
				       "stopped_by_probe", "message", "role", "assistant", "content", buf_str(&s.content),
				       "reasoning_content", buf_str(&s.reasoning), "usage", "prompt_tokens", 0,
				       "completion_tokens", s.tokens);
		rc = 0;
	}
	buf_fini(&s.reasoning);
	buf_fini(&s.content);
	return rc;
}

void probe_peer_init(struct probe_peer *ret_p, struct engine *e)
{
	*ret_p = (struct probe_peer){
		.chat = peer_chat,
		.arg = e,
		.model = engine_model_name(e),
		.context = engine_max_context(e),
	};
}
