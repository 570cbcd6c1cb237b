/* SPDX-License-Identifier: MIT
 * journal.c - the log in the journal's own form, when stderr leads there: each key=value a field of its own.
 * Threads: main sets it up; logging is any thread's. Locks: none. */
#include "daemon/journal.h"
#include "engine/base/log.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

#define JOURNAL_MAX_FIELDS 48
#define JOURNAL_PREFIX "DSV4_"

/* The fields of one event; their text lies in `text`, which is longer than what the line had. */
struct journal_entry {
	int n;
	struct iovec field[JOURNAL_MAX_FIELDS];
	size_t used;
	char text[16384];
};

static void journal_add(struct journal_entry *j, char c)
{
	if (j->used < sizeof j->text)
		j->text[j->used++] = c;
}

/* The field that began at `from` ends here. */
static void journal_end(struct journal_entry *j, size_t from)
{
	if (j->n < JOURNAL_MAX_FIELDS)
		j->field[j->n++] = (struct iovec){ j->text + from, j->used - from };
}

static void journal_field(struct journal_entry *j, const char *name, const char *value)
{
	size_t from = j->used;

	for (; *name; name++)
		journal_add(j, *name);
	journal_add(j, '=');
	for (; *value; value++)
		journal_add(j, *value);
	journal_end(j, from);
}

/* One character of a quoted value (log_quote()); returns what follows it. */
static const char *journal_unquote(struct journal_entry *j, const char *s)
{
	if (s[0] != '\\' || !s[1]) {
		journal_add(j, *s);
		return s + 1;
	}
	if (s[1] == 'x' && s[2] && s[3]) {
		char hex[3] = { s[2], s[3], '\0' };

		journal_add(j, (char)strtoul(hex, NULL, 16));
		return s + 4;
	}
	journal_add(j, s[1]);
	return s + 2;
}

/* One key=value; returns what follows it. A word without = is no field. */
static const char *journal_pair(struct journal_entry *j, const char *s)
{
	size_t key = strcspn(s, "= "), from = j->used;

	if (s[key] != '=' || key == 0)
		return s + key;
	for (const char *p = JOURNAL_PREFIX; *p; p++)
		journal_add(j, *p);
	for (size_t i = 0; i < key; i++)
		journal_add(j, (char)(isalnum((unsigned char)s[i]) ? toupper((unsigned char)s[i]) : '_'));
	journal_add(j, '=');
	s += key + 1;
	if (*s == '"') {
		s++;
		while (*s && *s != '"')
			s = journal_unquote(j, s);
		s += *s == '"';
	} else {
		while (*s && *s != ' ')
			journal_add(j, *s++);
	}
	journal_end(j, from);
	return s;
}

static void journal_send(enum log_level level, const char *event, const char *text)
{
	struct journal_entry j;
	char priority[2] = { (char)('0' + (int)level), '\0' };

	j.n = 0;
	j.used = 0;
	for (const char *p = "MESSAGE="; *p; p++)
		journal_add(&j, *p);
	for (const char *p = event; *p; p++)
		journal_add(&j, *p);
	journal_add(&j, ' ');
	for (const char *p = text; *p; p++)
		journal_add(&j, *p);
	journal_end(&j, 0);
	journal_field(&j, "PRIORITY", priority);
	journal_field(&j, JOURNAL_PREFIX "EVENT", event);
	for (const char *s = text; *(s += strspn(s, " "));)
		s = journal_pair(&j, s);
	sd_journal_sendv(j.field, j.n); /* what fails here has nowhere else to go */
}

void journal_use(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	if (stream && sscanf(stream, "%llu:%llu", &dev, &ino) == 2 && fstat(STDERR_FILENO, &st) == 0 &&
	    st.st_dev == dev && st.st_ino == ino)
		log_set_sink(journal_send);
}
