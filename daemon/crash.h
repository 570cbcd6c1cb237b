/* SPDX-License-Identifier: MIT
 * crash.h - one line in the log when a signal ends the daemon: which kernel it was in.
 * Threads: main sets it up; the handler runs on whichever crashes. Locks: none. */
#ifndef DAEMON_CRASH_H
#define DAEMON_CRASH_H

struct running;

/* From now on SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT (a failed must(), a service manager's watchdog) are logged
 * before they do what they did before: end the process, as a rule with a core. */
void crash_log(void);
/* What the log then says of an engine when the signal came to a thread that runs no kernel, such as a watchdog's, and
 * which kernel set is active. NULL: there is no engine. */
void crash_engine(const struct running *r);
void crash_kernels(const char *name);
/* Which plugins are mapped. */
void crash_plugins(const char *names);

#endif
