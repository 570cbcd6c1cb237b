/* SPDX-License-Identifier: MIT
 * log.h - one key=value line per event on stderr, with <N> priorities, rate-limited per call site.
 * Threads: any. Locks: none (one write(2) per line). */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stddef.h>

/* syslog(3) priorities; the number is printed as <N>. */
enum log_level { LOG_LV_ERR = 3, LOG_LV_WARN = 4, LOG_LV_NOTICE = 5, LOG_LV_INFO = 6, LOG_LV_DEBUG = 7 };

#define LOG_QUOTE_MAX 512
#define LOG_BURST 20 /* lines per call site and second; the rest are counted and reported */

struct log_site {
	long long second; /* atomics: current second, lines in it, lines suppressed */
	int count, lost;
};

/* Logs `event` with printf-formatted "key=value key=value". Wrap any string that a peer or a file controls
 * in LOGQ(). Prompts and generated text are never logged above LOG_LV_DEBUG. */
#define log_event(level, event, ...) \
	do { \
		static struct log_site log_site_; \
		if (log_wants(level)) \
			log_write(&log_site_, (level), (event), __VA_ARGS__); \
	} while (0)

#define LOGQ(s) log_quote((char[LOG_QUOTE_MAX]){ 0 }, (s))

int log_wants(enum log_level level);
void log_set_level(enum log_level level);
enum log_level log_get_level(void);
/* "err", "warn", "notice", "info", "debug" or the digit; 0 or RC_INVALID. */
int log_parse_level(const char *name, enum log_level *ret_level);
const char *log_level_name(enum log_level level);
/* Where lines go instead of stderr: `event`, and its text, "key=value key=value". Set before other threads log. */
typedef void log_sink_f(enum log_level level, const char *event, const char *text);
void log_set_sink(log_sink_f *f);
void log_write(struct log_site *site, enum log_level level, const char *event, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Writes s into out (LOG_QUOTE_MAX bytes), quoted and escaped where it needs to be; returns out. */
const char *log_quote(char *out, const char *s);

#endif
