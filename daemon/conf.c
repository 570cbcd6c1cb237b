/* SPDX-License-Identifier: MIT
 * conf.c - the configuration: conf.def's keys, [numerics] and [probe.NAME], and what their values may be.
 * Threads: control. Locks: none. */
#include "daemon/conf.h"
#include "ctl/probe/probe.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/engine.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONF_MAX_EVERY (365 * 86400) /* seconds between two runs of a probe */

enum conf_kind { CONF_PATH, CONF_TEXT, CONF_INT, CONF_SIZE, CONF_LEVEL, CONF_LISTEN, CONF_MODE,
		 CONF_SHARE, CONF_DISK, CONF_YESNO, CONF_PART, CONF_PIN, CONF_THREE, CONF_DEVICE };

const struct conf_row conf_table[CONF_COUNT] = {
#define CONF(section, key, kind, low, high, def, when, text) \
	{ #section, #key, def, text, CONF_##kind, low, high, CONF_##when },
#include "daemon/conf.def"
#undef CONF
};

void conf_init(struct conf *c)
{
	*c = (struct conf){ 0 };
	for (int i = 0; i < CONF_COUNT; i++)
		c->value[i] = mem_strdup(conf_table[i].def);
}

void conf_fini(struct conf *c)
{
	for (int i = 0; i < CONF_COUNT; i++) {
		free(c->value[i]);
		free(c->live[i]);
	}
	for (int i = 0; i < CONF_MAX_NUMERICS; i++)
		free(c->numeric[i]);
	for (int i = 0; i < c->n_option; i++) {
		free(c->option[i].probe);
		free(c->option[i].key);
		free(c->option[i].value);
	}
	*c = (struct conf){ 0 };
}

int conf_split_listen(const char *text, char addr[64], int *ret_port, struct buf *why)
{
	const char *colon = strrchr(text, ':'), *a = text;
	size_t n = colon ? (size_t)(colon - text) : 0;
	unsigned char bin[16];
	char *end;
	long port;

	if (!colon || !colon[1])
		return buf_why(why, RC_CONFIG, "'%.96s' is not ADDRESS:PORT", text);
	if (n > 2 && a[0] == '[' && a[n - 1] == ']') {
		a++;
		n -= 2;
	}
	port = strtol(colon + 1, &end, 10);
	if (*end || colon[1] < '0' || colon[1] > '9' || port > 65535)
		return buf_why(why, RC_CONFIG, "'%s' is no port (0 to 65535)", colon + 1);
	if (n == 0 || n >= 64)
		return buf_why(why, RC_CONFIG, "'%.96s' has no address", text);
	memcpy(addr, a, n);
	addr[n] = '\0';
	if (strcmp(addr, "localhost") && inet_pton(AF_INET, addr, bin) != 1 &&
	    inet_pton(AF_INET6, addr, bin) != 1)
		return buf_why(why, RC_CONFIG, "'%s' is no IP address", addr);
	*ret_port = (int)port;
	return 0;
}

/* A number with an optional suffix; -1 when it is none. */
static long long conf_number(const char *s, int kind)
{
	char *end;
	long long n;
	int shift = 0;

	if (s[0] < '0' || s[0] > '9')
		return -1;
	errno = 0;
	n = strtoll(s, &end, kind == CONF_MODE ? 8 : 10);
	if ((kind == CONF_SIZE || kind == CONF_SHARE) && *end)
		switch (*end++) {
		case 'K': shift = 10; break;
		case 'M': shift = 20; break;
		case 'G': shift = 30; break;
		default: return -1;
		}
	return *end || errno || n > (1LL << 62) >> shift ? -1 : n << shift;
}

bool conf_size(const char *text, uint64_t *ret_bytes)
{
	long long n = conf_number(text, CONF_SIZE);

	*ret_bytes = n < 0 ? 0 : (uint64_t)n;
	return n >= 0;
}

/* -1 when it is none. */
static double conf_real(const char *s)
{
	char *end;
	double v = s[0] >= '0' && s[0] <= '9' ? strtod(s, &end) : -1;

	return v < 0 || *end ? -1 : v;
}

bool conf_next_address(const char **at, struct conf_address *ret_a)
{
	const char *s = *at + strspn(*at, " \t");
	size_t n = strcspn(s, " \t"), prefix = strlen(CONF_UNIX);
	bool local = n >= prefix && !memcmp(s, CONF_UNIX, prefix);

	*at = s + n;
	*ret_a = local ? (struct conf_address){ true, s + prefix, n - prefix } : (struct conf_address){ false, s, n };
	return n > 0;
}

static int conf_check_listen(const char *text, struct buf *why)
{
	char word[160], addr[64];
	struct conf_address a;
	int port, r = 0;

	for (const char *s = text; !r && conf_next_address(&s, &a);) {
		snprintf(word, sizeof word, "%.*s", (int)a.n, a.text);
		if (!a.local)
			r = conf_split_listen(word, addr, &port, why);
		else if (a.n >= sizeof word || word[0] != '/')
			r = buf_why(why, RC_CONFIG, "'" CONF_UNIX "%.96s' is not unix:/PATH", word);
	}
	return *text ? r : buf_why(why, RC_CONFIG, "listen: must not be empty");
}

static int conf_check(const struct conf_row *row, const char *value, struct buf *why)
{
	enum log_level level;
	long long n;

	if (row->kind == CONF_SHARE && strcmp(value, "auto") == 0)
		return 0;
	switch ((enum conf_kind)row->kind) {
	case CONF_DISK:
		return !strcmp(value, "yes") || !strcmp(value, "no") || *value == '/' ? 0 :
		       buf_why(why, RC_CONFIG, "%s: '%s' is neither yes, no nor an absolute path", row->key, value);
	case CONF_YESNO:
		return !strcmp(value, "yes") || !strcmp(value, "no") ? 0 :
		       buf_why(why, RC_CONFIG, "%s: '%s' is neither yes nor no", row->key, value);
	case CONF_PIN:
		return !strcmp(value, "node") || !strcmp(value, "cpu") || !strcmp(value, "no") ? 0 :
		       buf_why(why, RC_CONFIG, "%s: '%s' is neither node, cpu nor no", row->key, value);
	case CONF_THREE:
		return !strcmp(value, "auto") || !strcmp(value, "yes") || !strcmp(value, "no") ? 0 :
		       buf_why(why, RC_CONFIG, "%s: '%s' is neither auto, yes nor no", row->key, value);
	case CONF_DEVICE:
		return device_list_parse(value, &(struct device_list){ 0 }, why) ? RC_CONFIG : 0;
	case CONF_PATH:
	case CONF_TEXT:
		return *value ? 0 : buf_why(why, RC_CONFIG, "%s: must not be empty", row->key);
	case CONF_INT:
	case CONF_SIZE:
	case CONF_SHARE:
	case CONF_MODE:
		n = conf_number(value, row->kind);
		if (n >= row->low && n <= row->high)
			return 0;
		return buf_why(why, RC_CONFIG,
			       row->kind == CONF_MODE ? "%s: '%s' is not within %#llo to %#llo" :
			       "%s: '%s' is not within %lld to %lld", row->key, value, row->low, row->high);
	case CONF_PART:
		return conf_real(value) > 0 && conf_real(value) <= 1 ? 0 :
		       buf_why(why, RC_CONFIG, "%s: '%s' is not above 0 and at most 1", row->key, value);
	case CONF_LEVEL:
		return log_parse_level(value, &level) == 0 ? 0 :
		       buf_why(why, RC_CONFIG, "%s: '%s' is none of err, warn, notice, info, debug", row->key,
			       value);
	case CONF_LISTEN:
		return conf_check_listen(value, why);
	}
	return RC_INTERNAL;
}

int conf_set(struct conf *c, enum conf_key key, const char *value, struct buf *why)
{
	int r = conf_check(&conf_table[key], value, why);

	if (r)
		return r;
	free(c->value[key]);
	c->value[key] = mem_strdup(value);
	c->given[key] = true;
	return 0;
}

int conf_set_live(struct conf *c, enum conf_key key, const char *value, struct buf *why)
{
	int r = conf_check(&conf_table[key], value, why);

	if (r)
		return r;
	free(c->live[key]);
	c->live[key] = mem_strdup(value);
	return 0;
}

const char *conf_text(const struct conf *c, enum conf_key key)
{
	return c->live[key] ? c->live[key] : c->value[key];
}

long long conf_int(const struct conf *c, enum conf_key key)
{
	long long n = conf_table[key].kind == CONF_SHARE && !strcmp(conf_text(c, key), "auto") ? CONF_AUTO :
		conf_number(conf_text(c, key), conf_table[key].kind);

	must(n >= 0 || n == CONF_AUTO);
	return n;
}

double conf_part(const struct conf *c, enum conf_key key)
{
	must(conf_table[key].kind == CONF_PART);
	return conf_real(conf_text(c, key));
}

bool conf_yes(const struct conf *c, enum conf_key key)
{
	must(conf_table[key].kind == CONF_YESNO);
	return !strcmp(conf_text(c, key), "yes");
}

/* ---- [numerics] and [probe.NAME] ---- */

int conf_set_numeric(struct conf *c, const char *key, const char *value, struct buf *why)
{
	struct numerics n;
	int i, r;

	numerics_init(&n, NUMERICS_NATIVE, 1);
	r = numerics_set(&n, key, value, why);
	if (r)
		return RC_CONFIG;
	must(numerics_count <= CONF_MAX_NUMERICS);
	i = (int)(numerics_find(key, strlen(key)) - numerics_table);
	if (c->numeric[i])
		return buf_why(why, RC_CONFIG, "%s: given twice", key);
	c->numeric[i] = mem_strdup(value);
	return 0;
}

/* A number with its unit, in seconds; -1 when it is none. */
static long long conf_duration(const char *s)
{
	static const struct { char unit; int seconds; } units[] = { { 's', 1 }, { 'm', 60 }, { 'h', 3600 },
								    { 'd', 86400 } };
	char *end;
	long long n;

	if (s[0] < '0' || s[0] > '9')
		return -1;
	errno = 0;
	n = strtoll(s, &end, 10);
	for (size_t i = 0; i < mem_countof(units); i++)
		if (end[0] == units[i].unit && !end[1] && !errno && n <= CONF_MAX_EVERY / units[i].seconds)
			return n * units[i].seconds;
	return -1;
}

static int conf_check_every(const char *value, struct buf *why)
{
	return conf_duration(value) >= 0 ? 0 :
	       buf_why(why, RC_CONFIG, CONF_EVERY ": '%s' is no number with s, m, h or d, up to %dd", value,
		       CONF_MAX_EVERY / 86400);
}

long long conf_every(const struct conf *c, const char *probe)
{
	for (int i = 0; i < c->n_option; i++)
		if (!strcmp(c->option[i].probe, probe) && !strcmp(c->option[i].key, CONF_EVERY))
			return conf_duration(c->option[i].value) * 1000;
	return 0;
}

int conf_set_option(struct conf *c, const char *probe, const char *key, const char *value, struct buf *why)
{
	json_t *scratch = json_object();
	int r = strcmp(key, CONF_EVERY) ? probe_option_set(probe, key, value, scratch, why) :
		conf_check_every(value, why);

	json_decref(scratch);
	if (r)
		return RC_CONFIG;
	for (int i = 0; i < c->n_option; i++)
		if (!strcmp(c->option[i].probe, probe) && !strcmp(c->option[i].key, key))
			return buf_why(why, RC_CONFIG, "%s: given twice", key);
	if (c->n_option == CONF_MAX_OPTIONS)
		return buf_why(why, RC_CONFIG, "more than %d probe options", CONF_MAX_OPTIONS);
	c->option[c->n_option++] = (struct conf_option){ mem_strdup(probe), mem_strdup(key),
							 mem_strdup(value) };
	return 0;
}
