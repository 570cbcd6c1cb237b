/* SPDX-License-Identifier: MIT
 * repack.c - copies of FP4 experts in the form that kernels read fastest (plugins/dsv4_rows16.h), made while serving.
 * Threads: one starts and stops; its own packs; kernels read what is there; any wants and looks. Locks: none (atomics):
 * who runs only where nobody else wants to must hold none. */
#include "engine/model/repack.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/model/model.h"
#include "plugins/dsv4_rows16.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define REPACK_REST 9         /* times as long as an expert took, while the engine is busy */
#define REPACK_ALIGN 64

/* One layer's copies: anonymous memory in huge pages, an expert after the other. */
struct repack_layer {
	struct weights_layer *w;
	char *data;
	size_t size;
};

struct repack {
	struct repack_options o;
	atomic_bool stop, wanted;
	sem_t bell;                   /* rung when either has changed */
	atomic_int state, n_done;     /* as viewed */
	_Atomic uint64_t bytes;
	_Atomic(const char *) why;
	pthread_t thread;
	bool started;
	struct repack_layer *layer;   /* [n_layer] those with FP4 experts */
	int n_layer, n_expert;
};

/* ---- sizes ---- */

static size_t repack_matrix(const struct dsv4_weight *w)
{
	size_t n = dsv4_rows16_size(w->rows, w->cols);

	return (n + REPACK_ALIGN - 1) / REPACK_ALIGN * REPACK_ALIGN;
}

static size_t repack_expert(const struct dsv4_expert *e)
{
	return repack_matrix(&e->w1) + repack_matrix(&e->w2) + repack_matrix(&e->w3);
}

/* All experts of a layer are of one format and of one shape. */
static bool repack_has(const struct weights_layer *w)
{
	return w->expert[0].w1.fmt == DSV4_W_FP4;
}

/* The draft block's experts too, if it is there. */
static struct weights_layer *repack_layer_of(const struct model *m, int i)
{
	struct model_weights *w = m->weights;

	return i < w->config.n_layers ? &w->layer[i] : i == w->config.n_layers && w->mtp ? &w->mtp->layer : NULL;
}

uint64_t repack_bytes(const struct model *m)
{
	const struct weights_layer *w;
	uint64_t n = 0;

	for (int i = 0; (w = repack_layer_of(m, i)) != NULL; i++)
		if (repack_has(w))
			n += (uint64_t)repack_expert(&w->expert[0]) * (uint64_t)m->config->n_experts;
	return n;
}

/* ---- memory ---- */

/* What the system could give without swapping; UINT64_MAX when it does not say. */
static uint64_t repack_available(void)
{
	FILE *f = fopen("/proc/meminfo", "re");
	uint64_t kb = UINT64_MAX / 1024;
	char line[128];

	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "MemAvailable: %" SCNu64, &kb) == 1)
			break;
	if (f)
		fclose(f);
	return kb * 1024;
}

/* Gives up. Whatever is packed stays, the rest is read as the file has it. */
static bool repack_end(struct repack *r, const char *what)
{
	atomic_store(&r->why, what);
	atomic_store(&r->state, REPACK_STOPPED);
	return false;
}

