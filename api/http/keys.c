/* SPDX-License-Identifier: MIT
 * keys.c - who may call: a file of salted hashes with names and limits, read again while calls run.
 * Threads: any. Lock: keys. */
#include "api/http/keys.h"
#include "engine/base/keyhash.h"
#include "engine/base/lock.h"
#include "engine/base/mapfile.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define KEYS_MAX_BYTES (1u << 20)
#define KEYS_MAX_LIMIT 1000000

/* What runs and ran under a name; shared by its key, the keys of later files with the name, and its calls. */
struct keys_use {
	char name[KEYHASH_NAME + 1];
	int refs, running;
	double tokens, filled; /* requests that may come at once; when that was so, seconds. filled 0: never used */
};

struct keys_entry {
	struct keyhash hash;
	int line, per_minute, concurrent; /* limits; 0: none */
	struct keys_use *use;
};

struct keys {
	struct lock lock;
	struct keys_entry *entry;
	int n;
	struct keys_use **gone; /* of names that are in the file no more, while they count */
	int n_gone;
};

static void keys_use_unref(struct keys_use *u)
{
	must(u->refs > 0);
	if (--u->refs == 0)
		free(u);
}

/* ---- the file ---- */

struct keys_at {
	const char *path;
	int line;
};

static int keys_bad(const struct keys_at *at, struct buf *why, const char *text)
{
	return buf_why(why, RC_CONFIG, "%s:%d: %s", at->path, at->line, text);
}

static int keys_limit(const struct keys_at *at, struct keys_entry *e, const char *word, struct buf *why)
{
	static const char *const names[] = { "requests_per_minute=", "concurrent=" };
	int *const to[] = { &e->per_minute, &e->concurrent };

	for (size_t i = 0; i < mem_countof(names); i++) {
		const char *s = word + strlen(names[i]);
		char *end;
		long n;

		if (strncmp(word, names[i], strlen(names[i])))
			continue;
		n = *s >= '0' && *s <= '9' ? strtol(s, &end, 10) : 0;
		if (n < 1 || n > KEYS_MAX_LIMIT || *end)
			return keys_bad(at, why, "a limit is a number from 1 to 1000000");
		if (*to[i])
			return keys_bad(at, why, "a limit given twice");
		*to[i] = (int)n;
		return 0;
	}
	return keys_bad(at, why, "after the hash come requests_per_minute=N and concurrent=N only");
}

/* What is wrong is never repeated: the line may hold a key that someone put where its hash belongs. */
static int keys_line(const struct keys_at *at, struct keys *k, char *line, struct buf *why)
{
	char *save, *name = strtok_r(line, " \t\r", &save), *hash, *word;
	struct keys_entry e = { .line = at->line };
	int r = 0;

	if (!name || *name == '#')
		return 0;
	hash = strtok_r(NULL, " \t\r", &save);
	if (!keyhash_name_ok(name))
		return keys_bad(at, why, "a name has 1 to 26 letters, digits, dots, dashes and underscores");
	if (!hash || !keyhash_parse(hash, &e.hash))
		return keys_bad(at, why, "after the name comes a hash: sha256$SALT$DIGEST (from dsv4ctl key new)");
	while (!r && (word = strtok_r(NULL, " \t\r", &save)))
		r = keys_limit(at, &e, word, why);
	for (int i = 0; i < k->n && !r; i++)
		if (!strcmp(k->entry[i].use->name, name))
			r = buf_why(why, RC_CONFIG, "%s:%d: the name %s is that of line %d already", at->path,
				    at->line, name, k->entry[i].line);
	if (!r && k->n == KEYS_MAX)
		r = keys_bad(at, why, "more than 1024 keys");
	if (r)
		return r;
	e.use = mem_new(sizeof *e.use);
	strcpy(e.use->name, name);
	e.use->refs = 1;
	k->entry[k->n++] = e;
	return 0;
}

static int keys_lines(const char *path, struct buf *text, struct keys *k, struct buf *why)
{
	struct keys_at at = { path, 1 };
	char *s = text->data, *end = s + text->len;
	int r = 0;

	if (memchr(s, '\0', text->len))
		return buf_why(why, RC_CONFIG, "%s: a NUL byte", path);
	for (; s < end && !r; at.line++) {
		size_t n = strcspn(s, "\n");

		s[n] = '\0';
		r = keys_line(&at, k, s, why);
		s += n + 1;
	}
	return r;
}

