/* SPDX-License-Identifier: MIT
 * prompt.c - a rendered prompt: its text, and which parts of it are control tokens.
 * Threads: any. Locks: none. */
#include "engine/base/mem.h"
#include "engine/base/rc.h"
#include "engine/text/prompt_priv.h"

#include <stdlib.h>
#include <string.h>

static const struct prompt_marker_text {
	const char *text;
	size_t len;
	const char *task;
} prompt_markers[] = {
#define M(name, text) { text, sizeof text - 1, NULL },
#define TASK(name, text, task) { text, sizeof text - 1, task },
	PROMPT_MARKERS(M, TASK)
#undef M
#undef TASK
};

/* A run of text, or one marker. Runs never touch, so that what belongs together is tokenized together. */
struct prompt_piece {
	enum prompt_marker marker;
	size_t len;
};

struct prompt {
	struct buf text;
	struct prompt_piece *piece;
	int n, cap;
};

static void prompt_add_piece(struct prompt *p, enum prompt_marker m, const char *text, size_t len)
{
	if (len == 0)
		return;
	buf_add(&p->text, text, len);
	if (m == PROMPT_NO_MARKER && p->n > 0 && p->piece[p->n - 1].marker == m) {
		p->piece[p->n - 1].len += len;
		return;
	}
	if (p->n == p->cap) {
		p->cap = p->cap ? 2 * p->cap : 16;
		p->piece = mem_grow(p->piece, (size_t)p->cap, sizeof *p->piece);
	}
	p->piece[p->n++] = (struct prompt_piece){ .marker = m, .len = len };
}

void prompt_add_marker(struct prompt *p, enum prompt_marker m)
{
	prompt_add_piece(p, m, prompt_markers[m].text, prompt_markers[m].len);
}

void prompt_add_text(struct prompt *p, const char *text, size_t len)
{
	prompt_add_piece(p, PROMPT_NO_MARKER, text, len);
}

void prompt_add_string(struct prompt *p, const json_t *string)
{
	prompt_add_text(p, json_string_value(string), json_string_length(string));
}

static enum prompt_marker prompt_marker_at(const char *text)
{
	int m;

	for (m = 0; m < PROMPT_N_MARKERS; m++)
		if (strncmp(text, prompt_markers[m].text, prompt_markers[m].len) == 0)
			return (enum prompt_marker)m;
	return PROMPT_NO_MARKER;
}

void prompt_add_format(struct prompt *p, const char *text)
{
	const char *from = text;

	while (*text) {
		enum prompt_marker m = prompt_marker_at(text);

		if (m == PROMPT_NO_MARKER) {
			text++;
			continue;
		}
		prompt_add_text(p, from, (size_t)(text - from));
		prompt_add_marker(p, m);
		text += prompt_markers[m].len;
		from = text;
	}
	prompt_add_text(p, from, (size_t)(text - from));
}

size_t prompt_size(const struct prompt *p)
{
	return p->text.len;
}

enum prompt_marker prompt_task(const char *name)
{
	int m;

	for (m = 0; m < PROMPT_N_MARKERS; m++)
		if (prompt_markers[m].task && strcmp(prompt_markers[m].task, name) == 0)
			return (enum prompt_marker)m;
	return PROMPT_NO_MARKER;
}

int prompt_render(json_t *messages, json_t *tools, const struct prompt_options *o, struct prompt **ret_p,
	struct buf *why)
{
	struct prompt_turns t = { 0 };
	struct prompt *p = mem_new(sizeof *p);
	int rc = prompt_turns_read(messages, tools, &t, why);

	if (rc == 0)
		rc = prompt_render_turns(p, &t, o, why);
	prompt_turns_fini(&t);
	if (rc)
		prompt_free(&p);
	else
		*ret_p = p;
	return rc;
}

void prompt_free(struct prompt **p)
{
	if (!*p)
		return;
	buf_fini(&(*p)->text);
	free((*p)->piece);
	free(*p);
	*p = NULL;
}

void prompt_text(const struct prompt *p, struct buf *out)
{
	buf_add(out, p->text.data, p->text.len);
}

bool prompt_in_thinking(const struct prompt *p)
{
	return p->n > 0 && p->piece[p->n - 1].marker == PROMPT_M_THINK;
}

int prompt_tokens(const struct prompt *p, const struct tokenizer *t, struct token_ids *out, struct buf *why)
{
	size_t at = 0;
	int i;

	for (i = 0; i < p->n; at += p->piece[i++].len) {
		const char *text;
		int32_t id;

		if (p->piece[i].marker == PROMPT_NO_MARKER) {
			int rc = tokenizer_encode(t, p->text.data + at, p->piece[i].len, false, out);

			if (rc < 0)
				return buf_why(why, rc, "prompt of %zu bytes: %s", p->text.len, rc_text(rc));
			continue;
		}
		text = prompt_markers[p->piece[i].marker].text;
		id = tokenizer_added(t, text);
		if (id < 0)
			return buf_why(why, RC_MODEL, "tokenizer.json: no added token %s for the prompt", text);
		token_ids_add(out, id);
	}
	return 0;
}
