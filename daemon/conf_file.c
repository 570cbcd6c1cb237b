/* SPDX-License-Identifier: MIT
 * conf_file.c - a configuration file's text: its sections and keys, [numerics] and [probe.NAME] among them.
 * Threads: control. Locks: none. */
#include "daemon/conf_file.h"
#include "ctl/probe/probe.h"
#include "engine/base/mapfile.h"
#include "engine/base/rc.h"

#include <string.h>

/* Where the parser is. */
struct conf_file_at {
	int line;
	char section[64];
	bool seen[CONF_COUNT];
};

static int conf_file_assign(struct conf *c, struct conf_file_at *at, const char *key, const char *value,
			    struct buf *why)
{
	if (!at->section[0])
		return buf_why(why, RC_CONFIG, "'%s' comes before the first [section]", key);
	if (!strcmp(at->section, "numerics"))
		return conf_set_numeric(c, key, value, why);
	if (!strncmp(at->section, "probe.", 6))
		return conf_set_option(c, at->section + 6, key, value, why);
	for (int i = 0; i < CONF_COUNT; i++) {
		if (strcmp(conf_table[i].section, at->section) != 0 || strcmp(conf_table[i].key, key) != 0)
			continue;
		if (at->seen[i])
			return buf_why(why, RC_CONFIG, "%s: given twice", key);
		at->seen[i] = true;
		return conf_set(c, (enum conf_key)i, value, why);
	}
	return buf_why(why, RC_CONFIG, "unknown key '%s' in [%s]", key, at->section);
}

static int conf_file_section(struct conf_file_at *at, char *line, struct buf *why)
{
	size_t n = strlen(line);
	bool known = false;

	if (line[n - 1] != ']')
		return buf_why(why, RC_CONFIG, "a section ends with ']'");
	line[n - 1] = '\0';
	line++;
	for (int i = 0; i < CONF_COUNT; i++)
		known |= !strcmp(conf_table[i].section, line);
	known |= !strcmp(line, "numerics") || (!strncmp(line, "probe.", 6) && probe_exists(line + 6));
	if (!known || strlen(line) >= sizeof at->section)
		return buf_why(why, RC_CONFIG, "unknown section [%.96s]", line);
	strcpy(at->section, line);
	return 0;
}

static char *conf_file_trim(char *s)
{
	size_t n;

	s += strspn(s, " \t\r");
	n = strlen(s);
	while (n > 0 && strchr(" \t\r", s[n - 1]))
		s[--n] = '\0';
	return s;
}

static int conf_file_line(struct conf *c, struct conf_file_at *at, char *line, struct buf *why)
{
	char *eq;

	line = conf_file_trim(line);
	if (!*line || *line == '#' || *line == ';')
		return 0;
	if (*line == '[')
		return conf_file_section(at, line, why);
	eq = strchr(line, '=');
	if (!eq)
		return buf_why(why, RC_CONFIG, "'%.96s' is not KEY = VALUE", line);
	*eq = '\0';
	return conf_file_assign(c, at, conf_file_trim(line), conf_file_trim(eq + 1), why);
}

int conf_file_parse(struct conf *c, const char *name, const char *text, size_t len, struct buf *why)
{
	struct conf_file_at at = { 0 };
	struct buf line = { 0 }, reason = { 0 };
	int r = 0;

	for (size_t i = 0; i < len && !r; at.line += !r) {
		const char *nl = memchr(text + i, '\n', len - i);
		size_t n = nl ? (size_t)(nl - text) - i : len - i;

		buf_clear(&line);
		buf_add(&line, text + i, n);
		if (memchr(text + i, '\0', n))
			r = buf_why(&reason, RC_CONFIG, "a NUL byte");
		else
			r = conf_file_line(c, &at, line.data, &reason);
		i += n + 1;
	}
	if (r)
		buf_why(why, r, "%s:%d: %s", name, at.line + 1, buf_str(&reason));
	buf_fini(&line);
	buf_fini(&reason);
	return r;
}

int conf_file_load(struct conf *c, const char *path, struct buf *why)
{
	struct buf text = { 0 };
	int r = mapfile_slurp(path, CONF_FILE_MAX_BYTES, &text, why);

	if (!r)
		r = conf_file_parse(c, path, buf_str(&text), text.len, why);
	buf_fini(&text);
	return r;
}
