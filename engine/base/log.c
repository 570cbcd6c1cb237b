/* SPDX-License-Identifier: MIT
 * log.c - one key=value line per event on stderr, with <N> priorities, rate-limited per call site.
 * Threads: any. Locks: none (one write(2) per line). */
#include "engine/base/log.h"
#include "engine/base/clock.h"
#include "engine/base/rc.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define LOG_LINE_MAX 4096

static atomic_int log_level_now = LOG_LV_INFO;

static const struct {
	const char *name;
	enum log_level level;
} log_names[] = {
	{ "err", LOG_LV_ERR },   { "warn", LOG_LV_WARN },   { "notice", LOG_LV_NOTICE },
	{ "info", LOG_LV_INFO }, { "debug", LOG_LV_DEBUG },
};

int log_wants(enum log_level level)
{
	return (int)level <= atomic_load_explicit(&log_level_now, memory_order_relaxed);
}

void log_set_level(enum log_level level)
{
	atomic_store(&log_level_now, (int)level);
}

enum log_level log_get_level(void)
{
	return (enum log_level)atomic_load(&log_level_now);
}

int log_parse_level(const char *name, enum log_level *ret_level)
{
	for (size_t i = 0; i < sizeof log_names / sizeof *log_names; i++)
		if (!strcasecmp(name, log_names[i].name) ||
		    (name[0] == '0' + (int)log_names[i].level && !name[1])) {
			*ret_level = log_names[i].level;
			return 0;
		}
	return RC_INVALID;
}

const char *log_level_name(enum log_level level)
{
	for (size_t i = 0; i < sizeof log_names / sizeof *log_names; i++)
		if (log_names[i].level == level)
			return log_names[i].name;
	return "unknown";
}

/* Returns how many lines were lost before this one, or -1 to drop this one. */
static int log_admit(struct log_site *site)
{
	long long now = clock_ms() / 1000 + 1;

	if (__atomic_exchange_n(&site->second, now, __ATOMIC_RELAXED) != now)
		__atomic_store_n(&site->count, 0, __ATOMIC_RELAXED);
	if (__atomic_fetch_add(&site->count, 1, __ATOMIC_RELAXED) >= LOG_BURST) {
		__atomic_fetch_add(&site->lost, 1, __ATOMIC_RELAXED);
		return -1;
	}
	return __atomic_exchange_n(&site->lost, 0, __ATOMIC_RELAXED);
}

void log_write(struct log_site *site, enum log_level level, const char *event, const char *fmt, ...)
{
	char line[LOG_LINE_MAX];
	int lost = log_admit(site), n, m;
	va_list ap;

	if (lost < 0)
		return;
	n = snprintf(line, sizeof line - 64, "<%d>%s ", (int)level, event);
	va_start(ap, fmt);
	m = vsnprintf(line + n, sizeof line - 64 - (size_t)n, fmt, ap);
	va_end(ap);
	if (m < 0)
		return;
	n = n + m < (int)sizeof line - 65 ? n + m : (int)sizeof line - 65;
	if (lost)
		n += snprintf(line + n, sizeof line - (size_t)n - 1, " suppressed=%d", lost);
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return; /* stderr gone: nowhere to say so */
}

const char *log_quote(char *out, const char *s)
{
	static const char hex[] = "0123456789abcdef";
	size_t o = 0;
	int plain = s[0] != '\0';

	for (const char *p = s; *p; p++)
		if ((unsigned char)*p <= ' ' || *p == '"' || *p == '=' || *p == '\\' || *p == 0x7f)
			plain = 0;
	if (!plain)
		out[o++] = '"';
	for (const char *p = s; *p; p++) {
		unsigned char c = (unsigned char)*p;

		if (o + 10 > LOG_QUOTE_MAX) {
			memcpy(out + o, "...", 3);
			o += 3;
			break;
		}
		if (c == '"' || c == '\\') {
			out[o++] = '\\';
			out[o++] = (char)c;
		} else if (c < ' ' || c == 0x7f) {
			out[o++] = '\\';
			out[o++] = 'x';
			out[o++] = hex[c >> 4];
			out[o++] = hex[c & 15];
		} else {
			out[o++] = (char)c;
		}
	}
	if (!plain)
		out[o++] = '"';
	out[o] = '\0';
	return out;
}
