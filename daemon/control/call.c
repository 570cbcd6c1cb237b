/* SPDX-License-Identifier: MIT
 * call.c - one Varlink call: found in the verb table, checked, permitted, handled, answered, audited.
 * Threads: control. Locks: none. */
#include "daemon/control/call.h"
#include "ctl/iface.h"
#include "daemon/verbs/verbs.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <stdlib.h>
#include <string.h>

/* In the order of verb_table. */
static call_f *const call_handlers[] = {
#define VERB(id, words, method, level, lasts, args, text) verb_##id,
#include "ctl/verbs.def"
#undef VERB
};

static void call_free(struct call *c)
{
	varlink_call_fini(&c->wire);
	json_decref(c->params);
	free(c);
}

/* The call's parameters as one line of JSON, without secrets and the values of whoever is not allowed
 * anyway. */
static void call_audit_args(const struct call *c, struct buf *out)
{
	struct verb_arg a[VERB_MAX_ARGS];
	json_t *copy = json_copy(c->params);
	int n = verb_args(c->verb, a);
	char *text;

	for (int i = 0; i < n; i++)
		if ((a[i].type == VERB_SECRET || a[i].type == VERB_FILE) && json_object_get(copy, a[i].name))
			json_object_set_new(copy, a[i].name, json_string("***"));
	text = json_dumps(copy, JSON_COMPACT);
	buf_adds(out, text ? text : "{}");
	free(text);
	json_decref(copy);
}

static void call_audit(const struct call *c, const char *result)
{
	/* A site of its own for each line: a flood of calls must not push others out of the log. */
	struct log_site site = { 0 };
	struct buf args = { 0 };

	if (c->verb->level == VERB_MONITOR || !log_wants(LOG_LV_NOTICE))
		return;
	call_audit_args(c, &args);
	log_write(&site, LOG_LV_NOTICE, "audit", "uid=%u pid=%d level=%s method=%s args=%s result=%s",
		  (unsigned)c->peer.uid, (int)c->peer.pid, verb_level_name(c->peer.level), c->verb->method,
		  LOGQ(buf_str(&args)), result);
	buf_fini(&args);
}

static void call_send(struct conn *c, bool oneway, const char *error, json_t *params, bool continues)
{
	if (c && !oneway)
		conn_send(c, error, params, continues);
	json_decref(params);
}

void call_refuse(struct conn *c, int rc, const char *message)
{
	call_send(c, false, rc_varlink(rc), varlink_text("message", message), false);
}

void call_progress(struct call *c, json_t *params)
{
	if (c->wire.more)
		call_send(c->conn, c->wire.oneway, NULL, params, true);
	else
		json_decref(params);
}

static void call_end(struct call **cp, const char *error, json_t *params, const char *result)
{
	struct call *c = *cp;

	*cp = NULL;
	call_audit(c, result);
	call_send(c->conn, c->wire.oneway, error, params, false);
	if (c->conn)
		conn_resume(c->conn);
	call_free(c);
}

void call_reply(struct call **c, json_t *params)
{
	call_end(c, NULL, params, "ok");
}

void call_fail(struct call **c, int rc, const char *message)
{
	must(rc < 0);
	call_end(c, rc_varlink(rc), varlink_text("message", message && *message ? message : rc_text(rc)),
		 rc_name(rc));
}

void call_gone(struct call **cp)
{
	struct call *c = *cp;

	*cp = NULL;
	c->conn = NULL;
	if (c->gone)
		c->gone(c);
}

void call_taken(struct call *c)
{
	if (c->taken)
		c->taken(c);
}

/* ---- org.varlink.service ---- */

static json_t *call_info(void)
{
	json_t *names = json_array();

	for (int i = 0; i < iface_count; i++)
		json_array_append_new(names, json_string(iface_table[i].name));
	return json_pack("{s:s, s:s, s:s, s:s, s:o}", "vendor", "dsv4d", "product", "dsv4d", "version",
			 PACKAGE_VERSION,
			 "url", "", "interfaces", names);
}

/* An error whose one parameter is the name that was not understood. */
static void call_named_error(struct conn *c, bool oneway, const char *error, const char *key,
			     const char *name)
{
	struct buf full = { 0 };

	buf_printf(&full, "org.varlink.service.%s", error);
	call_send(c, oneway, buf_str(&full), varlink_text(key, name), false);
	buf_fini(&full);
}

static void call_describe(struct conn *c, const struct varlink_call *w)
{
	const char *name = json_string_value(json_object_get(w->params, "interface"));
	const struct iface *i = name ? iface_find(name) : NULL;

	if (!name)
		call_named_error(c, w->oneway, "InvalidParameter", "parameter", "interface");
	else if (!i)
		call_named_error(c, w->oneway, "InterfaceNotFound", "interface", name);
	else
		call_send(c, w->oneway, NULL, varlink_text("description", i->text), false);
}

