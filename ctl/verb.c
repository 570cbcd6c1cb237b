/* SPDX-License-Identifier: MIT
 * verb.c - the verb table (verbs.def) and the two readings of its argument column: command line and parameters.
 * Threads: any. Locks: none. */
#include "ctl/verb.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

const struct verb verb_table[] = {
#define VERB(id, words, method, level, lasts, args, text) \
	{ #id, words, "io.dsv4." method, VERB_##level, VERB_##lasts, args, text },
#include "ctl/verbs.def"
#undef VERB
};
const int verb_count = (int)mem_countof(verb_table);

static const struct {
	const char *name;
	enum verb_type type;
} verb_types[] = {
	{ "string", VERB_STRING }, { "secret", VERB_SECRET }, { "file", VERB_FILE }, { "int", VERB_INT },
	{ "float", VERB_FLOAT },   { "bool", VERB_BOOL },
};

const char *verb_level_name(enum verb_level l)
{
	static const char *const names[] = { "monitor", "operate", "admin" };

	return names[l];
}

static bool verb_ends(const char *s, size_t n, const char *tail)
{
	size_t t = strlen(tail);

	return n > t && !memcmp(s + n - t, tail, t);
}

static void verb_arg_type(struct verb_arg *a, const char *type, size_t n)
{
	for (size_t i = 0; i < mem_countof(verb_types); i++)
		if (strlen(verb_types[i].name) == n && !memcmp(verb_types[i].name, type, n)) {
			a->type = verb_types[i].type;
			return;
		}
	must(n < sizeof a->choices && memchr(type, '|', n));
	memcpy(a->choices, type, n);
	a->type = VERB_CHOICE;
}

/* One word of the column: s[0..n). */
static void verb_arg_parse(struct verb_arg *a, const char *s, size_t n)
{
	const char *colon;
	bool here = s[0] == '+';

	s += here;
	n -= here;
	*a = (struct verb_arg){ .required = true };
	if (s[0] == '[') {
		must(s[n - 1] == ']');
		a->required = false;
		s++;
		n -= 2;
	}
	if (n > 2 && s[0] == '-' && s[1] == '-') {
		*a = (struct verb_arg){ .option = true, .type = VERB_BOOL };
		s += 2;
		n -= 2;
	}
	colon = memchr(s, ':', n);
	if (colon) {
		verb_arg_type(a, colon + 1, n - (size_t)(colon - s) - 1);
		n = (size_t)(colon - s);
	} else if (verb_ends(s, n, "=...")) {
		a->type = VERB_MAP;
		n -= 4;
	} else if (verb_ends(s, n, "...")) {
		a->type = VERB_STRINGS;
		n -= 3;
	}
	a->here = here;
	must(n > 0 && n < sizeof a->name);
	for (size_t i = 0; i < n; i++)
		a->name[i] = s[i] == '-' ? '_' : s[i];
}

int verb_args(const struct verb *v, struct verb_arg *out)
{
	int n = 0;

	for (const char *s = v->args; *s;) {
		size_t len = strcspn(s, " ");

		must(n < VERB_MAX_ARGS);
		verb_arg_parse(&out[n++], s, len);
		s += len;
		s += strspn(s, " ");
	}
	return n;
}

const struct verb *verb_find_method(const char *method)
{
	for (int i = 0; i < verb_count; i++)
		if (!strcmp(verb_table[i].method, method))
			return &verb_table[i];
	return NULL;
}

/* How many words of argv the verb's words match; 0 when they do not all. */
static int verb_match(const struct verb *v, int argc, char *const *argv)
{
	const char *s = v->words;
	int n = 0;

	while (*s) {
		size_t len = strcspn(s, " ");

		if (n >= argc || strlen(argv[n]) != len || memcmp(argv[n], s, len) != 0)
			return 0;
		n++;
		s += len;
		s += strspn(s, " ");
	}
	return n;
}

const struct verb *verb_find_words(int argc, char *const *argv, int *ret_used)
{
	for (int i = 0; i < verb_count; i++) {
		int n = verb_match(&verb_table[i], argc, argv);

		if (n > 0) {
			*ret_used = n;
			return &verb_table[i];
		}
	}
	return NULL;
}

/* ---- parameters of a call ---- */

static bool verb_choice(const struct verb_arg *a, const char *s)
{
	size_t n = strlen(s);

	for (const char *c = a->choices; *c;) {
		size_t len = strcspn(c, "|");

		if (len == n && !memcmp(c, s, n))
			return true;
		c += len;
		c += *c == '|';
	}
	return false;
}

static bool verb_all_strings(json_t *v)
{
	size_t i;
	const char *key;
	json_t *e;

	json_array_foreach(v, i, e)
		if (!json_is_string(e))
			return false;
	json_object_foreach(v, key, e)
		if (!json_is_string(e))
			return false;
	return true;
}

static bool verb_type_ok(const struct verb_arg *a, json_t *v)
{
	switch (a->type) {
	case VERB_STRING:
	case VERB_FILE:
	case VERB_SECRET: return json_is_string(v);
	case VERB_CHOICE: return json_is_string(v) && verb_choice(a, json_string_value(v));
	case VERB_INT: return json_is_integer(v);
	case VERB_FLOAT: return json_is_number(v);
	case VERB_BOOL: return json_is_boolean(v);
	case VERB_STRINGS: return json_is_array(v) && json_array_size(v) > 0 && verb_all_strings(v);
	case VERB_MAP: return json_is_object(v) && json_object_size(v) > 0 && verb_all_strings(v);
	}
	return false;
}

static int verb_bad(char *bad, const char *name)
{
	strncpy(bad, name, VERB_NAME_MAX - 1);
	bad[VERB_NAME_MAX - 1] = '\0';
	return RC_INVALID;
}

int verb_check(const struct verb *v, json_t *params, char *bad)
{
	struct verb_arg a[VERB_MAX_ARGS];
	int n = verb_args(v, a), i;
	const char *key;
	json_t *value;

	json_object_foreach(params, key, value) {
		for (i = 0; i < n && (a[i].here || strcmp(a[i].name, key) != 0); i++)
			;
		if (i == n)
			return verb_bad(bad, key);
	}
	for (i = 0; i < n; i++) {
		value = json_object_get(params, a[i].name);
		if (!value || json_is_null(value) ? a[i].required : !verb_type_ok(&a[i], value))
			return verb_bad(bad, a[i].name);
	}
	return 0;
}

/* ---- words of a command line ---- */

static int verb_number(const struct verb_arg *a, const char *word, json_t **ret_v, struct buf *why)
{
	char *end;

	errno = 0;
	if (a->type == VERB_INT)
		*ret_v = json_integer(strtoll(word, &end, 10));
	else
		*ret_v = json_real(strtod(word, &end));
	if (end != word && !*end && !errno && *ret_v && json_number_value(*ret_v) >= 0)
		return 0;
	json_decref(*ret_v);
	return buf_why(why, RC_INVALID, "%s: '%s' is not a %snumber of 0 or more", a->name, word,
		       a->type == VERB_INT ? "whole " : "");
}

/* The value of one word, for every type but VERB_STRINGS and VERB_MAP. */
static int verb_word(const struct verb_arg *a, const char *word, json_t **ret_v, struct buf *why)
{
	if (a->type == VERB_INT || a->type == VERB_FLOAT)
		return verb_number(a, word, ret_v, why);
	if (a->type == VERB_CHOICE && !verb_choice(a, word))
		return buf_why(why, RC_INVALID, "%s: '%s' is none of %s", a->name, word, a->choices);
	*ret_v = json_string(word);
	return *ret_v ? 0 : buf_why(why, RC_INVALID, "%s: not UTF-8", a->name);
}

static int verb_add_map(json_t *params, const struct verb_arg *a, const char *word, struct buf *why)
{
	json_t *map = json_object_get(params, a->name);
	const char *eq = strchr(word, '=');
	char *key;
	int r;

	if (!eq || eq == word)
		return buf_why(why, RC_INVALID, "'%s' is not NAME=VALUE", word);
	if (!map) {
		map = json_object();
		json_object_set_new(params, a->name, map);
	}
	key = mem_strndup(word, (size_t)(eq - word));
	r = json_object_get(map, key) ? buf_why(why, RC_INVALID, "'%s' is given twice", key) : 0;
	if (!r && json_object_set_new(map, key, json_string(eq + 1)) < 0)
		r = buf_why(why, RC_INVALID, "%s: not UTF-8", a->name);
	free(key);
	return r;
}

static int verb_add(json_t *params, const struct verb_arg *a, const char *word, struct buf *why)
{
	json_t *value = NULL, *list = json_object_get(params, a->name);
	int r;

	if (a->type == VERB_MAP)
		return verb_add_map(params, a, word, why);
	r = verb_word(a, word, &value, why);
	if (r)
		return r;
	if (a->type != VERB_STRINGS)
		return json_object_set_new(params, a->name, value);
	if (!list) {
		list = json_array();
		json_object_set_new(params, a->name, list);
	}
	return json_array_append_new(list, value);
}

/* An option that only the daemon knows: "--name=VALUE" or "--name VALUE", collected in a map. */
static int verb_option_other(const struct verb_arg *a, int argc, char *const *argv, int *i, json_t *params,
			     struct buf *why)
{
	const char *name = argv[*i] + 2;
	struct buf word = { 0 };
	int r;

	buf_adds(&word, name);
	if (!strchr(name, '=') && *i + 1 >= argc) {
		buf_fini(&word);
		return buf_why(why, RC_INVALID, "--%s needs a value", name);
	}
	if (!strchr(name, '='))
		buf_printf(&word, "=%s", argv[++*i]);
	for (size_t k = 0; k < word.len && word.data[k] != '='; k++)
		word.data[k] = word.data[k] == '-' ? '_' : word.data[k];
	r = verb_add_map(params, a, buf_str(&word), why);
	buf_fini(&word);
	return r;
}

/* "--name", "--name=VALUE" or "--name VALUE"; *i is moved over what was taken. */
static int verb_option(const struct verb_arg *a, int n, int argc, char *const *argv, int *i, json_t *params,
		       struct buf *why)
{
	const char *name = strcmp(argv[*i], "-o") ? argv[*i] + 2 : "output", *eq = strchr(name, '=');
	size_t len = eq ? (size_t)(eq - name) : strlen(name);

	for (int k = 0; k < n; k++) {
		size_t same = 0;

		while (same < len && (name[same] == '-' ? '_' : name[same]) == a[k].name[same])
			same++;
		if (!a[k].option || a[k].type == VERB_MAP || same != len || a[k].name[len])
			continue;
		if (json_object_get(params, a[k].name))
			return buf_why(why, RC_INVALID, "--%.*s is given twice", (int)len, name);
		if (a[k].type == VERB_BOOL)
			return eq ? buf_why(why, RC_INVALID, "--%.*s takes no value", (int)len, name)
				  : json_object_set_new(params, a[k].name, json_true());
		if (!eq && *i + 1 >= argc)
			return buf_why(why, RC_INVALID, "--%s needs a value", name);
		return verb_add(params, &a[k], eq ? eq + 1 : argv[++*i], why);
	}
	for (int k = 0; k < n; k++)
		if (a[k].option && a[k].type == VERB_MAP)
			return verb_option_other(&a[k], argc, argv, i, params, why);
	return buf_why(why, RC_INVALID, "unknown option '--%.*s'", (int)len, name);
}

static int verb_parse_words(const struct verb_arg *a, int n, int argc, char *const *argv, json_t *params,
			    struct buf *why)
{
	bool options = true;
	int at = 0, r = 0;

	for (int i = 0; i < argc && !r; i++) {
		if (options && !strcmp(argv[i], "--")) {
			options = false;
			continue;
		}
		if (options && (!strncmp(argv[i], "--", 2) || !strcmp(argv[i], "-o"))) {
			r = verb_option(a, n, argc, argv, &i, params, why);
			continue;
		}
		while (at < n && a[at].option)
			at++;
		if (at == n)
			return buf_why(why, RC_INVALID, "unexpected '%s'", argv[i]);
		r = verb_add(params, &a[at], argv[i], why);
		at += a[at].type != VERB_STRINGS && a[at].type != VERB_MAP;
	}
	return r;
}

int verb_parse(const struct verb *v, int argc, char *const *argv, json_t **ret_params, struct buf *why)
{
	struct verb_arg a[VERB_MAX_ARGS];
	int n = verb_args(v, a), r;
	json_t *params = json_object();

	r = verb_parse_words(a, n, argc, argv, params, why);
	for (int i = 0; i < n && !r; i++)
		if (a[i].required && !json_object_get(params, a[i].name))
			r = buf_why(why, RC_INVALID, "%s is missing", a[i].name);
	if (r)
		json_decref(params);
	else
		*ret_params = params;
	return r;
}

/* The name as a placeholder: capitals, and one of "names" for a list. */
static void verb_usage_name(const struct verb_arg *a, struct buf *out)
{
	size_t n = strlen(a->name);

	n -= a->type == VERB_STRINGS && a->name[n - 1] == 's';
	for (size_t i = 0; i < n; i++)
		buf_addc(out, (char)toupper((unsigned char)a->name[i]));
}

static void verb_usage_option(const struct verb_arg *a, struct buf *out)
{
	const char *value = a->type == VERB_CHOICE ? a->choices : a->type == VERB_INT ? "N" :
			    a->type == VERB_FLOAT ? "X" : a->type == VERB_FILE ? "FILE" : "S";

	if (a->type == VERB_MAP) {
		buf_adds(out, " [--NAME VALUE]...");
		return;
	}
	if (a->here && !strcmp(a->name, "output")) {
		buf_adds(out, " -o FILE");
		return;
	}
	buf_adds(out, " [--");
	for (const char *s = a->name; *s; s++)
		buf_addc(out, *s == '_' ? '-' : *s);
	if (a->type != VERB_BOOL)
		buf_printf(out, " %s", value);
	buf_addc(out, ']');
}

static void verb_usage_arg(const struct verb_arg *a, struct buf *out)
{
	if (a->option) {
		verb_usage_option(a, out);
		return;
	}
	buf_adds(out, a->required ? " " : " [");
	if (a->type == VERB_CHOICE)
		buf_adds(out, a->choices);
	else if (a->type == VERB_MAP)
		buf_adds(out, "NAME=VALUE...");
	else
		verb_usage_name(a, out);
	buf_adds(out, a->type == VERB_STRINGS ? "..." : "");
	buf_adds(out, a->required ? "" : "]");
}

void verb_usage(const struct verb *v, struct buf *out)
{
	struct verb_arg a[VERB_MAX_ARGS];
	int n = verb_args(v, a);

	buf_adds(out, v->words);
	for (int i = 0; i < n; i++)
		verb_usage_arg(&a[i], out);
}
