/* SPDX-License-Identifier: MIT
 * view.c - replies as people read them: tables, fields, text (views.def).
 * Threads: one. Locks: none. */
#include "ctl/view.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define VIEW_MAX_COLUMNS 20
#define VIEW_WHOLE_FROM 1e15  /* numbers so large are told by their first digits: 300 of them fill no line */
#define VIEW_LAST_SECOND 253402300799.0 /* of the year 9999 */
#define VIEW_LIST 4   /* elements of a long list (format l) that are shown */
#define VIEW_FIELDS 16 /* fields of such an object */

enum view_kind { VIEW_TABLE, VIEW_TEXT, VIEW_JSON, VIEW_REPORT };

static const struct view {
	const char *id;
	enum view_kind kind;
	const char *field, *columns;
} view_rows[] = {
#define VIEW(id, kind, field, columns) { #id, VIEW_##kind, field, columns },
#include "ctl/views.def"
#undef VIEW
};

struct view_column {
	char title[24], path[48], format;
	bool outer, optional, filled;
	size_t width;
};

struct view_table {
	struct view_column col[VIEW_MAX_COLUMNS];
	int n_col;
	char **cell; /* [n_row][n_col] */
	size_t n_row;
};

void view_sanitize(struct buf *b)
{
	for (size_t i = 0; i < b->len; i++) {
		unsigned char c = (unsigned char)b->data[i];

		if ((c < ' ' && c != '\n' && c != '\t') || c == 0x7f)
			b->data[i] = '?';
	}
}

/* ---- values ---- */

/* decimals -1: six digits wherever they stand. */
static void view_real(double v, int decimals, struct buf *out)
{
	if (decimals < 0 || fabs(v) >= VIEW_WHOLE_FROM)
		buf_printf(out, "%.6g", v);
	else
		buf_printf(out, "%.*f", decimals, v);
}

static void view_scalar(json_t *v, struct buf *out)
{
	switch (json_typeof(v)) {
	case JSON_STRING: buf_adds(out, json_string_value(v)); break;
	case JSON_INTEGER: buf_printf(out, "%lld", (long long)json_integer_value(v)); break;
	case JSON_REAL: view_real(json_real_value(v), fabs(json_real_value(v)) < 1e6 ? -1 : 3, out); break;
	case JSON_TRUE: buf_adds(out, "yes"); break;
	case JSON_FALSE: buf_adds(out, "no"); break;
	default: buf_adds(out, "-"); break;
	}
}

/* How far kernels are apart is null where it is infinite, as JSON has no such number; and where it is not meant, as
 * the error of a set of ids, which has an overlap. */
static bool view_endless(json_t *o, const char *key)
{
	static const char *const errors[] = { "mean", "worst", "relative", "max", "worst_row", "kl", "kl_worst" };
	json_t *error = json_object_get(o, "mean") ? json_object_get(o, "mean") : json_object_get(o, "relative");

	if (!json_is_null(error) || json_is_number(json_object_get(o, "overlap")) ||
	    !json_integer_value(json_object_get(o, "differing")))
		return false;
	for (size_t i = 0; i < mem_countof(errors); i++)
		if (!strcmp(key, errors[i]))
			return json_is_null(json_object_get(o, key));
	return false;
}

/* Elements of arrays and fields of objects on one line. */
static void view_value(json_t *v, struct buf *out)
{
	size_t i, start = out->len;
	const char *key;
	json_t *e;

	if (!v || json_is_null(v)) {
		buf_addc(out, '-');
		return;
	}
	if (!json_is_array(v) && !json_is_object(v)) {
		view_scalar(v, out);
		return;
	}
	json_array_foreach(v, i, e) {
		buf_adds(out, i ? " " : "");
		view_value(e, out);
	}
	json_object_foreach(v, key, e) {
		buf_printf(out, "%s%s=", out->len > start ? " " : "", key);
		if (view_endless(v, key))
			buf_adds(out, "inf");
		else
			view_value(e, out);
	}
}