static void call_service(struct conn *c, const struct varlink_call *w)
{
	bool info = !strcmp(w->method, "org.varlink.service.GetInfo");
	const char *key;
	json_t *v;

	if (!info && strcmp(w->method, "org.varlink.service.GetInterfaceDescription") != 0) {
		call_named_error(c, w->oneway, "MethodNotFound", "method", w->method);
		return;
	}
	json_object_foreach(w->params, key, v)
		if (info || strcmp(key, "interface") != 0) {
			call_named_error(c, w->oneway, "InvalidParameter", "parameter", key);
			return;
		}
	if (info)
		call_send(c, w->oneway, NULL, call_info(), false);
	else
		call_describe(c, w);
}

/* ---- our own interfaces ---- */

static void call_unknown(struct conn *c, const struct varlink_call *w)
{
	char *name = mem_strndup(w->method, (size_t)(strrchr(w->method, '.') - w->method));

	if (iface_find(name))
		call_named_error(c, w->oneway, "MethodNotFound", "method", w->method);
	else
		call_named_error(c, w->oneway, "InterfaceNotFound", "interface", name);
	free(name);
}

/* Numbers that are nobody's are for experiments of whoever answers for the daemon. */
static enum verb_level call_needed(const struct call *c)
{
	return call_flag(c, "keep_cache") ? VERB_ADMIN : c->verb->level;
}

static bool call_permitted(const struct call *c)
{
	const char *needed = verb_level_name(call_needed(c));
	struct buf text = { 0 };
	json_t *params;

	if (c->peer.level >= call_needed(c))
		return true;
	buf_printf(&text, "'%s'%s needs the level %s, you have %s", c->verb->words,
		   call_flag(c, "keep_cache") ? " --keep-cache" : "", needed, verb_level_name(c->peer.level));
	params = varlink_text("message", buf_str(&text));
	json_object_set_new(params, "needed", json_string(needed));
	json_object_set_new(params, "level", json_string(verb_level_name(c->peer.level)));
	call_audit(c, "denied");
	call_send(c->conn, c->wire.oneway, rc_varlink(RC_DENIED), params, false);
	buf_fini(&text);
	return false;
}

/* Runs the handler. Returns true when the answer comes later; the call then lives on. */
static bool call_handle(struct call *c)
{
	struct buf why = { 0 };
	json_t *reply = NULL;
	int r = call_handlers[c->verb - verb_table](c, &reply, &why);

	must(r <= 0 || r == CALL_LATER);
	if (r == CALL_LATER) {
		buf_fini(&why); /* of what was tried before the way that was taken */
		return true;
	}
	call_audit(c, r ? rc_name(r) : "ok");
	if (r == 0)
		call_send(c->conn, c->wire.oneway, NULL, reply ? reply : json_object(), false);
	else
		call_send(c->conn, c->wire.oneway, rc_varlink(r),
			  varlink_text("message", why.len ? buf_str(&why) : rc_text(r)), false);
	buf_fini(&why);
	return false;
}

static struct call *call_verb(struct conn *conn, struct varlink_call *w)
{
	const struct verb *v = verb_find_method(w->method);
	char bad[VERB_NAME_MAX];
	struct call *c;

	if (!v) {
		call_unknown(conn, w);
		return NULL;
	}
	c = mem_new(sizeof *c);
	*c = (struct call){ .daemon = conn_daemon(conn), .conn = conn, .verb = v, .peer = *conn_peer(conn) };
	c->params = w->params ? json_incref(w->params) : json_object();
	c->wire = *w;
	*w = (struct varlink_call){ 0 };
	if (verb_check(v, c->params, bad))
		call_named_error(conn, c->wire.oneway, "InvalidParameter", "parameter", bad);
	else if (call_permitted(c) && call_handle(c))
		return c;
	call_free(c);
	return NULL;
}

struct call *call_begin(struct conn *c, const char *bytes, size_t len)
{
	struct varlink_call w = { 0 };
	struct buf why = { 0 };
	struct call *later = NULL;
	int r = varlink_parse_call(bytes, len, &w, &why);

	if (r) {
		call_refuse(c, r, buf_str(&why));
		if (r == RC_JSON)
			conn_finish(c); /* what follows can hardly be trusted to be framed */
	} else if (!strncmp(w.method, "org.varlink.service.", 20)) {
		call_service(c, &w);
	} else {
		later = call_verb(c, &w);
	}
	varlink_call_fini(&w);
	buf_fini(&why);
	return later;
}

/* ---- parameters ---- */

const char *call_string(const struct call *c, const char *name, const char *fallback)
{
	const char *s = json_string_value(json_object_get(c->params, name));

	return s ? s : fallback;
}

long long call_int(const struct call *c, const char *name, long long fallback)
{
	json_t *v = json_object_get(c->params, name);

	return json_is_integer(v) ? json_integer_value(v) : fallback;
}

bool call_flag(const struct call *c, const char *name)
{
	return json_is_true(json_object_get(c->params, name));
}
