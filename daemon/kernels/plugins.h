/* SPDX-License-Identifier: MIT
 * plugins.h - the daemon's plugins: what the operator wants of each (intent), and what is true (temperature).
 * Threads: control; a mapping is opened, closed and freed on ops. Locks: none (ops.h hands over). */
#ifndef DAEMON_PLUGINS_H
#define DAEMON_PLUGINS_H

#include "daemon/ops.h"
#include "engine/engine.h"

#include <jansson.h>
#include <stdbool.h>

struct daemon;
struct plugin;

enum plugin_intent {
	INTENT_AUTO, /* warmed when a kernel set asks for it, cooled when unused for the cooldown */
	INTENT_WARM, /* stays warm */
	INTENT_COLD  /* cooled as soon as it is unused, and no set may ask for it */
};
enum plugin_temperature { TEMP_INIT, TEMP_COLD, TEMP_WARM, TEMP_BUSY, TEMP_COOLING };

/* The end of a slow change of one plugin; p is NULL when it is gone. */
typedef void plugin_done_f(void *arg, struct plugin *p, int rc, const char *why);

/* Who asks for it, and is told of it. */
struct plugin_told {
	plugin_done_f *done;
	void *arg;
	atomic_bool **ret_cancel;  /* *ret_cancel may be set by the control thread until done(); NULL: never */
	bool trusting;             /* a start: a trial that an earlier run saw passed will do */
};

/* One loaded file. Loading a name again makes another of these, and the older goes when it is unused. */
struct plugin {
	struct list node;
	char *name, *path;         /* path: as named, below the directory */
	char *complaint;           /* why it was last refused, or what closing it left behind; or NULL */
	char sha256[65];
	struct plugin_facts facts;
	enum plugin_intent intent;
	enum plugin_temperature temp; /* never BUSY: see plugin_temperature() */
	bool superseded;           /* a newer one has the name */
	bool forget;               /* discarded */
	int wanted;                /* by slow jobs under way: neither cooled nor dropped */
	struct plugin_map *map;    /* while WARM; handed over to be closed */
	uint64_t generation;       /* of the latest mapping, rising over all plugins; 0: never mapped */
	long long idle_since;      /* clock_ms(); 0: used, or not looked at yet */
	plugin_done_f *cooled;     /* told once when it has cooled; or NULL */
	void *cooled_arg;
};

struct plugins {
	struct list list;          /* of plugin, the oldest first */
	uint64_t generations;
};

struct plugins *plugins_new(void);
/* At the end, when no set lives and ops has stopped: closes what is mapped, here. */
void plugins_free(struct plugins **ps);

/* The newest of a name; NULL when there is none. */
struct plugin *plugins_find(struct daemon *d, const char *name);
/* The same for a verb that changes it. RC_NOT_FOUND; RC_INVALID for ref, which nothing changes. */
int plugins_need(struct daemon *d, const char *name, struct plugin **ret_p, struct buf *why);
/* Whose mapping this is; NULL for ref. */
struct plugin *plugins_of(struct daemon *d, const struct provider *p);
/* A kset_find_f, arg is the daemon: the provider of a warm plugin that kernel sets may be built with. */
struct provider *plugins_provider(void *d, const char *name);
/* May a set be built with this name once it is warm? RC_NOT_FOUND, RC_PLUGIN intent-cold. *ret_p is NULL for ref. */
int plugins_usable(struct daemon *d, const char *name, struct plugin **ret_p, struct buf *why);
/* A set was built with it, or is to be: its cooldown begins anew. */
void plugins_touch(struct daemon *d, const struct provider *p);
/* Cools what is due; call whenever users, intent or time have changed. */
void plugins_settle(struct daemon *d);
/* Once a second: the names of those that are mapped, for the line of a crash. */
void plugins_tell_crash(struct daemon *d);
/* Takes it off the list and frees it; it must not be mapped. */
void plugins_drop(struct plugin *p);

/* What an operator is shown: BUSY where it is warm and a set or a slow job has it. */
enum plugin_temperature plugin_temperature(const struct plugin *p);
/* Can sets be built with it now? */
bool plugin_mapped(const struct plugin *p);
const char *plugin_intent_name(enum plugin_intent i);
const char *plugin_temperature_name(enum plugin_temperature t);
/* Replaces its complaint, of which it keeps a copy; NULL: there is none any more. */
void plugin_complain(struct plugin *p, const char *why);
/* io.dsv4.Plugins.Plugin */
json_t *plugin_json(const struct plugin *p);
json_t *plugin_ops_json(const struct plugin_facts *f);

/* ---- plugin_load.c ---- */

/* Reads, tries in a child process, maps, opens and warms `file` on ops; then it is the newest of its name. sha256
 * NULL: any. RC_BUSY at once, else t->done() is called, once. */
int plugin_load(struct daemon *d, const char *file, const char *sha256, const struct plugin_told *t, struct buf *why);
/* The same for a cold plugin: a fresh copy of the same bytes, with its trial. */
int plugin_warm(struct daemon *d, struct plugin *p, const struct plugin_told *t, struct buf *why);
/* Closes and unmaps on ops an unused one. RC_BUSY when ops takes no more now. */
int plugin_cool(struct daemon *d, struct plugin *p);
/* "NAME" for "NAME.so" where there is no folder in it: what operators type. The caller frees. */
char *plugin_file_name(const char *name);

#endif
