/* SPDX-License-Identifier: MIT
 * engine.h - the engine's boundary: open a model, submit requests, read their events, look inside.
 * The daemon and api/ include this header and no other of engine/ (base/ apart; tests/includes.sh).
 * Threads: any thread may call; the engine thread runs the model. Locks: each call takes at most one. */
#ifndef ENGINE_H
#define ENGINE_H

#include "engine/base/buf.h"
#include "engine/gen.h"
#include "engine/serve/generation.h"
#include "engine/serve/pace.h"
#include "engine/serve/loopguard.h"
#include "engine/checkpoint/inspect.h"
#include "engine/device/device.h"
#include "engine/device/device_list.h"
#include "engine/device/queue.h"
#include "engine/device/ranks.h"
#include "engine/beside/compare.h"
#include "engine/beside/explain.h"
#include "engine/cache/cache.h"
#include "engine/cache/cache_disk.h"
#include "engine/cache/cache_dump.h"
#include "engine/cache/cache_numbers.h"
#include "engine/cache/cache_part.h"
#include "engine/kernels/kset.h"
#include "engine/checkpoint/model_config.h"
#include "engine/kernels/numerics.h"
#include "engine/model/placement.h"
#include "engine/kernels/pool.h"
#include "engine/model/repack.h"
#include "engine/kernels/running.h"
#include "engine/beside/shadow.h"
#include "engine/plugin/plugin_map.h"
#include "engine/text/prompt.h"
#include "engine/serve/recall.h"
#include "engine/serve/record.h"
#include "engine/serve/spec_render.h"
#include "engine/serve/tally.h"
#include "engine/text/token_find.h"
#include "engine/text/tokenizer.h"

#include <stdatomic.h>

struct engine;

/* Copies of FP4 experts in place of their native form in memory (model/repack.h). AUTO: where all weights take at most
 * three quarters of memory, while a kernel that reads them computes the experts. */
enum engine_repack { ENGINE_REPACK_NO, ENGINE_REPACK_YES, ENGINE_REPACK_AUTO };

struct engine_options {
	const char *model_dir;
	struct ranks *ranks;      /* where it computes; outlives the engine; NULL: the CPU */
	const char *model_name;   /* NULL: the directory's last component */
	const char *model_aliases; /* other names, separated by blanks, a final * for any rest; NULL: none */
	int n_threads;            /* 0: one per available CPU */
	enum pool_pin pin;        /* where they may run; zero: anywhere */
	enum engine_repack repack; /* copies of FP4 experts that kernels read faster; zero: none */
	bool mlock;               /* what is read of the weights stays in memory */
	int prefill_chunk;        /* tokens per prefill step; 0: default 512 */
	int max_context;          /* 0: the model's own limit */
	int max_running;          /* requests computed at once; 0: default 64 */
	int max_queued;           /* requests waiting while no place is free; more are RC_BUSY; 0: default 256 */
	/* All memory: of the host, or what a GPU has left beside the weights. */
	size_t state_bytes;       /* KV and compressor state of all requests; 0: half of all memory,
				   * less repacked experts */
	size_t cache_bytes;       /* prefix cache in memory; SIZE_MAX: an eighth of all memory; 0: off */
	const char *cache_dir;    /* prefix cache on disk; NULL or empty: none. One that fails is left out */
	size_t cache_disk_bytes, cache_write_rate; /* cache_disk.h */
	double cache_disk_patience; /* seconds that the disk may take for one file, and a request waits for it; 0: 5 */
	double recompute_patience; /* seconds that engine_recompute() waits for room; 0: 5 */
	int request_timeout;      /* seconds that a request may take, from its submission on; 0: no limit */
	int ring_requests;        /* finished requests kept for inspection; 0: default 256 */
	size_t ring_bytes;        /* and their bytes; 0: default 64 MiB */
	/* Told what opening does now, a literal, at each sign of progress; NULL: nobody. On the opening thread, and on those
	 * that copy weights. */
	void (*progress)(void *arg, const char *stage);
	void *progress_arg;
};

/* Opens the model, starts the pool and the engine thread. `why` names file, tensor, expected and found.
 * RC_MODEL, RC_UNSUPPORTED (deepseek_v41 and other architectures, by name), -ENOMEM, -errno. */
int engine_open(const struct engine_options *o, struct engine **ret_e, struct buf *why);
/* Cancels what runs, joins the threads, frees. Every request must have been unref'd by its owner. */
void engine_close(struct engine **e);

/* A GPU of its is lost, or a kernel on it failed: nothing runs any more. */
bool engine_device_lost(const struct engine *e);
const char *engine_model_name(const struct engine *e);
/* Is that its name, or another by which it may be asked for? */
bool engine_model_is(const struct engine *e, const char *name);
const struct model_config *engine_config(const struct engine *e);
const struct tokenizer *engine_tokenizer(const struct engine *e);
int engine_max_context(const struct engine *e);
/* Human-readable inventory: tensors, bytes by dtype and family, KV bytes per token. */
void engine_describe(const struct engine *e, struct buf *out);

