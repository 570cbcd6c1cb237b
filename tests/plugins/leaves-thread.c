/* SPDX-License-Identifier: MIT
 * leaves-thread.c - fixture: open() starts a thread that waits for ever, in libc and not in the plugin, so that it
 * survives the unmapping. */
#include <pthread.h>

#define FIXTURE_OPEN leaves_thread
#include "tests/plugins/fixture.h"

#include <unistd.h>

static void *leaves_wait(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static int leaves_thread(const struct dsv4_host *host, void **ret_state)
{
	pthread_t t;
	int e = pthread_create(&t, NULL, leaves_wait, NULL);

	(void)host;
	*ret_state = NULL;
	return e ? -e : -pthread_detach(t);
}

FIXTURE("leaves-thread")
