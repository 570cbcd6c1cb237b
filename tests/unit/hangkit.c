/* SPDX-License-Identifier: MIT
 * hangkit.c - a disk that hangs: calls for cached files stay there until they are let go.
 * Threads: the test's decides, any hangs. Locks: its own. */
#include "tests/unit/hangkit.h"
#include "engine/cache/cache_dir.h"

#include <pthread.h>

static pthread_mutex_t hangkit_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t hangkit_cond = PTHREAD_COND_INITIALIZER;
static bool hangkit_on[HANGKIT_N_CALL];
static int hangkit_in;

int __real_cache_dir_open(struct cache_dir *d, const char *path, struct buf *why);
int __wrap_cache_dir_open(struct cache_dir *d, const char *path, struct buf *why);
int __real_cache_dir_read(struct cache_dir *d, const struct cache_disk_name *n, size_t max, size_t head,
	uint8_t **ret_bytes, size_t *ret_size, struct buf *why);
int __wrap_cache_dir_read(struct cache_dir *d, const struct cache_disk_name *n, size_t max, size_t head,
	uint8_t **ret_bytes, size_t *ret_size, struct buf *why);
int __real_cache_dir_write(struct cache_dir *d, const struct cache_disk_name *n, const uint8_t *bytes, size_t size,
	int64_t stamp, struct buf *why);
int __wrap_cache_dir_write(struct cache_dir *d, const struct cache_disk_name *n, const uint8_t *bytes, size_t size,
	int64_t stamp, struct buf *why);
int __real_cache_dir_remove(struct cache_dir *d, const struct cache_disk_name *n, bool bad);
int __wrap_cache_dir_remove(struct cache_dir *d, const struct cache_disk_name *n, bool bad);

static void hangkit_pass(enum hangkit_call call)
{
	pthread_mutex_lock(&hangkit_mutex);
	hangkit_in++;
	pthread_cond_broadcast(&hangkit_cond);
	while (hangkit_on[call])
		pthread_cond_wait(&hangkit_cond, &hangkit_mutex);
	hangkit_in--;
	pthread_mutex_unlock(&hangkit_mutex);
}

int __wrap_cache_dir_open(struct cache_dir *d, const char *path, struct buf *why)
{
	hangkit_pass(HANGKIT_OPEN);
	return __real_cache_dir_open(d, path, why);
}

int __wrap_cache_dir_read(struct cache_dir *d, const struct cache_disk_name *n, size_t max, size_t head,
	uint8_t **ret_bytes, size_t *ret_size, struct buf *why)
{
	hangkit_pass(HANGKIT_READ);
	return __real_cache_dir_read(d, n, max, head, ret_bytes, ret_size, why);
}

int __wrap_cache_dir_write(struct cache_dir *d, const struct cache_disk_name *n, const uint8_t *bytes, size_t size,
	int64_t stamp, struct buf *why)
{
	hangkit_pass(HANGKIT_WRITE);
	return __real_cache_dir_write(d, n, bytes, size, stamp, why);
}

int __wrap_cache_dir_remove(struct cache_dir *d, const struct cache_disk_name *n, bool bad)
{
	hangkit_pass(HANGKIT_REMOVE);
	return __real_cache_dir_remove(d, n, bad);
}

void hangkit_hang(enum hangkit_call call)
{
	pthread_mutex_lock(&hangkit_mutex);
	hangkit_on[call] = true;
	pthread_mutex_unlock(&hangkit_mutex);
}

void hangkit_hangs(void)
{
	pthread_mutex_lock(&hangkit_mutex);
	while (!hangkit_in)
		pthread_cond_wait(&hangkit_cond, &hangkit_mutex);
	pthread_mutex_unlock(&hangkit_mutex);
}

void hangkit_let_go(void)
{
	pthread_mutex_lock(&hangkit_mutex);
	for (int i = 0; i < HANGKIT_N_CALL; i++)
		hangkit_on[i] = false;
	pthread_cond_broadcast(&hangkit_cond);
	pthread_mutex_unlock(&hangkit_mutex);
}