/* ---- generating ---- */

/* Sets what generation_config.json of the model says; the rest of *s, zeroes so far, is neutral. */
void gen_sampling_init(const struct engine *e, struct gen_sampling *s);
/* Renders messages (an OpenAI-style array, see prompt.h), tokenizes, checks limits, and queues. On success
 * the caller owns one reference to *ret_g. Errors: RC_INVALID (why names the field), RC_CONTEXT ("prompt N
 * exceeds context M"), RC_TOO_LARGE (prompt and max_tokens need more state than there is), RC_BUSY,
 * RC_DRAINING, RC_NOT_READY (the engine failed). spec and everything it points to are copied. notify may be
 * called before this returns; *ret_g is set by then. */
int engine_submit(struct engine *e, const struct generation_spec *spec, struct generation **ret_g,
		  struct buf *why);

/* Holds n places in the queue, for requests that are to come all or none: each is then submitted with spec.reserved,
 * and the places of those that do not come are given back with engine_unreserve(). RC_INVALID when the queue never has
 * so many, RC_BUSY when it does not now, RC_DRAINING, RC_NOT_READY. */
int engine_reserve(struct engine *e, int n, struct buf *why);
void engine_unreserve(struct engine *e, int n);
/* Stops admitting (RC_DRAINING); running requests go on. engine_resume undoes it. */
void engine_drain(struct engine *e);
void engine_resume(struct engine *e);

/* ---- live control ---- */

/* The numerics and the kernel set that the next request will pin. */
void engine_numerics(struct engine *e, struct numerics *ret_n);
/* Validates and installs; a change that alters numbers starts a new epoch. RC_INVALID names parameter and
 * choices, RC_NOT_FOUND an unknown name. */
int engine_numerics_set(struct engine *e, const char *name, const char *value, struct buf *why);
/* The active set, pinned for the caller; kset_unpin() when done. */
struct kset *engine_kset(struct engine *e);
/* Installs set and numerics (NULL: those in force stay) as one; requests submitted from now on pin both. Takes
 * over the caller's pin of *ks and nulls it; on failure the pin stays the caller's and nothing has changed. A new
 * epoch starts when either gives other numbers than before.
 * at_step: running and queued requests go on with the new set from their next step, if nothing tells the two apart:
 * every slot of the active set, and of the set that any request runs under, has the new one's numerics tag, and
 * every request's numerics are the new ones. Requests that brought a set or numerics go on with those. Else RC_INVALID,
 * and why says what differs. */
int engine_activate(struct engine *e, struct kset **ks, const struct numerics *n, bool at_step, struct buf *why);
/* The same, with one thing more. keep_cache, for experiments: if the numbers change, requests under the new ones go
 * on from what the cache has in memory under those before (cache_keep()), until the next change without it. */
struct engine_change {
	const struct numerics *numerics;
	bool at_step, keep_cache;
};
int engine_change(struct engine *e, struct kset **ks, const struct engine_change *change, struct buf *why);
/* Are rows of other numbers gone on from? Then *ret_across gets across which change. */
bool engine_cache_kept(struct engine *e, struct buf *ret_across);

/* Speculation (serve/speculate.h) for requests submitted from now on: n drafts in each of their steps, at most; 0:
 * none. Changes no answer and no bit of its logits. RC_INVALID beyond SPECULATE_MAX, RC_UNSUPPORTED for a model without
 * a draft block. _can_ says the same and changes nothing. */
int engine_can_speculate(const struct engine *e, int n, struct buf *why);
int engine_speculate(struct engine *e, int n, struct buf *why);

/* While requests decode, prompts are computed in chunks so short that a step takes about so many milliseconds at most
 * (serve/pace.h), from the next step on; 0, as after opening: as long as it takes. Changes no bit of any answer. */
void engine_max_gap(struct engine *e, int ms);

/* A kernel that was believed was disproved (disproved.h), so every identity is another: the epoch rises. */
void engine_numbers_changed(struct engine *e);

/* Shadow (shadow.h): from the next step on, a share of the steps also run *ks beside the set that is active now; one
 * at a time, a new one takes the old one's place. Takes over the caller's pin of *ks. RC_INVALID for the share. */
int engine_shadow_start(struct engine *e, struct kset **ks, double share, struct buf *why);
/* RC_NOT_FOUND when there is none. */
int engine_shadow_stop(struct engine *e);
/* The figures so far; shadow_report_fini() after use. RC_NOT_FOUND when there is none. */
int engine_shadow_report(struct engine *e, struct shadow_report *ret_r);

/* Compare (compare.h): the prompt through two sets, on the calling thread and a pool of half the engine's threads,
 * while the engine goes on. The sets stay the caller's pins. */
