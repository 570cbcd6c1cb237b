/* SPDX-License-Identifier: MIT
 * verbs_cache_dump.c - io.dsv4.Cache.Dump: a safetensors file in parts, each made when the last one has been taken.
 * Threads: control. Locks: none (the cache's, inside calls).
 *
 * The daemon writes no file for anybody: dsv4ctl does that, with its caller's rights. What waits is one part; the block
 * cannot be evicted meanwhile, since the dump refers to its memory. */
#include "daemon/verbs/cache_id.h"
#include "daemon/daemon.h"
#include "daemon/verbs/verbs.h"
#include "engine/base/base64.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdlib.h>
#include <string.h>

#define DUMP_PART (48u << 10) /* bytes; its base64 has a third more. A socket takes a few of them at once */

struct cache_dump_job {
	struct cache_dump *dump;
	uint64_t done;
	json_t *reply;         /* the last one */
	char part[DUMP_PART];
};

static void cache_dump_job_free(struct cache_dump_job *j)
{
	cache_dump_free(&j->dump);
	json_decref(j->reply);
	free(j);
}

static void cache_dump_gone(struct call *c)
{
	cache_dump_job_free(c->arg);
	call_fail(&c, RC_CANCELLED, NULL);
}

static void cache_dump_taken(struct call *c)
{
	struct cache_dump_job *j = c->arg;
	size_t n = cache_dump_read(j->dump, j->part, sizeof j->part);
	struct buf text = { 0 };

	if (n == 0) {
		json_t *reply = json_incref(j->reply);

		cache_dump_job_free(j);
		call_reply(&c, reply);
		return;
	}
	j->done += n;
	base64_put(&text, j->part, n);
	call_progress(c, json_pack("{s:s, s:{s:s, s:I, s:I}}", "part", buf_str(&text), "progress", "op", "dump", "done",
				   (json_int_t)j->done, "total", (json_int_t)cache_dump_bytes(j->dump)));
	buf_fini(&text);
}

static json_t *cache_dump_reply(const struct cache_copy *copy)
{
	char key[CACHE_KEY_HEX];

	return json_pack("{s:s, s:I, s:I, s:b}", "key", cache_key_hex(&copy->entry.key, key), "tokens",
			 (json_int_t)copy->n_token, "blocks", (json_int_t)copy->n_block, "state", copy->state != NULL);
}

/* The set is known by name only if it is the one in force. */
static int cache_dump_make(struct engine *e, struct cache_copy *copy, struct cache_dump **ret_d, struct buf *why)
{
	struct kset *ks = engine_kset(e);
	struct sequence_layout layout;
	struct numerics n;
	uint8_t numbers[32];
	int r;

	engine_numerics(e, &n);
	cache_numbers(ks, &n, numbers);
	sequence_layout_init(&layout, engine_config(e));
	r = cache_dump_new(&layout, copy, cache_model_id(engine_cache(e)),
			   memcmp(numbers, copy->entry.numbers, sizeof numbers) ? NULL : kset_name(ks), ret_d, why);
	kset_unpin(&ks);
	return r;
}

int verb_cache_dump(struct call *c, json_t **ret_reply, struct buf *why)
{
	struct cache_dump_job *j;
	struct cache_copy copy;
	int r = daemon_need_engine(c->daemon, why);

	(void)ret_reply;
	if (r == 0 && (!c->wire.more || c->wire.oneway))
		r = buf_why(why, RC_INVALID, "the file comes in parts: the call needs 'more'");
	r = r ? r : cache_id_get(engine_cache(c->daemon->engine), call_string(c, "id", ""), &copy, why);
	if (r)
		return r;
	j = mem_new(sizeof *j);
	j->reply = cache_dump_reply(&copy);
	r = cache_dump_make(c->daemon->engine, &copy, &j->dump, why);
	if (r) {
		cache_copy_fini(&copy);
		cache_dump_job_free(j);
		return r;
	}
	must(json_object_set_new(j->reply, "bytes", json_integer((json_int_t)cache_dump_bytes(j->dump))) == 0);
	c->arg = j;
	c->gone = cache_dump_gone;
	c->taken = cache_dump_taken;
	return CALL_LATER;
}
