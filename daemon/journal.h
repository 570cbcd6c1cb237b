/* SPDX-License-Identifier: MIT
 * journal.h - the log in the journal's own form, when stderr leads there: each key=value a field of its own.
 * Threads: main sets it up; logging is any thread's. Locks: none. */
#ifndef DAEMON_JOURNAL_H
#define DAEMON_JOURNAL_H

/* MESSAGE is the line as stderr would have it, PRIORITY the level, DSV4_EVENT the event, DSV4_<KEY> each value,
 * unquoted: `journalctl -u dsv4d DSV4_EVENT=ready`. Does nothing when stderr is something else. */
void journal_use(void);

#endif
