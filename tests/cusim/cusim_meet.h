/* SPDX-License-Identifier: MIT
 * cusim_meet.h - devices that gather: what libnccl.so.2's stand-in asks of the driver's.
 * Threads: any; every call takes the driver's lock. */
#ifndef CUSIM_MEET_H
#define CUSIM_MEET_H

#include <stddef.h>

struct cusim_meet;

/* Of n devices by number, each once; NULL: they are not. It lasts as long as the process. */
struct cusim_meet *cusim_meet_new(int n, const int *device);
/* Queued on the stream, or captured: dst, [n][bytes], gets every rank's src. A driver's result. */
int cusim_meet_gather(struct cusim_meet *m, int rank, void *dst, const void *src, size_t bytes, void *stream);
/* The rank's gathers that are queued are over, and left out. */
void cusim_meet_abort(struct cusim_meet *m, int rank);
/* Waits until no graph gathers for this rank; together: and until all others have come here. */
void cusim_meet_leave(struct cusim_meet *m, int rank, int together);

#endif
