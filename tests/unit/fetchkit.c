/* SPDX-License-Identifier: MIT
 * fetchkit.c - a prefix cache over a disk, both of which are begun anew from the directory, and its prompts.
 * Threads: the test's and the disk's. Locks: none. */
#include "tests/unit/fetchkit.h"

#include <sched.h>

struct fetch fetch;

const struct kit_prompt fetch_four = { .n_block = 4, .extra = 9 };
const struct kit_prompt fetch_branch = { .n_block = 4, .extra = 9, .choice = { 0, 0, 1, 2 } };

static void fetch_start(int n)
{
	fetch.disk.options.model_id = kit_model;
	diskkit_open(&fetch.disk);
	fetch.kit = (struct cachekit){ .disk = fetch.disk.d };
	cachekit_init(&fetch.kit, n);
}

static void fetch_stop(void)
{
	cachekit_fini(&fetch.kit);
	diskkit_close(&fetch.disk);
}

void fetch_restart(int n)
{
	fetch_stop();
	fetch_start(n);
}

int fetch_setup(void **state)
{
	(void)state;
	diskkit_init(&fetch.disk);
	fetch_start(20);
	return 0;
}

int fetch_teardown(void **state)
{
	(void)state;
	fetch_stop();
	diskkit_fini(&fetch.disk);
	return 0;
}

void fetch_expect(const struct kit_prompt *p, int reused, int matched, enum cache_miss miss)
{
	struct kit_run r;

	kit_lookup(&fetch.kit, &r, p);
	if (r.find.reused != reused * SEQUENCE_BLOCK || r.find.matched != matched * SEQUENCE_BLOCK ||
	    r.find.miss != miss)
		fail_msg("%lld reused, %lld matched, %s", (long long)r.find.reused, (long long)r.find.matched,
			cache_miss_name(r.find.miss));
	kit_resume(&fetch.kit, &r); /* which checks what is in it */
	kit_release(&fetch.kit, &r);
}

struct cache_stats fetch_stats(void)
{
	struct cache_stats s;

	cache_stats(fetch.kit.cache, &s);
	return s;
}

void fetch_name(const struct kit_prompt *p, int i, enum cache_file_kind kind, struct cache_disk_name *ret_n)
{
	uint8_t numbers[32] = { p->numbers };
	int32_t token[KIT_TOKENS];

	ret_n->model = cache_disk_name_model(kit_model);
	ret_n->kind = kind;
	kit_tokens(p, token);
	cache_key_root(kit_model, numbers, &ret_n->key);
	for (int b = 0; b <= i; b++)
		cache_key_next(&ret_n->key, token + b * SEQUENCE_BLOCK, &ret_n->key);
}

void fetch_lookup(struct kit_run *r, const struct kit_prompt *p)
{
	uint8_t numbers[32] = { p->numbers };

	*r = (struct kit_run){ .prompt = *p };
	r->n = kit_tokens(p, r->token);
	assert_int_equal(sequence_new(&fetch.kit.layout, &r->seq), 0);
	cache_lookup(fetch.kit.cache, numbers, r->token, r->n, &r->path, &r->find);
}

void fetch_wait(struct kit_run *r)
{
	while (!cache_ready(fetch.kit.cache, r->path, &r->find))
		sched_yield();
}
