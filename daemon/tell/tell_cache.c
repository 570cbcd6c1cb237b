/* SPDX-License-Identifier: MIT
 * tell_cache.c - metrics of the prefix cache, in memory and on disk.
 * Threads: control. Locks: the cache's, the disk's, the tally's, one after the other, inside calls. */
#include "api/http/metrics.h"
#include "daemon/daemon.h"
#include "daemon/tell/tell.h"
#include "engine/base/mem.h"

struct tell_count {
	enum metric id;
	uint64_t value;
};

static void tell_counts(const struct tell_count *row, size_t n, struct metrics *m)
{
	for (size_t i = 0; i < n; i++)
		metrics_put(m, row[i].id, (double)row[i].value, NULL);
}

static void tell_memory(const struct cache_stats *s, struct metrics *m)
{
	const struct tell_count row[] = {
		{ METRIC_cache_budget_bytes, s->budget },
		{ METRIC_cache_blocks, s->blocks },
		{ METRIC_cache_states, s->states },
		{ METRIC_cache_pinned_blocks, s->pinned },
		{ METRIC_cache_asked_tokens_total, s->tokens_asked },
		{ METRIC_cache_reused_tokens_total, s->tokens_reused },
		{ METRIC_cache_published_blocks_total, s->published },
		{ METRIC_cache_duplicate_blocks_total, s->duplicates },
		{ METRIC_cache_refused_total, s->refused },
		{ METRIC_cache_fetched_blocks_total, s->fetched },
	};

	metrics_put(m, METRIC_cache_bytes, (double)s->block_bytes, METRICS_LABELS("block"));
	metrics_put(m, METRIC_cache_bytes, (double)s->state_bytes, METRICS_LABELS("state"));
	metrics_put(m, METRIC_cache_evicted_total, (double)s->evicted_blocks, METRICS_LABELS("block"));
	metrics_put(m, METRIC_cache_evicted_total, (double)s->evicted_states, METRICS_LABELS("state"));
	tell_counts(row, mem_countof(row), m);
}

static void tell_reasons(const uint64_t n[CACHE_N_MISS], enum metric id, struct metrics *m)
{
	for (int i = 0; i < CACHE_N_MISS; i++)
		metrics_put(m, id, (double)n[i], METRICS_LABELS(cache_miss_name((enum cache_miss)i)));
}

static void tell_disk(struct cache_disk *disk, struct metrics *m)
{
	struct cache_disk_stats s;

	cache_disk_stats(disk, &s);
	const struct tell_count row[] = {
		{ METRIC_cache_disk_bytes, s.bytes },
		{ METRIC_cache_disk_files, s.files },
		{ METRIC_cache_disk_queued, s.queued },
		{ METRIC_cache_disk_written_files_total, s.written },
		{ METRIC_cache_disk_written_bytes_total, s.written_bytes },
		{ METRIC_cache_disk_raw_bytes_total, s.raw_bytes },
		{ METRIC_cache_disk_read_files_total, s.read },
		{ METRIC_cache_disk_read_bytes_total, s.read_bytes },
		{ METRIC_cache_disk_dropped_total, s.dropped },
		{ METRIC_cache_disk_over_rate_total, s.over_rate },
		{ METRIC_cache_disk_deleted_files_total, s.deleted },
		{ METRIC_cache_disk_bad_files_total, s.bad },
		{ METRIC_cache_disk_aside_files_total, s.aside },
		{ METRIC_cache_disk_refused_reads_total, s.reads_refused },
		{ METRIC_cache_disk_errors_total, s.errors },
	};

	tell_counts(row, mem_countof(row), m);
}

void tell_cache(struct daemon *d, struct metrics *m)
{
	struct cache_disk *disk = engine_cache_disk(d->engine);
	struct cache_stats s;
	struct tally_view t;

	cache_stats(engine_cache(d->engine), &s);
	tell_memory(&s, m);
	tell_reasons(s.miss, METRIC_cache_lookups_total, m);
	engine_tally(d->engine, &t);
	tell_reasons(t.missed_tokens, METRIC_cache_missed_tokens_total, m);
	if (disk)
		tell_disk(disk, m);
}