static bool repack_room(struct repack *r, struct repack_layer *l)
{
	char *p;

	if (repack_available() < r->o.spare + repack_expert(&l->w->expert[0]))
		return repack_end(r, "memory is short");
	if (l->data)
		return true;
	p = mmap(NULL, l->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return repack_end(r, "no memory for a layer");
	(void)madvise(p, l->size, MADV_HUGEPAGE);
	if (r->o.lock && mlock2(p, l->size, MLOCK_ONFAULT) < 0) {
		munmap(p, l->size);
		return repack_end(r, "a layer cannot be locked in memory");
	}
	l->data = p;
	return true;
}

/* ---- packing ---- */

/* False when it is to stop. */
static bool repack_pack(struct repack *r, const struct dsv4_weight *w, char *out)
{
	size_t panel = dsv4_rows16_panel_size(w->cols);

	for (int64_t i = 0; i < dsv4_rows16_panels(w->rows); i++) {
		if (atomic_load_explicit(&r->stop, memory_order_relaxed))
			return false;
		dsv4_rows16_pack(w, i, out + (size_t)i * panel);
	}
	return true;
}

/* The kernel is to read what is packed next, or may forget what has been. */
static void repack_advise(struct repack *r, const struct dsv4_expert *e, bool next)
{
	const struct dsv4_weight *const w[] = { &e->w1, &e->w2, &e->w3 };

	for (size_t i = 0; i < mem_countof(w); i++)
		(next ? weights_fetch : weights_forget)(r->o.model->weights, w[i]);
}

static void repack_publish(const void **to, const void *data)
{
	__atomic_store_n(to, data, __ATOMIC_RELEASE);
}

static bool repack_one(struct repack *r, struct repack_layer *l, int e)
{
	const struct dsv4_expert *x = &l->w->expert[e];
	char *w1 = l->data + (size_t)e * repack_expert(x), *w2 = w1 + repack_matrix(&x->w1),
		*w3 = w2 + repack_matrix(&x->w2);

	repack_advise(r, x, true);
	if (!repack_pack(r, &x->w1, w1) || !repack_pack(r, &x->w2, w2) || !repack_pack(r, &x->w3, w3))
		return false;
	repack_publish(&l->w->packed[e].w1, w1);
	repack_publish(&l->w->packed[e].w2, w2);
	repack_publish(&l->w->packed[e].w3, w3);
	repack_advise(r, x, false);
	atomic_fetch_add(&r->bytes, repack_expert(x));
	atomic_fetch_add(&r->n_done, 1);
	return true;
}

/* Until the time is over or the bell rings; ns < 0: until it rings. */
static void repack_sleep(struct repack *r, long long ns)
{
	long long end = clock_ns() + ns;
	struct timespec t = { .tv_sec = end / 1000000000, .tv_nsec = end % 1000000000 };

	if (ns < 0)
		(void)sem_wait(&r->bell);
	else
		(void)sem_clockwait(&r->bell, CLOCK_MONOTONIC, &t);
}

/* As long as the work of ns has earned, and until it is wanted. False when it is to stop. */
static bool repack_rest(struct repack *r, long long ns)
{
	if (r->o.busy && atomic_load(r->o.busy) && !atomic_load(&r->stop))
		repack_sleep(r, ns * REPACK_REST);
	while (!atomic_load(&r->wanted) && !atomic_load(&r->stop)) {
		atomic_store(&r->state, REPACK_WAITING);
		repack_sleep(r, -1);
	}
	atomic_store(&r->state, REPACK_RUNNING);
	return !atomic_load(&r->stop);
}

static bool repack_all(struct repack *r)
{
	long long took = 0;

	for (int i = 0; i < r->n_layer; i++)
		for (int e = 0; e < r->n_expert; e++) {
			long long begun;

			if (!repack_rest(r, took))
				return false;
			begun = clock_ns();
			if (!repack_room(r, &r->layer[i]) || !repack_one(r, &r->layer[i], e))
				return false;
			took = clock_ns() - begun;
		}
	return true;
}

static void *repack_main(void *arg)
{
	struct repack *r = arg;
	const struct sched_param none = { 0 };

	(void)pthread_setschedparam(pthread_self(), SCHED_IDLE, &none);
	if (repack_all(r))
		atomic_store(&r->state, REPACK_DONE);
	return NULL;
}

/* ---- life ---- */

static int repack_layers(struct repack *r)
{
	struct model *m = r->o.model;
	struct weights_layer *w;

	r->n_expert = m->config->n_experts;
	for (int i = 0; (w = repack_layer_of(m, i)) != NULL; i++) {
		if (!repack_has(w))
			continue;
		w->packed = mem_try((size_t)r->n_expert, sizeof *w->packed);
		if (!w->packed)
			return -ENOMEM;
		r->layer = mem_grow(r->layer, (size_t)r->n_layer + 1, sizeof *r->layer);
		r->layer[r->n_layer++] = (struct repack_layer){
			.w = w, .size = repack_expert(&w->expert[0]) * (size_t)r->n_expert };
	}
	return r->n_layer ? 0 : RC_UNSUPPORTED;
}

/* Signals are the main thread's. */
static int repack_thread(struct repack *r)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	sigdelset(&all, SIGBUS); /* a file that shrank: told by the handler as of any thread */
	must_zero(pthread_sigmask(SIG_SETMASK, &all, &old));
	rc = -pthread_create(&r->thread, NULL, repack_main, r);
	must_zero(pthread_sigmask(SIG_SETMASK, &old, NULL));
	r->started = rc == 0;
	return rc;
}

int repack_start(const struct repack_options *o, struct repack **ret_r, struct buf *why)
{
	struct repack *r = mem_new(sizeof *r);
	int rc;

	r->o = *o;
	must_zero(sem_init(&r->bell, 0, 0));
	atomic_store(&r->why, "");
	rc = repack_layers(r);
	rc = rc ? rc : repack_thread(r);
	if (rc) {
		repack_stop(&r);
		return buf_why(why, rc, rc == RC_UNSUPPORTED ? "the model has no FP4 experts to repack" :
			       "no memory to repack experts");
	}
	*ret_r = r;
	return 0;
}

void repack_want(struct repack *r, bool wanted)
{
	if (atomic_exchange(&r->wanted, wanted) != wanted)
		must_zero(sem_post(&r->bell));
}

void repack_view(struct repack *r, struct repack_view *ret_v)
{
	*ret_v = (struct repack_view){
		.state = (enum repack_state)atomic_load(&r->state),
		.n_done = atomic_load(&r->n_done),
		.n_total = r->n_layer * r->n_expert,
		.bytes = atomic_load(&r->bytes),
		.why = atomic_load(&r->why),
	};
}

void repack_stop(struct repack **pr)
{
	struct repack *r = *pr;

	*pr = NULL;
	if (!r)
		return;
	if (r->started) {
		atomic_store(&r->stop, true);
		must_zero(sem_post(&r->bell));
		must_zero(pthread_join(r->thread, NULL));
	}
	for (int i = 0; i < r->n_layer; i++) {
		free(r->layer[i].w->packed);
		r->layer[i].w->packed = NULL;
		if (r->layer[i].data)
			munmap(r->layer[i].data, r->layer[i].size);
	}
	free(r->layer);
	must_zero(sem_destroy(&r->bell));
	free(r);
}