/* As for ssh's private keys: a file that others can read or change is refused, not used with a sigh. */
static int keys_mode(const char *path, struct buf *why)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return buf_why(why, -errno, "%s: %s", path, strerror(errno));
	if (st.st_mode & (S_IWGRP | S_IRWXO))
		return buf_why(why, RC_CONFIG, "%s: mode %04o lets others in; chmod 600 or 640", path,
			       (unsigned)(st.st_mode & 07777));
	return 0;
}

int keys_read(const char *path, struct keys **ret_k, struct buf *why)
{
	struct keys *k = mem_new(sizeof *k);
	struct buf text = { 0 };
	int r;

	lock_init(&k->lock, "keys");
	k->entry = mem_new(KEYS_MAX * sizeof *k->entry);
	r = keys_mode(path, why);
	r = r ? r : mapfile_slurp(path, KEYS_MAX_BYTES, &text, why);
	if (!r && text.len)
		r = keys_lines(path, &text, k, why);
	buf_fini(&text);
	if (r)
		keys_free(&k);
	else
		*ret_k = k;
	return r;
}

void keys_free(struct keys **pk)
{
	struct keys *k = *pk;

	*pk = NULL;
	if (!k)
		return;
	for (int i = 0; i < k->n; i++)
		keys_use_unref(k->entry[i].use);
	for (int i = 0; i < k->n_gone; i++)
		keys_use_unref(k->gone[i]);
	free(k->gone);
	lock_fini(&k->lock);
	free(k->entry);
	free(k);
}

int keys_count(struct keys *k)
{
	int n;

	lock_take(&k->lock);
	n = k->n;
	lock_drop(&k->lock);
	return n;
}

static struct keys_entry *keys_by_name(struct keys *k, const char *name)
{
	for (int i = 0; i < k->n; i++)
		if (!strcmp(k->entry[i].use->name, name))
			return &k->entry[i];
	return NULL;
}

static bool keys_same(const struct keys_entry *a, const struct keys_entry *b)
{
	return a->per_minute == b->per_minute && a->concurrent == b->concurrent &&
	       !memcmp(&a->hash, &b->hash, sizeof a->hash);
}

/* Takes over what was counted under e's name. */
static void keys_take_over(struct keys_entry *e, struct keys_use *u)
{
	keys_use_unref(e->use);
	e->use = u;
	u->refs++;
}

static void keys_compare(struct keys *k, struct keys *next, struct keys_change *c)
{
	*c = (struct keys_change){ .now = next->n };
	for (int i = 0; i < next->n; i++) {
		struct keys_entry *e = &next->entry[i], *was = keys_by_name(k, e->use->name);

		c->added += !was;
		c->changed += was && !keys_same(e, was);
		if (was)
			keys_take_over(e, was->use);
		for (int j = 0; j < k->n_gone && !was; j++)
			if (!strcmp(k->gone[j]->name, e->use->name))
				keys_take_over(e, k->gone[j]);
	}
	c->removed = k->n - (c->now - c->added);
}

/* Is there something that a key of the name would have to count? A minute fills any bucket. */
static bool keys_counts(const struct keys_use *u, double now)
{
	return u->refs > 1 || (u->filled > 0 && now - u->filled < 60);
}

/* Keeps those of names that are in no file now, while they count. */
static void keys_keep_gone(struct keys *k, struct keys *old, double now)
{
	struct keys_use **gone = mem_new(((size_t)k->n_gone + (size_t)old->n + 1) * sizeof *gone);
	int n = 0;

	for (int i = 0; i < k->n_gone + old->n; i++) {
		struct keys_use *u = i < k->n_gone ? k->gone[i] : old->entry[i - k->n_gone].use;

		if (!keys_by_name(k, u->name) && keys_counts(u, now))
			gone[n++] = u;
		else
			keys_use_unref(u);
	}
	free(k->gone);
	k->gone = gone;
	k->n_gone = n;
	old->n = 0;
}

void keys_replace(struct keys *k, struct keys **next, double now, struct keys_change *ret_change)
{
	struct keys *old = *next;
	struct keys_entry *entry;
	int n;

	*next = NULL;
	lock_take(&k->lock);
	keys_compare(k, old, ret_change);
	entry = k->entry;
	n = k->n;
	k->entry = old->entry;
	k->n = old->n;
	old->entry = entry;
	old->n = n;
	keys_keep_gone(k, old, now);
	lock_drop(&k->lock);
	keys_free(&old);
}