/* What a daemon or a file calls a time may be any number. */
static void view_time(double seconds, bool day, struct buf *out)
{
	bool some = seconds >= 0 && seconds <= VIEW_LAST_SECOND;
	time_t t = some ? (time_t)seconds : 0;
	char text[32];
	struct tm tm;

	if (!some || !localtime_r(&t, &tm)) {
		buf_addc(out, '-');
		return;
	}
	if (day && strftime(text, sizeof text, "%Y-%m-%d ", &tm))
		buf_adds(out, text);
	if (strftime(text, sizeof text, "%H:%M:%S", &tm))
		buf_adds(out, text);
}

/* The beginning of a list or an object; the whole of it is in the JSON. */
static void view_beginning(json_t *v, struct buf *out)
{
	size_t i, n = json_is_array(v) ? json_array_size(v) : json_object_size(v), shown = 0;
	json_t *some = json_is_array(v) ? json_array() : json_object(), *e;
	const char *key;

	json_array_foreach(v, i, e)
		if (i < VIEW_LIST)
			json_array_append(some, e);
	json_object_foreach(v, key, e)
		if (shown++ < VIEW_FIELDS)
			json_object_set(some, key, e);
	view_value(some, out);
	shown = json_is_array(v) ? json_array_size(some) : json_object_size(some);
	if (n > shown)
		buf_printf(out, " and %zu more", n - shown);
	json_decref(some);
}

static void view_formatted(json_t *v, char format, struct buf *out)
{
	if (format == 'l' && (json_is_array(v) || json_is_object(v)))
		view_beginning(v, out);
	else if (!json_is_number(v) || !format)
		view_value(v, out);
	else if (format == 't' || format == 'T')
		view_time(json_number_value(v), format == 'T', out);
	else
		view_real(json_number_value(v), format == 'd' ? 2 : 1, out);
}

/* ---- tables ---- */

static void view_copy(char *out, size_t size, const char *s, size_t n)
{
	must(n < size);
	memcpy(out, s, n);
	out[n] = '\0';
}

static void view_columns(struct view_table *t, const char *spec)
{
	while (*spec) {
		size_t len = strcspn(spec, " ");
		const char *eq = memchr(spec, '=', len), *colon = memchr(spec, ':', len);
		struct view_column *c = &t->col[t->n_col++];

		must(t->n_col <= VIEW_MAX_COLUMNS && eq);
		*c = (struct view_column){ .format = colon ? colon[1] : '\0', .outer = eq[1] == '^',
					   .optional = eq[1] == '?' };
		view_copy(c->title, sizeof c->title, spec, (size_t)(eq - spec));
		eq += 1 + (c->outer || c->optional);
		view_copy(c->path, sizeof c->path, eq, (size_t)((colon ? colon : spec + len) - eq));
		c->width = strlen(c->title);
		spec += len;
		spec += strspn(spec, " ");
	}
}

static json_t *view_get(json_t *o, const char *path)
{
	char name[48];

	while (o && *path) {
		size_t n = strcspn(path, ".");

		view_copy(name, sizeof name, path, n);
		o = json_object_get(o, name);
		path += n;
		path += *path == '.';
	}
	return o;
}

