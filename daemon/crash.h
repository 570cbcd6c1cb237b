/* SPDX-License-Identifier: MIT
 * crash.h - one line in the log when a signal ends the daemon: which kernel it was in.
 * Threads: main sets it up; the handler runs on whichever crashes. Locks: none. */
#ifndef DAEMON_CRASH_H
#define DAEMON_CRASH_H

/* From now on SIGSEGV, SIGBUS, SIGILL and SIGFPE are logged before they do what they did before: end the process, as a
 * rule with a core. */
void crash_log(void);

#endif