/* ---- calls ---- */

/* No early end: how long it takes says nothing about which key it was or how much of it was right. */
static struct keys_entry *keys_find(struct keys *k, const char *shown)
{
	size_t len = strlen(shown), found = SIZE_MAX;

	for (size_t i = 0; i < (size_t)k->n; i++) {
		size_t is = (size_t)0 - keyhash_is(&k->entry[i].hash, shown, len);

		found = (found & ~is) | (i & is);
	}
	return found == SIZE_MAX ? NULL : &k->entry[found];
}

/* A bucket that holds a minute's requests and fills steadily. 0, or the seconds until there is room. */
static int keys_wait(const struct keys_entry *e, double now)
{
	struct keys_use *u = e->use;
	double per_s = e->per_minute / 60.0;

	if (e->concurrent && u->running >= e->concurrent)
		return 1;
	if (!e->per_minute)
		return 0;
	u->tokens = u->filled > 0 ? fmin(e->per_minute, u->tokens + (now - u->filled) * per_s) : e->per_minute;
	u->filled = now;
	return u->tokens >= 1 ? 0 : (int)ceil((1 - u->tokens) / per_s);
}

static int keys_admit(struct keys *k, struct keys_entry *e, double now, struct keys_pass *ret_pass,
		      struct error *err)
{
	struct keys_use *u = e->use;
	int wait = keys_wait(e, now);

	if (wait && e->concurrent && u->running >= e->concurrent)
		error_set(err, RC_LIMIT, NULL, "the key %s has its %d concurrent requests", u->name, e->concurrent);
	else if (wait)
		error_set(err, RC_LIMIT, NULL, "the key %s has had its %d requests per minute; try again in %d s",
			  u->name, e->per_minute, wait);
	err->retry_after = wait;
	if (wait)
		return RC_LIMIT;
	u->tokens -= e->per_minute ? 1 : 0;
	u->running++;
	u->refs++;
	*ret_pass = (struct keys_pass){ .keys = k, .use = u, .concurrent = e->concurrent, .running = 1 };
	return 0;
}

int keys_enter(struct keys *k, const char *const *shown, int n, double now, struct keys_pass *ret_pass,
	       struct error *err)
{
	struct keys_entry *e = NULL;
	bool any = false;
	int rc;

	lock_take(&k->lock);
	for (int i = 0; i < n; i++) {
		struct keys_entry *is = shown[i] ? keys_find(k, shown[i]) : NULL;

		any |= shown[i] != NULL;
		e = e ? e : is;
	}
	if (e)
		rc = keys_admit(k, e, now, ret_pass, err);
	else
		rc = error_set(err, RC_AUTH, NULL, "%s", any ? "the API key is not known here" :
			       "an API key is needed: Authorization: Bearer KEY, or x-api-key: KEY");
	lock_drop(&k->lock);
	return rc;
}

int keys_answers(struct keys_pass *p, int n, struct error *err)
{
	int rc = 0;

	if (!p->keys)
		return 0;
	if (p->concurrent && n > p->concurrent)
		return error_set(err, RC_INVALID, NULL, "%d answers at once: the key %s may have %d", n, p->use->name,
				 p->concurrent);
	lock_take(&p->keys->lock);
	if (p->concurrent && p->use->running - p->running + n > p->concurrent) {
		rc = error_set(err, RC_LIMIT, NULL, "the key %s may have %d answers at once, and %d are running",
			       p->use->name, p->concurrent, p->use->running - p->running);
		err->retry_after = 1;
	} else {
		p->use->running += n - p->running;
		p->running = n;
	}
	lock_drop(&p->keys->lock);
	return rc;
}

void keys_answered(struct keys_pass *p)
{
	if (!p->keys || p->answered)
		return;
	lock_take(&p->keys->lock);
	must(p->use->running >= p->running);
	p->use->running -= p->running;
	lock_drop(&p->keys->lock);
	p->answered = true;
}

void keys_leave(struct keys_pass *p)
{
	if (!p->keys)
		return;
	keys_answered(p);
	lock_take(&p->keys->lock);
	keys_use_unref(p->use);
	lock_drop(&p->keys->lock);
	*p = (struct keys_pass){ 0 };
}

const char *keys_name(const struct keys_pass *p)
{
	return p->use ? p->use->name : NULL;
}
