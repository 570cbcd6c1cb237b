/* SPDX-License-Identifier: MIT
 * completion_priv.h - what the parts of the completion parser share: its state, and the tag reader.
 * Threads: one at a time per object. Locks: none. */
#ifndef ENGINE_COMPLETION_PRIV_H
#define ENGINE_COMPLETION_PRIV_H

#include "engine/text/completion.h"
#include "engine/text/completion_lex.h"
#include "engine/text/jsonprefix.h"
#include "engine/text/stop.h"

/* Bounds of what a tag may hold back. */
#define COMPLETION_MAX_NAME 256
#define COMPLETION_MAX_JUNK 64
/* So many bytes of a string="false" value are held until they prove to be a beginning of JSON, or no JSON: then it
 * becomes a string. What follows is passed on as it comes. */
#define COMPLETION_HELD_JSON 64

enum completion_state {
	COMPLETION_TEXT,   /* reasoning or content */
	COMPLETION_BLOCK,  /* between calls */
	COMPLETION_CALL,   /* between parameters */
	COMPLETION_STRING, /* in a value */
	COMPLETION_JSON,   /* in a value, held so far */
	COMPLETION_JSON_PASSED,
	COMPLETION_SKIP    /* in a call that cannot be read */
};

/* One token: the bytes of the answer that are its own, and what they became. */
struct completion_mark {
	uint64_t from, to;
	enum completion_told_as what;
	uint64_t at;            /* of content: where in it, in bytes, */
	size_t character;       /* and in characters */
};

/* Tokens whose text is not settled yet (completion_told.c). */
struct completion_told {
	bool wanted;
	struct completion_mark *mark; /* [n] */
	int n, cap;
	uint64_t done;          /* where `in` begins */
	uint64_t put, out;      /* bytes of content: all, and those that no stop string can take back */
	size_t characters;      /* of all */
};

struct completion {
	enum completion_mode mode;
	completion_emit_f *emit;
	void *arg;
	struct completion_lex lex;
	struct stop_match *stop;

	enum completion_state state;
	bool reasoning;         /* text now belongs to the reasoning */
	bool tail;              /* calls came, and no text since */
	bool block_done;        /* a whole block with calls came */
	bool muted;             /* in a block that is dropped */
	bool no_tools;          /* every block is */
	bool sure_json;         /* nothing of a value is held */
	bool stopped;           /* a stop string was found */
	bool ended;             /* completion_end was called */
	bool any_reasoning, any_content;
	unsigned flags;
	unsigned stop_flags;    /* those that concern the text before the stop string */
	int n_begun, n_calls;

	struct buf in;          /* symbols; those before pos are done */
	size_t pos;
	struct buf out;         /* text of the event being gathered */
	enum completion_kind out_kind;

	struct completion_told told;

	/* The current call. */
	size_t gap;             /* white space since the last tag */
	bool gap_lines;         /* all of it line ends */
	json_t *names;          /* its parameters so far */
	int n_params;
	char close_symbol;      /* how the value's closing tag will be spelled */
	bool drop_value;
	struct buf held;        /* COMPLETION_JSON: the value */
	struct jsonprefix scan;
};

/* completion.c */
void completion_push(struct completion *c, enum completion_kind kind, const char *text, size_t len);

/* completion_told.c. A token begins; its own bytes begin here; they end here, and are they any? */
void completion_told_begin(struct completion *c, const struct completion_token *token);
void completion_told_from(struct completion *c);
void completion_told_to(struct completion *c, bool any);
/* That text, which stands at `at` in c->in (NULL: at its beginning), goes to the reasoning or the content. */
void completion_told_text(struct completion *c, const char *at, const char *text, size_t len);
/* len bytes of c->in are decided; of what is never in c->in. */
void completion_told_done(struct completion *c, size_t len);
void completion_told_raw(struct completion *c, size_t len);
/* Emits what is settled, all with `last`. */
void completion_told_settle(struct completion *c, bool last);

/* completion_parse.c: consumes what can be decided. With `final` nothing follows and everything is. */
void completion_parse(struct completion *c, bool final);

/* completion_call.c: one step in its state; false when more input is needed. */
bool completion_call_step(struct completion *c, bool final);

/* ---- tags: '<' '/'? DSML word attributes '>' ---- */

enum completion_word { COMPLETION_W_OTHER, COMPLETION_W_CALLS, COMPLETION_W_INVOKE, COMPLETION_W_PARAMETER };

struct completion_tag {
	enum completion_word word;
	bool close;
	bool loose;              /* not as the official encoder spells it */
	char symbol;
	const char *name;        /* of INVOKE and PARAMETER */
	size_t n_name;
	bool string;             /* of PARAMETER */
	size_t size;             /* bytes of the tag */
};

enum completion_tag_result { COMPLETION_TAG, COMPLETION_TAG_MORE, COMPLETION_TAG_NONE };

/* Reads the tag at s; a damaged one is COMPLETION_W_OTHER. MORE: may become a tag; NONE: is text. */
enum completion_tag_result completion_tag_read(const char *s, size_t len, bool final,
	struct completion_tag *ret_tag);

void completion_begin_block(struct completion *c, const struct completion_tag *tag);

#endif
