/* SPDX-License-Identifier: MIT
 * log.c - one key=value line per event on stderr, with <N> priorities, rate-limited per call site.
 * Threads: any. Locks: none (one write(2) per line). */
#include "engine/base/log.h"
#include "engine/base/clock.h"
#include "engine/base/rc.h"
#include "engine/base/utf8.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define LOG_LINE_MAX 4096

static log_sink_f *log_sink; /* NULL: stderr */
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

void log_set_sink(log_sink_f *f)
{
	log_sink = f;
}

void log_write(struct log_site *site, enum log_level level, const char *event, const char *fmt, ...)
{
	char line[LOG_LINE_MAX];
	int lost = log_admit(site), n, m;
	va_list ap;

	if (lost < 0)
		return;
	n = log_sink ? 0 : snprintf(line, sizeof line - 64, "<%d>%s ", (int)level, event);
	va_start(ap, fmt);
	m = vsnprintf(line + n, sizeof line - 64 - (size_t)n, fmt, ap);
	va_end(ap);
	if (m < 0)
		return;
	n = n + m < (int)sizeof line - 65 ? n + m : (int)sizeof line - 65;
	if (lost)
		n += snprintf(line + n, sizeof line - (size_t)n - 1, " suppressed=%d", lost);
	if (log_sink) {
		log_sink(level, event, line);
		return;
	}
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return; /* stderr gone: nowhere to say so */
}

/* The length of what stands here as one character; 1 with *ret_hex for a byte that no reader of the log should get as
 * it is: of a control (U+0080 to 9F too), or of no UTF-8. */
static size_t log_step(const char *s, bool *ret_hex)
{
	unsigned char c = (unsigned char)s[0];
	size_t n;
	bool whole = utf8_step(s, strnlen(s, 4), &n) == UTF8_VALID;

	*ret_hex = !whole || c < ' ' || c == 0x7f || (n == 2 && c == 0xc2 && (unsigned char)s[1] < 0xa0);
	return *ret_hex ? 1 : n;
}

static bool log_plain(const char *s)
{
	bool hex = false;

	if (!*s)
		return false;
	for (; *s && !hex; s += log_step(s, &hex))
		if (strchr(" \"=\\", *s))
			return false;
	return !hex;
}

static size_t log_quote_one(char *out, const char *s, size_t n, bool hex)
{
	static const char digits[] = "0123456789abcdef";
	unsigned char c = (unsigned char)*s;

	if (hex) {
		memcpy(out, "\\x", 2);
		out[2] = digits[c >> 4];
		out[3] = digits[c & 15];
		return 4;
	}
	if (c == '"' || c == '\\') {
		out[0] = '\\';
		out[1] = (char)c;
		return 2;
	}
	memcpy(out, s, n);
	return n;
}

const char *log_quote(char *out, const char *s)
{
	bool plain = log_plain(s), hex;
	size_t o = 0, n;

	if (!plain)
		out[o++] = '"';
	for (; *s; s += n) {
		n = log_step(s, &hex);
		if (o + 10 > LOG_QUOTE_MAX) {
			memcpy(out + o, "...", 3);
			o += 3;
			break;
		}
		o += log_quote_one(out + o, s, n, hex);
	}
	if (!plain)
		out[o++] = '"';
	out[o] = '\0';
	return out;
}
