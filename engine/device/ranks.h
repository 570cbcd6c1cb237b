/* SPDX-License-Identifier: MIT
 * ranks.h - devices that compute one model together: a thread drives each, and they meet to
 * agree and to share what each has.
 * Threads: one opens and closes; each rank's own thread agrees and gathers, a pass' leader
 * begins and ends it. Lock: ranks.
 *
 * A rank is one of them, by number. All ranks' threads make the same calls in the same order: what one does not, the
 * others wait for. Ranks in the CPU's memory are for tests of what is split; on GPUs, NCCL carries the bytes. What is
 * said here of GPUs has not run on one.
 *
 * With GPUs, queues are driven alike, too: all ranks capture a step or none does, and all sync at the same places,
 * since a gather that one has captured and not launched is one that the others wait for. Before a sync that ends a
 * capture each makes it ready (queue_ready()), they agree on that and on queue_failed(), and unless all is well all
 * queue_drop().
 *
 * When one breaks (device_broken()) so do all, and their waits end with RC_DEVICE; the words name the first. The same
 * comes of an error of NCCL, and of a captured step that one cannot launch. Not ended is a call into NCCL itself that
 * waits: none does once the first gather, which opening makes by a deadline, has connected the GPUs. */
#ifndef ENGINE_RANKS_H
#define ENGINE_RANKS_H

#include "engine/base/buf.h"
#include "engine/device/device.h"
#include "engine/device/queue.h"

#include <stdbool.h>
#include <stddef.h>

struct ranks;

/* What device_list.h reads: one device, or GPUs. RC_INVALID for other words; RC_UNAVAILABLE: no NCCL for several, they
 * are not of one compute capability, cannot gather, or were not connected within so many seconds; else as
 * device_open(). One alone needs no NCCL. */
int ranks_open(const char *names, int seconds, struct ranks **ret_r, struct buf *why);
/* Has that time passed once? Then a thread waits in NCCL for ever, nothing of those GPUs was freed, and what libraries
 * do when a program returns may wait for it: leave by _exit(). */
bool ranks_hung(void);
/* n >= 1 that are all device_cpu(). */
struct ranks *ranks_cpu(int n);
/* Nothing of its devices is in use, no queue is left: NCCL would wait for a graph that gathers. NULL is fine. */
void ranks_close(struct ranks **r);

int ranks_n(const struct ranks *r);
struct device *ranks_device(const struct ranks *r, int rank);

/* Between the two no other pass is: passes of several callers would mix what they gather. Waits, first come first
 * served, and returns for how many nanoseconds; held as long as the pass takes, and no lock. */
long long ranks_begin(struct ranks *r);
void ranks_end(struct ranks *r);

/* Returns when all ranks have called it: 0 if all said 0, else to each the code of the lowest rank that did not. Also a
 * rendezvous: what a rank wrote before, the others see after. A rank that waits watches a while, then sleeps. */
int ranks_agree(struct ranks *r, int rank, int rc);

/* Queued on q, a queue of the rank's device: dst, [ranks_n()][bytes] in its memory, gets every rank's src, [bytes], in
 * the order of ranks. All ranks call it with the same bytes after they agreed on 0; dst and src do not overlap. Errors:
 * the queue's next sync has them. */
void ranks_gather(struct ranks *r, int rank, struct queue *q, void *dst, const void *src, size_t bytes);

#endif