/* Characters, not bytes. */
static size_t view_width(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

static void view_row(struct view_table *t, json_t *outer, json_t *row)
{
	size_t at = t->n_row++ * (size_t)t->n_col;

	t->cell = mem_grow(t->cell, t->n_row * (size_t)t->n_col, sizeof *t->cell);
	for (int i = 0; i < t->n_col; i++) {
		struct view_column *c = &t->col[i];
		struct buf b = { 0 };

		if (!c->outer && view_endless(row, c->path))
			buf_adds(&b, "inf");
		else
			view_formatted(view_get(c->outer ? outer : row, c->path), c->format, &b);
		for (size_t k = 0; k < b.len; k++)
			b.data[k] = b.data[k] == '\n' ? ' ' : b.data[k];
		c->filled = c->filled || strcmp(buf_str(&b), "-") != 0;
		t->cell[at + (size_t)i] = buf_take(&b);
		if (view_width(t->cell[at + (size_t)i]) > c->width)
			c->width = view_width(t->cell[at + (size_t)i]);
	}
}

static void view_line(const struct view_table *t, char *const *cell, struct buf *out)
{
	for (int i = 0; i < t->n_col; i++) {
		const char *s = cell ? cell[i] : t->col[i].title;

		if (t->col[i].optional && !t->col[i].filled)
			continue;
		buf_adds(out, s);
		/* The last column is not padded: lines do not wrap for blanks. */
		for (size_t n = view_width(s); n < t->col[i].width + 2 && i + 1 < t->n_col; n++)
			buf_addc(out, ' ');
	}
	buf_addc(out, '\n');
}

/* The reply's field that has the rows: all of "outer/inner" before the slash. */
static const char *view_field(const struct view *v, char field[48])
{
	view_copy(field, 48, v->field, strcspn(v->field, "/"));
	return field;
}

static void view_table(const struct view *v, json_t *params, struct buf *out)
{
	struct view_table t = { 0 };
	const char *slash = strchr(v->field, '/');
	char field[48];
	json_t *o, *row;
	size_t i, k;

	view_columns(&t, v->columns);
	json_array_foreach(json_object_get(params, view_field(v, field)), i, o) {
		if (!slash) {
			view_row(&t, NULL, o);
			continue;
		}
		json_array_foreach(json_object_get(o, slash + 1), k, row)
			view_row(&t, o, row);
	}
	view_line(&t, NULL, out);
	for (i = 0; i < t.n_row; i++)
		view_line(&t, t.cell + i * (size_t)t.n_col, out);
	for (i = 0; i < t.n_row * (size_t)t.n_col; i++)
		free(t.cell[i]);
	free(t.cell);
}

/* ---- fields ---- */

static size_t view_key_width(json_t *o)
{
	size_t w = 0;
	const char *key;
	json_t *v;

	json_object_foreach(o, key, v)
		w = strlen(key) > w ? strlen(key) : w;
	return w;
}

/* One line per field; a text of several lines follows its name. A reply that is one object is shown as its
 * fields. */
static void view_fields(json_t *params, struct buf *out)
{
	json_t *v = json_object_iter_value(json_object_iter(params));
	const char *key;
	size_t w;

	if (json_object_size(params) == 1 && json_is_object(v))
		params = v;
	w = view_key_width(params);
	json_object_foreach(params, key, v) {
		const char *s = json_string_value(v);

		if (s && strchr(s, '\n')) {
			buf_printf(out, "%s:\n%s%s", key, s, s[strlen(s) - 1] == '\n' ? "" : "\n");
			continue;
		}
		buf_printf(out, "%-*s  ", (int)w, key);
		view_value(v, out);
		buf_addc(out, '\n');
	}
}

/* What is so of the whole, then its parts, if there are any. Parts with a table of their own come later. */
static void view_report(const struct view *v, json_t *params, struct buf *out)
{
	json_t *fields = json_copy(params);
	char field[48];

	for (size_t i = 0; i < mem_countof(view_rows); i++)
		if (!strcmp(view_rows[i].id, v->id))
			json_object_del(fields, view_field(&view_rows[i], field));
	view_fields(fields, out);
	json_decref(fields);
	if (json_array_size(json_object_get(params, view_field(v, field)))) {
		buf_addc(out, '\n');
		view_table(v, params, out);
	}
}

static void view_one(const struct view *w, json_t *params, struct buf *out)
{
	json_t *field = json_object_get(params, w->field);
	char *text;

	switch (w->kind) {
	case VIEW_TABLE:
		view_table(w, params, out);
		break;
	case VIEW_REPORT:
		view_report(w, params, out);
		break;
	case VIEW_TEXT:
		buf_add(out, json_string_value(field), json_string_length(field));
		if (out->len && out->data[out->len - 1] != '\n')
			buf_addc(out, '\n');
		break;
	case VIEW_JSON:
		text = json_dumps(field, JSON_INDENT(2) | JSON_ENCODE_ANY);
		buf_printf(out, "%s\n", text ? text : "null");
		free(text);
		break;
	}
}

void view_reply(const struct verb *v, json_t *params, struct buf *out)
{
	int n = 0;

	for (size_t i = 0; i < mem_countof(view_rows); i++) {
		const struct view *w = &view_rows[i];

		if (strcmp(w->id, v->id) != 0 || (n && !json_array_size(json_object_get(params, w->field))))
			continue;
		if (n++)
			buf_addc(out, '\n');
		view_one(w, params, out);
	}
	if (!n)
		view_fields(params, out);
}
