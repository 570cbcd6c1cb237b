/* SPDX-License-Identifier: MIT
 * grammar.h - what a text must be: rules over bytes that may call each other, built once, then read-only.
 * Threads: who builds it; then any, read-only. Locks: none. */
#ifndef ENGINE_GRAMMAR_H
#define ENGINE_GRAMMAR_H

#include "engine/base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Plain: a whole character but for controls and what ends or escapes something in JSON or in tags. Inside strings most
 * tokens are made of these only, and where strings are they need not be tried one by one. */
static inline bool grammar_is_plain(uint8_t byte)
{
	return byte >= ' ' && byte != '"' && byte != '\\' && byte != '<' && byte != '/' && byte != 0x7f;
}

#define GRAMMAR_NO_LIMIT UINT32_MAX

#define GRAMMAR_MAX_NODES (1 << 19)
#define GRAMMAR_MAX_RULES (1 << 14)
#define GRAMMAR_MAX_EDGES (1 << 21)
/* Steps of what is worked out for it, as patterns are: less than a tenth of a second. */
#define GRAMMAR_MAX_WORK 25000000
/* From one place so many ways may go on before anything is consumed, each of them with a byte of its own or with the
 * same; and so many nodes lead there. */
#define GRAMMAR_MAX_FORK 1024
/* Of which so many forms: each has ways of its own wherever it may have white space, or counts for itself. */
#define GRAMMAR_MAX_FORMS 100
#define GRAMMAR_MAX_PASS 8192
#define GRAMMAR_MAX_DEPTH 48 /* calls of nesting rules inside each other */

/* The byte that stands for the added token of DSML tags; no UTF-8 text has it. */
#define GRAMMAR_DSML 0xff

/* A rule is a graph of nodes, made from its end to its beginning: each builder below takes the node that comes
 * after and returns the new one. Only BYTES nodes consume. A rule has one counter, 0 when it is called. */
enum grammar_op {
	GRAMMAR_RETURN, /* the rule ends; node 0 is the only one */
	GRAMMAR_BYTES,  /* one byte, by its edge; without edges: never */
	GRAMMAR_EITHER, /* next or arg */
	GRAMMAR_JUMP,   /* next, set later: for loops */
	GRAMMAR_CALL,   /* rule arg, then next */
	GRAMMAR_COUNT,  /* the counter is one more, at most arg */
	GRAMMAR_BELOW,  /* goes on if the counter is below arg */
	GRAMMAR_FROM    /* goes on if the counter is at least arg */
};

struct grammar_edge {
	uint8_t lo, hi;
	uint32_t next;
};

#define GRAMMAR_NEVER 255

struct grammar_node {
	uint8_t op;
	/* How many more levels of nesting the rest of the rule needs at least; NEVER: it cannot end. A text is
	 * led only where its end is within reach, so that it never gets stuck. */
	uint8_t height;
	uint16_t n;        /* edges */
	uint32_t next;     /* BYTES: how often a plain character may come, 0 for no such place (grammar_plain) */
	uint32_t arg;      /* BYTES: the first edge */
};

struct grammar_rule {
	uint32_t entry;
	bool nests, defined;
	bool form;         /* an object, an array, or a string that is counted or has a pattern */
};

/* What a node leads to before anything is consumed (grammar_reach.c). */
struct grammar_reach {
	uint32_t ways, forms, nodes; /* BYTES nodes, calls of forms, and all nodes */
	uint8_t stage;
	bool ends, seconds;    /* the rule may end there */
};

/* Start from grammar_init. */
struct grammar {
	struct grammar_node *node;
	struct grammar_edge *edge;
	struct grammar_rule *rule;
	uint32_t n_node, n_edge, n_rule, cap_node, cap_edge, cap_rule;
	uint32_t root;     /* a rule, set by grammar_finish */
	struct grammar_reach *reach; /* [n_reach] of the nodes that are checked */
	uint32_t n_reach;
	uint64_t work;
	bool full;         /* a limit was reached: what was built is of no use, grammar_finish says so */
};

void grammar_init(struct grammar *g);
void grammar_fini(struct grammar *g);

/* ---- building: these never fail, see `full` ---- */

#define GRAMMAR_END 0u /* the RETURN node */

/* Edges are copied; in ascending order, without overlap. None: a node that nothing passes. */
uint32_t grammar_bytes(struct grammar *g, const struct grammar_edge *edge, size_t n);
uint32_t grammar_byte(struct grammar *g, uint8_t lo, uint8_t hi, uint32_t next);
uint32_t grammar_text(struct grammar *g, const char *text, size_t len, uint32_t next);
uint32_t grammar_str(struct grammar *g, const char *text, uint32_t next);
uint32_t grammar_either(struct grammar *g, uint32_t a, uint32_t b);
uint32_t grammar_call(struct grammar *g, uint32_t rule, uint32_t next);
uint32_t grammar_count(struct grammar *g, uint32_t most, uint32_t next);
uint32_t grammar_below(struct grammar *g, uint32_t limit, uint32_t next);
uint32_t grammar_from(struct grammar *g, uint32_t limit, uint32_t next);
/* Marks a BYTES node as a string's inside: every plain character leads to it again, each counting one, until the
 * counter is `limit`; and nothing else that may come there begins with a plain byte. */
void grammar_plain(struct grammar *g, uint32_t node, uint32_t limit);
/* A node whose successor comes later. */
uint32_t grammar_hole(struct grammar *g);
void grammar_fill(struct grammar *g, uint32_t hole, uint32_t next);

/* So much work is done for it. */
void grammar_work(struct grammar *g, uint64_t steps);

/* A rule can be called before it is defined. `nests`: calls of it count as depth. */
uint32_t grammar_rule(struct grammar *g);
void grammar_form(struct grammar *g, uint32_t rule);
void grammar_define(struct grammar *g, uint32_t rule, uint32_t entry, bool nests);

/* One of several texts, each with what comes after it; common beginnings are shared. Sorts the array. */
struct grammar_word {
	const char *text;
	size_t len;
	uint32_t next;
};
uint32_t grammar_words(struct grammar *g, struct grammar_word *word, size_t n);

/* The edges of every character from U+0080 on, ascending. */
#define GRAMMAR_UTF8_EDGES 8
void grammar_utf8(struct grammar *g, uint32_t next, struct grammar_edge ret_edge[GRAMMAR_UTF8_EDGES]);

/* Checks what was built since the last time: every rule that it calls is defined, every hole filled. CIRCLE: a rule
 * calls itself before it has consumed anything. MANY: more follows *ret_node than GRAMMAR_MAX_FORK, _FORMS or _PASS. */
enum grammar_reached { GRAMMAR_REACHED, GRAMMAR_REACHED_CIRCLE, GRAMMAR_REACHED_MANY };
enum grammar_reached grammar_reach(struct grammar *g, uint32_t *ret_node);

/* Every rule is defined: checks the whole. RC_TOO_LARGE at a limit; RC_INVALID when a rule calls itself before it
 * has consumed anything, or when no text at all follows the root. */
int grammar_finish(struct grammar *g, uint32_t root, struct buf *why);

#endif