struct engine_compare_options {
	struct compare_side a, b;
	const int32_t *tokens; int n_tokens;
	int max_tokens;           /* of each greedy answer */
	int seconds;              /* more is RC_TIMEOUT; 0: no limit */
	const atomic_bool *cancel; /* NULL: never; else RC_CANCELLED soon after it is set */
	void (*progress)(void *arg, int64_t done, int64_t total); void *arg; /* on the calling thread; NULL: none */
};
/* As compare_run(), and RC_TOO_LARGE when two sequences of that length exceed the engine's state memory. */
int engine_compare(struct engine *e, const struct engine_compare_options *o, struct compare_result *ret_r,
	struct buf *why);

/* Explain (explain.h): the tokens through one set, or two one after the other, as compare does it. */
struct engine_explain_options {
	struct compare_side side[2]; int n_side;
	const int32_t *tokens; int n_tokens, n_prompt;
	/* Who asks, if not the last: explain_options. A second side is asked where the first one's best was. */
	int first, n_span; const struct explain_span *span;
	int seconds;              /* as above */
	const atomic_bool *cancel;
	void (*progress)(void *arg, int64_t done, int64_t total); void *arg;
};
/* ret_r[n_side], each explain_result_fini() after use. As explain_run(), and RC_TIMEOUT, RC_TOO_LARGE. */
int engine_explain(struct engine *e, const struct engine_explain_options *o, struct explain_result *ret_r,
	struct buf *why);

struct engine_status {
	int running, queued, draining, failed; /* failed: the engine stopped for good; see why_failed */
	uint64_t steps, kernels;  /* kernels begun: goes on inside a step too, and stands still while one hangs */
	uint64_t epoch;           /* rises when the numbers change that the next request gets: cache_numbers.h */
	/* The active set since it was activated: steps that it ran in whole or in part, forward passes of it that a
	 * kernel failed. And such passes of any set, since the start. */
	uint64_t set_steps, set_failures, kernel_failures;
	uint64_t requests, finished, cancelled, errors;
	uint64_t prompt_tokens, cached_tokens, generated_tokens;
	double step_age;          /* seconds since the last step ended; 0 when idle */
	size_t state_bytes;       /* KV and compressor state of live sequences */
	struct repack_view repack; /* n_total 0: nothing is repacked */
	struct pace pace;         /* of prompts beside decoding */
	int n_threads, max_running, speculate;
	char why_failed[256];
};
void engine_status(struct engine *e, struct engine_status *ret_s);
/* Which kernel its threads are in; lives as long as the engine. */
const struct running *engine_running(const struct engine *e);
/* What it has done since it was opened (tally.h); counts that engine_status() has are not here again. */
void engine_tally(struct engine *e, struct tally_view *ret_v);

/* ---- the prefix cache (cache.h): any thread ---- */

struct cache *engine_cache(struct engine *e);
/* NULL: no disk cache, since none was asked for or it could not be opened: then engine_cache_disk_why() says why. */
struct cache_disk *engine_cache_disk(struct engine *e);
const char *engine_cache_disk_why(struct engine *e);
/* Recomputes the tokens [0, n) on the calling thread with the active set and numerics, whatever is cached, into a
 * fresh sequence; for cache verify. Waits a while for room in state_bytes; requests go first. -ENOMEM, RC_DRAINING,
 * RC_TOO_LARGE, RC_BUSY (they left no room), RC_CANCELLED, RC_KERNEL. The caller frees. */
int engine_recompute(struct engine *e, const int32_t *token, int64_t n, const atomic_bool *cancel,
	struct sequence **ret_s, struct buf *why);

/* ---- the request ring (record.h) ---- */

/* Newest first, running ones included; at most `max`. Each returned record holds a reference. */
int engine_records(struct engine *e, struct record **ret_r, int max);
/* By request id; NULL when unknown or evicted. The caller unrefs. */
struct record *engine_record(struct engine *e, const char *id);
/* What is known of the reasoning of earlier answers that were asked for under that label (record_is_of()), by the ids
 * of their calls; recall_free() after use. */
struct recall *engine_recall(const struct engine *e, const char *label);
/* Keeps a text with a request's record, for whoever submitted it and within the ring's bytes, in place of the one so
 * far; takes over what is in it. Without a text nothing is kept. RC_NOT_FOUND when the record is gone. */
int engine_keep(struct engine *e, const char *id, struct buf *text);
/* That text and the messages of the request, as JSON. RC_NOT_FOUND when nothing is kept, the record is gone, or it was
 * not submitted under that label (record_is_of()). */
int engine_kept(struct engine *e, const char *id, const char *label, struct buf *ret_text, struct buf *ret_messages);
/* Asks the request to stop at the next step, and tells its consumer why: RC_CANCELLED (someone wanted it) or
 * RC_DRAINING (the server stops). RC_NOT_FOUND. */
int engine_cancel(struct engine *e, const char *id, int why);

#endif
