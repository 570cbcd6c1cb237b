/* SPDX-License-Identifier: MIT
 * conf.h - the configuration: conf.def's keys, [numerics] and [probe.NAME], as a file (conf_file.h) and flags say them.
 * Threads: control. Locks: none. */
#ifndef DAEMON_CONF_H
#define DAEMON_CONF_H

#include "engine/base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONF_MAX_OPTIONS 256 /* [probe.NAME] keys in all */
#define CONF_MAX_NUMERICS 64

enum conf_key {
#define CONF(section, key, kind, low, high, def, when, text) CONF_##key,
#include "daemon/conf.def"
#undef CONF
	CONF_COUNT
};

enum conf_when { CONF_LIVE, CONF_RESTART };

struct conf_row {
	const char *section, *key, *def, *text;
	int kind;
	long long low, high;
	enum conf_when when;
};
extern const struct conf_row conf_table[CONF_COUNT];

struct conf_option {
	char *probe, *key, *value;
};

/* Values are checked texts; start with conf_init(). */
struct conf {
	char *value[CONF_COUNT];
	char *live[CONF_COUNT];           /* what an operator said instead, until the file says
					   * something new; NULL: nothing */
	bool given[CONF_COUNT];           /* not the default */
	char *numeric[CONF_MAX_NUMERICS]; /* by row of numerics_table; NULL: not given */
	struct conf_option option[CONF_MAX_OPTIONS];
	int n_option;
};

void conf_init(struct conf *c);
void conf_fini(struct conf *c);
/* RC_CONFIG; why names key, value and what is allowed. */
int conf_set(struct conf *c, enum conf_key key, const char *value, struct buf *why);
/* The same, over what the file says. */
int conf_set_live(struct conf *c, enum conf_key key, const char *value, struct buf *why);
/* A key of [numerics], and of [probe.NAME]. RC_CONFIG, also when it was given before or there are too many. */
int conf_set_numeric(struct conf *c, const char *key, const char *value, struct buf *why);
int conf_set_option(struct conf *c, const char *probe, const char *key, const char *value, struct buf *why);
const char *conf_text(const struct conf *c, enum conf_key key);
#define CONF_AUTO (-2LL) /* "auto" of a SHARE */
/* Of an INT, SIZE, SHARE or MODE. */
long long conf_int(const struct conf *c, enum conf_key key);
/* Of a PART. */
double conf_part(const struct conf *c, enum conf_key key);
/* How often [probe.NAME] wants it to run by itself, in milliseconds; 0: not at all. */
long long conf_every(const struct conf *c, const char *probe);
#define CONF_EVERY "every" /* that option's name: not one of the probe */
/* Of a YESNO. */
bool conf_yes(const struct conf *c, enum conf_key key);
#define CONF_UNIX "unix:" /* begins a Unix socket's name in `listen` */
/* One word of `listen`: ADDR:PORT, or of a Unix socket its path. */
struct conf_address {
	bool local;               /* a Unix socket */
	const char *text;         /* of n bytes, in the value */
	size_t n;
};
/* The next word from *at on, which moves behind it; false at the end. */
bool conf_next_address(const char **at, struct conf_address *ret_a);
/* ADDR:PORT in its parts; [::1]:80 loses its brackets. RC_CONFIG. */
int conf_split_listen(const char *text, char addr[64], int *ret_port, struct buf *why);

/* A number of bytes, as keys of the kind SIZE have it: with K, M or G. False when it is none. */
bool conf_size(const char *text, uint64_t *ret_bytes);

#endif
