/* SPDX-License-Identifier: MIT
 * verbs_model.c - what model is served: io.dsv4.Engine.Model.
 * Threads: control. Locks: none. */
#include "daemon/daemon.h"
#include "daemon/verbs/verbs.h"
#include "engine/base/must.h"

#include <string.h>

int verb_model(struct call *c, json_t **ret_reply, struct buf *why)
{
	struct daemon *d = c->daemon;
	const struct model_config *m;
	struct buf text = { 0 };
	int r = daemon_need_engine(d, why);

	if (r)
		return r;
	m = engine_config(d->engine);
	engine_describe(d->engine, &text);
	*ret_reply = json_pack("{s:s, s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:o}", "name",
			       engine_model_name(d->engine), "dir",
			       varlink_string(conf_text(&d->conf, CONF_model),
					      strlen(conf_text(&d->conf, CONF_model))),
			       "layers", m->n_layers, "hidden", m->hidden_size, "heads", m->n_heads,
			       "experts", m->n_experts,
			       "experts_per_token", m->experts_per_tok, "vocab", m->vocab_size, "mtp_layers",
			       m->n_mtp,
			       "window", m->window, "index_topk", m->index_topk, "max_context",
			       engine_max_context(d->engine), "description",
			       varlink_string(text.data, text.len));
	buf_fini(&text);
	must(*ret_reply != NULL);
	return 0;
}
