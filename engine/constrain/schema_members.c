/* SPDX-License-Identifier: MIT
 * schema_members.c - how members are written one after the other: of an object in JSON, or as parameters of a call.
 * Threads: one at a time per object. Locks: none. */
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/constrain/schema_priv.h"
#include "engine/text/pyjson.h"

#include <stdlib.h>
#include <string.h>

/* The byte that a tag's marker is, for string literals. */
#define DSML "\xff"
/* Characters of an additional parameter's name, after what it has in common with others. */
#define SCHEMA_MAX_FREE_NAME 64

struct schema_writer {
	struct schema *s;
	struct grammar *g;
	bool params;
};

bool schema_name_fits(const char *name)
{
	size_t i, n = strlen(name);

	for (i = 0; i < n; i++)
		if ((unsigned char)name[i] < ' ' || strchr("\"<>", name[i]))
			return false;
	return n > 0 && n <= SCHEMA_MAX_PARAM_NAME;
}

/* ---- names that are none of some ---- */

/* The names from one position on: those of `name` that have a beginning in common, and the place where a name that is
 * none of them is in its next character. */
struct schema_names {
	struct schema_writer *w;
	const char *const *name; /* sorted */
	size_t n, at;
	uint32_t place;        /* BYTES node of what may come */
};

struct schema_free {
	uint32_t body;         /* where a character begins */
	uint32_t end;          /* what may come instead */
};

/* Leaves the names' common way at every byte that none of them has; returns the node. Recurses once for each byte of
 * the longest name. */
static uint32_t schema_names_from(const struct schema_names *x, const struct schema_free *f)
{
	struct grammar *g = x->w->g;
	const struct grammar_node place = g->node[x->place];
	struct grammar_edge *e = mem_grow(NULL, 256, sizeof *e); /* not on the stack: this recurses */
	bool is_name = false;
	size_t n = 0, i = 0, k = 0;
	uint32_t node;
	int byte;

	grammar_work(g, 256);
	for (; i < x->n && x->name[i][x->at] == '\0'; i++)
		is_name = true;
	for (byte = 0; byte < 256 && !g->full; byte++) {
		struct schema_names sub = *x;
		uint32_t next = 0;

		while (k < place.n && g->edge[place.arg + k].hi < byte)
			k++;
		if (k < place.n && g->edge[place.arg + k].lo <= byte)
			next = g->edge[place.arg + k].next;
		sub.name = x->name + i;
		for (sub.n = 0; i < x->n && (uint8_t)x->name[i][x->at] == byte; i++)
			sub.n++;
		if (next == 0)
			continue;
		if (sub.n) {
			sub.at++;
			sub.place = g->node[next].op == GRAMMAR_BYTES && next != f->body ? next : f->body;
			next = schema_names_from(&sub, f);
		}
		if (n && e[n - 1].next == next && e[n - 1].hi == byte - 1)
			e[n - 1].hi = (uint8_t)byte;
		else
			e[n++] = (struct grammar_edge){ (uint8_t)byte, (uint8_t)byte, next };
	}
	node = grammar_bytes(g, e, n);
	free(e);
	return x->place == f->body && !is_name ? grammar_either(g, node, f->end) : node;
}

