/* SPDX-License-Identifier: MIT
 * fake_priv.h - the stand-in driver's inside: libcuda.so.1 over host memory and the simulator.
 * Threads: any; every call takes the one lock. */
#ifndef CUSIM_FAKE_PRIV_H
#define CUSIM_FAKE_PRIV_H

#include "engine/device/cuda_driver.h"
#include "tests/cusim/cusim_run.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_MAX_DEVICES CUSIM_MAX_DEVICES
#define FAKE_RELAXED 2                    /* of a capture */
#define FAKE_SHARED_PLAIN (48 << 10)      /* dynamic shared memory that needs no asking */

/* Results that cuda_driver.h has no use for. */
enum {
	FAKE_NOT_INITIALIZED = 3,
	FAKE_INVALID_DEVICE = 101,
	FAKE_INVALID_CONTEXT = 201,
	FAKE_INVALID_HANDLE = 400,
	FAKE_CAPTURE_UNSUPPORTED = 900
};

/* A context, too. */
struct fake_device {
	uint64_t total, used;
	uint64_t managed, most_pinned, pinned; /* managed memory may be had up to here; pinned memory, and how much is */
	int failed;              /* what the device does not recover from */
	int retained;
	struct fake_stream *streams; /* a list; its last is the default one */
};

/* Work that waits: records one after another, of their own sizes. */
enum fake_kind { FAKE_LAUNCH, FAKE_COPY, FAKE_COPY_ROWS, FAKE_GATHER };

/* A rank's part in a gather of cusim_meet.h. */
struct fake_gather {
	struct cusim_meet *meet;
	int rank;
	bool in_graph;
	const void *src;
	void *dst;
	size_t bytes;
};

struct fake_record {
	uint32_t size;           /* of all of it, what follows included */
	enum fake_kind kind;
	union {
		struct cusim_launch launch;  /* args follow */
		struct { void *to; const void *from; size_t bytes; bool here; } copy; /* here: the bytes follow */
		struct cuda_copy_rows rows;
		struct fake_gather gather;
	} u;
};

struct fake_work {
	char *p;
	size_t n, cap, n_record;
};

struct fake_stream {
	struct fake_device *device;
	struct fake_stream *next;
	struct fake_work queue, *graph; /* graph: what is being captured */
	size_t at;                  /* in the queue: what has run */
	bool running;
	bool relaxed, spoilt;       /* the capture: may memory be allocated meanwhile; was something done that may not */
};

/* The lock, and the calling thread's device: NULL and a result if there is none, or it is lost. */
struct fake_device *fake_enter(int *ret_rc);
void fake_leave(void);
/* Lets others in until one of them leaves; no device memory is shown meanwhile. */
void fake_wait(void);
/* By number, and back. */
struct fake_device *fake_device(int i);
int fake_device_number(const struct fake_device *d);
/* The kernel of a function's handle; may it be launched with so much dynamic shared memory? */
bool fake_function_takes(const void *function, uint32_t shared, const struct cusim_kernel **ret_k);

/* ---- fake_memory.c ---- */

enum fake_memory_kind { FAKE_PAGEABLE, FAKE_DEVICE, FAKE_MANAGED, FAKE_PINNED };
enum fake_memory_kind fake_memory_kind(const void *p);
/* Whose device memory it is; NULL: anybody's. */
const struct fake_device *fake_memory_owner(const void *p);
/* The host may not look at device memory; while work runs it is the device that looks. Calls nest. */
void fake_memory_show(void);
void fake_memory_hide(void);

/* ---- fake_queue.c ---- */

/* NULL is the device's own. */
struct fake_stream *fake_stream(struct fake_device *d, void *stream);
/* What may not be called while the stream is captured spoils the capture: 0, or that. */
int fake_stream_spoil(struct fake_stream *s);
void fake_work_append(struct fake_work *w, const struct fake_work *more);
void fake_work_free(struct fake_work *w);
/* Runs what waits on the stream, as far as it goes: CUDA_NOT_READY when the rest waits for other ranks. */
int fake_queue_run(struct fake_stream *s);
/* To its end. */
int fake_queue_finish(struct fake_stream *s);
/* All streams of the device. */
void fake_queue_drain(struct fake_device *d);
/* A call that no stream may be capturing under: spoils it. */
bool fake_queue_capturing(struct fake_device *d);
/* A record at the stream's end, or in what it captures. */
void fake_queue_gather(void *stream, const struct fake_gather *g);

/* ---- fake_meet.c ---- */

/* The record is its stream's next: is its gather over? */
bool fake_meet_come(const struct fake_gather *g);
/* A graph that gathers there is one more, or one less. */
void fake_meet_graph(const struct fake_gather *g, int more);

#endif
