/* SPDX-License-Identifier: MIT
 * ctl.h - what the files of the command dsv4ctl share: the call being made, its exit status, who does what.
 * Threads: one. Locks: none. */
#ifndef CTL_CTL_H
#define CTL_CTL_H

#include "ctl/varlink.h"
#include "ctl/verb.h"
#include "engine/base/buf.h"

#include <jansson.h>
#include <stdbool.h>

enum ctl_exit {
	CTL_OK = 0,
	CTL_ERROR = 1,
	CTL_USAGE = 2,
	CTL_CONNECT = 3,
	CTL_DENIED = 4,
	CTL_LATER = 5, /* timeout or busy */
	CTL_PROBE_WARN = 10,
	CTL_PROBE_FAIL = 11,
	CTL_BISECT_AGREE = 12,  /* the ends are no reason to look */
	CTL_BISECT_UNSETTLED = 13
};

struct ctl {
	const char *socket;
	bool json, help, version;
	char **word; /* what is not a global option */
	int n_word;
	const struct verb *verb;
	struct client *client;
	bool silent;            /* ask(): a question had no answer in time */
	struct dump_file *dump; /* cache dump: the file being written */
};

/* Every function that returns int without `why` returns an enum ctl_exit, and has said what there is to say. */

/* ctl_call.c: calls the daemon and shows what it replies. */
int ctl_call(struct ctl *c, json_t *params);

/* ctl_show.c */
int ctl_show_usage(const char *text);
/* Nobody there, or no reply: `why`, else the code's text. */
int ctl_show_failed(int rc, const struct buf *why);
int ctl_show_file_failed(const struct buf *why);
int ctl_show_error(const struct ctl *c, const struct varlink_reply *r);
int ctl_show_reply(const struct ctl *c, const struct varlink_reply *r);
/* A bar on a terminal, and what must end first; nothing otherwise. */
void ctl_show_progress(const struct ctl *c, json_t *params);
/* Takes the bar away. */
void ctl_show_no_progress(const struct ctl *c);
void ctl_show_json(json_t *v);

/* ctl_file.c: puts the text of files in the place of their names. RC_INVALID, RC_TOO_LARGE, -errno. */
int ctl_file_read(const struct ctl *c, json_t *params, struct buf *why);

/* own.def: what is no verb; c->word has all the words. */
#define OWN(id, first, second, args, text) int ctl_##id(struct ctl *c);
#include "ctl/own.def"
#undef OWN

/* The verbs that are more than a call. */
int ctl_dump(struct ctl *c, json_t *params);
int ctl_dump_diff(struct ctl *c, json_t *params);
int ctl_probe(struct ctl *c, json_t *params);

#endif