static int schema_names_cmp(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The characters that such names are made of: in JSON any without an escape, in parameters those of identifiers. */
static uint32_t schema_names_body(struct schema_writer *w, uint32_t next)
{
	struct grammar *g = w->g;
	const struct grammar_edge word[] = { { '-', '.', next }, { '0', '9', next }, { 'A', 'Z', next },
					     { '_', '_', next }, { 'a', 'z', next } };
	struct grammar_edge e[4 + GRAMMAR_UTF8_EDGES] = { { ' ', '!', next }, { '#', '[', next }, { ']', 0x7f, next } };

	if (w->params)
		return grammar_bytes(g, word, mem_countof(word));
	grammar_utf8(g, next, e + 3);
	return grammar_bytes(g, e, 3 + GRAMMAR_UTF8_EDGES);
}

/* A rule: a name that is none of the members', with the quote that ends it. */
static uint32_t schema_names(struct schema_writer *w, const struct schema_member *member, size_t n)
{
	const char **name = mem_grow(NULL, n + 1, sizeof *name);
	struct grammar *g = w->g;
	uint32_t rule = grammar_rule(g), again = grammar_hole(g), next, node;
	struct schema_names x = { .w = w, .name = name };
	struct schema_free f = { .end = grammar_str(g, "\"", GRAMMAR_END) };
	size_t i;

	for (i = 0; i < n; i++)
		if (strlen(member[i].name) <= SCHEMA_MAX_PARAM_NAME || !w->params)
			name[x.n++] = member[i].name;
	qsort(name, x.n, sizeof *name, schema_names_cmp);
	next = w->params ? grammar_count(g, SCHEMA_MAX_FREE_NAME, again) : again;
	f.body = schema_names_body(w, next);
	node = w->params ? grammar_below(g, SCHEMA_MAX_FREE_NAME, f.body) : f.body;
	grammar_fill(g, again, grammar_either(g, node, f.end));
	x.place = f.body;
	if (g->full)
		node = GRAMMAR_END;
	else if (x.n == 0 && w->params)
		node = f.body;
	else
		node = x.n == 0 ? again : schema_names_from(&x, &f);
	grammar_define(g, rule, node, false);
	free(name);
	return rule;
}

/* ---- one member ---- */

/* After the name and its quote: the value, then next. */
static uint32_t schema_member_value(struct schema_writer *w, const struct schema_member *m, uint32_t next)
{
	struct grammar *g = w->g;
	struct jrules *j = w->s->j;
	uint32_t text, other;

	if (!w->params) {
		next = jrule_space(g, j, grammar_call(g, m->value, jrule_space(g, j, next)));
		return jrule_space(g, j, grammar_str(g, ":", next));
	}
	next = grammar_str(g, "</" DSML "parameter>", next);
	text = grammar_str(g, "true\">", grammar_call(g, m->text, next));
	other = grammar_str(g, "false\">", grammar_call(g, m->value, next));
	return grammar_str(g, " string=\"", grammar_either(g, text, other));
}

/* The whole member, then next. `rest`: of an additional one, the rule of its name. */
static uint32_t schema_member(struct schema_writer *w, const struct schema_member *m, uint32_t names, uint32_t next)
{
	struct buf name = { 0 };

	next = schema_member_value(w, m, next);
	if (m->name) {
		if (w->params)
			buf_adds(&name, m->name);
		else
			pyjson_escape(m->name, strlen(m->name), &name);
		buf_addc(&name, '"');
		next = grammar_text(w->g, name.data, name.len, next);
	} else if (m->names) {
		return grammar_call(w->g, m->names - 1, next); /* the quotes are theirs */
	} else {
		next = grammar_call(w->g, names, next);
	}
	buf_fini(&name);
	return grammar_str(w->g, w->params ? "<" DSML "parameter name=\"" : "\"", next);
}

/* ---- all of them ---- */

static uint32_t schema_members_begin(struct schema_writer *w, uint32_t next)
{
	return w->params ? next : grammar_str(w->g, "{", jrule_space(w->g, w->s->j, next));
}

static uint32_t schema_members_between(struct schema_writer *w, uint32_t next)
{
	return w->params ? grammar_str(w->g, "\n", next) : grammar_str(w->g, ",", jrule_space(w->g, w->s->j, next));
}

static uint32_t schema_members_end(struct schema_writer *w)
{
	return w->params ? GRAMMAR_END : grammar_str(w->g, "}", GRAMMAR_END);
}

/* Additional members, one or more, to the end. */
static uint32_t schema_members_more(struct schema_writer *w, const struct schema_member *more, uint32_t names)
{
	struct grammar *g = w->g;
	uint32_t again = grammar_hole(g), most = more->max == JRULE_NO_MAX ? more->min : more->max;
	uint32_t end = schema_members_end(w), next = schema_members_between(w, again), after;

	if (more->min > 1)
		end = grammar_from(g, more->min, end);
	if (more->max != JRULE_NO_MAX)
		next = grammar_below(g, more->max, next);
	after = grammar_either(g, end, next);
	if (more->max != JRULE_NO_MAX || more->min > 1)
		after = grammar_count(g, most, after);
	grammar_fill(g, again, schema_member(w, more, names, after));
	return again;
}

/* From the last member to the first: `choose` begins a member from i on, `after` follows the one before it. The end
 * comes first among alternatives, since an automaton follows only so many. */
uint32_t schema_members(struct schema *s, bool params, const struct schema_member *member, size_t n,
			const struct schema_member *more)
{
	struct schema_writer w = { .s = s, .g = s->g, .params = params };
	uint32_t end = schema_members_end(&w), choose, after, one;
	bool may_end = !more || more->min == 0;
	size_t i = n;

	choose = grammar_bytes(s->g, NULL, 0);
	if (more)
		choose = schema_members_more(&w, more, more->names ? 0 : schema_names(&w, member, n));
	while (i-- > 0) {
		after = schema_members_between(&w, choose);
		if (may_end)
			after = grammar_either(s->g, end, after);
		one = schema_member(&w, &member[i], 0, after);
		choose = member[i].required ? one : grammar_either(s->g, one, choose);
		may_end &= !member[i].required;
	}
	return schema_members_begin(&w, may_end ? grammar_either(s->g, end, choose) : choose);
}
