/* SPDX-License-Identifier: MIT
 * varlink.c - the Varlink wire format: JSON objects, each ended by a NUL byte; calls, replies and their limits.
 * Threads: any. Locks: none. */
#include "ctl/varlink.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <string.h>

int varlink_frame(const struct buf *in, size_t max, size_t *scanned, size_t *ret_len)
{
	const char *nul;
	size_t len;

	must(*scanned <= in->len);
	nul = in->len ? memchr(in->data + *scanned, '\0', in->len - *scanned) : NULL;
	len = nul ? (size_t)(nul - in->data) : in->len;
	if (len > max)
		return RC_TOO_LARGE;
	*scanned = nul ? 0 : len;
	if (!nul)
		return -EAGAIN;
	*ret_len = len;
	return 0;
}

/* jansson's own limit is 2048 and fixed when it is built. Brackets inside strings do not count. */
static bool varlink_too_deep(const char *bytes, size_t len)
{
	bool string = false;
	int depth = 0;

	for (size_t i = 0; i < len; i++) {
		char c = bytes[i];

		if (string && c == '\\')
			i++;
		else if (c == '"')
			string = !string;
		else if (!string && (c == '{' || c == '['))
			depth++;
		else if (!string && (c == '}' || c == ']'))
			depth--;
		if (depth > VARLINK_MAX_DEPTH)
			return true;
	}
	return false;
}

static int varlink_load(const char *bytes, size_t len, json_t **ret_root, struct buf *why)
{
	json_error_t e;
	json_t *root;

	if (varlink_too_deep(bytes, len))
		return buf_why(why, RC_JSON, "nested deeper than %d", VARLINK_MAX_DEPTH);
	root = json_loadb(bytes, len, JSON_REJECT_DUPLICATES, &e);
	if (!root)
		return buf_why(why, RC_JSON, "byte %d: %s", e.position, e.text);
	if (!json_is_object(root)) {
		json_decref(root);
		return buf_why(why, RC_JSON, "a message must be an object");
	}
	*ret_root = root;
	return 0;
}

/* Absent and null mean false, as the Varlink specification has it. */
static int varlink_flag(json_t *root, const char *key, bool *ret_flag, struct buf *why)
{
	json_t *v = json_object_get(root, key);

	if (v && !json_is_null(v) && !json_is_boolean(v))
		return buf_why(why, RC_INVALID, "%s: must be a boolean", key);
	*ret_flag = json_is_true(v);
	return 0;
}

static int varlink_params(json_t *root, json_t **ret_params, struct buf *why)
{
	json_t *v = json_object_get(root, "parameters");

	if (v && !json_is_null(v) && !json_is_object(v))
		return buf_why(why, RC_INVALID, "parameters: must be an object");
	*ret_params = json_is_object(v) ? v : NULL;
	return 0;
}

static int varlink_method(json_t *root, const char **ret_method, struct buf *why)
{
	const char *m = json_string_value(json_object_get(root, "method"));
	const char *dot = m ? strrchr(m, '.') : NULL;

	if (!m)
		return buf_why(why, RC_INVALID, "method: a string is required");
	if (!dot || dot == m || !dot[1] || strlen(m) > VARLINK_MAX_NAME)
		return buf_why(why, RC_INVALID, "method: must be INTERFACE.METHOD, at most %d bytes",
			       VARLINK_MAX_NAME);
	*ret_method = m;
	return 0;
}

static int varlink_check_call(struct varlink_call *c, struct buf *why)
{
	static const char *const known[] = { "method", "parameters", "more", "oneway", "upgrade" };
	const char *key;
	json_t *v;
	bool upgrade;
	int r;

	json_object_foreach(c->root, key, v) {
		size_t i = 0;

		while (i < sizeof known / sizeof *known && strcmp(key, known[i]) != 0)
			i++;
		if (i == sizeof known / sizeof *known)
			return buf_why(why, RC_INVALID, "%.96s: unknown field", key);
	}
	r = varlink_method(c->root, &c->method, why);
	r = r ? r : varlink_params(c->root, &c->params, why);
	r = r ? r : varlink_flag(c->root, "more", &c->more, why);
	r = r ? r : varlink_flag(c->root, "oneway", &c->oneway, why);
	r = r ? r : varlink_flag(c->root, "upgrade", &upgrade, why);
	if (r)
		return r;
	if (upgrade)
		return buf_why(why, RC_INVALID, "upgrade: not supported");
	if (c->more && c->oneway)
		return buf_why(why, RC_INVALID, "more: excludes oneway");
	return 0;
}

int varlink_parse_call(const char *bytes, size_t len, struct varlink_call *ret_c, struct buf *why)
{
	struct varlink_call c = { 0 };
	int r = varlink_load(bytes, len, &c.root, why);

	r = r ? r : varlink_check_call(&c, why);
	if (r)
		varlink_call_fini(&c);
	else
		*ret_c = c;
	return r;
}

void varlink_call_fini(struct varlink_call *c)
{
	if (!c)
		return;
	json_decref(c->root);
	*c = (struct varlink_call){ 0 };
}

int varlink_parse_reply(const char *bytes, size_t len, struct varlink_reply *ret_r, struct buf *why)
{
	struct varlink_reply p = { 0 };
	json_t *e;
	int r = varlink_load(bytes, len, &p.root, why);

	if (r)
		return r;
	e = json_object_get(p.root, "error");
	if (e && !json_is_null(e) && !json_is_string(e))
		r = buf_why(why, RC_INVALID, "error: must be a string");
	r = r ? r : varlink_params(p.root, &p.params, why);
	r = r ? r : varlink_flag(p.root, "continues", &p.continues, why);
	if (r) {
		varlink_reply_fini(&p);
		return r;
	}
	p.error = json_string_value(e);
	*ret_r = p;
	return 0;
}

void varlink_reply_fini(struct varlink_reply *r)
{
	if (!r)
		return;
	json_decref(r->root);
	*r = (struct varlink_reply){ 0 };
}

static int varlink_dump(const char *bytes, size_t len, void *out)
{
	buf_add(out, bytes, len);
	return 0;
}

static void varlink_put(struct buf *out, json_t *msg)
{
	must(json_dump_callback(msg, varlink_dump, out, JSON_COMPACT) == 0);
	buf_addc(out, '\0');
	json_decref(msg);
}

static void varlink_set(json_t *msg, const char *key, json_t *value)
{
	must(json_object_set_new(msg, key, value) == 0);
}

void varlink_put_call(struct buf *out, const char *method, json_t *params, bool more, bool oneway)
{
	json_t *msg = json_object();

	varlink_set(msg, "method", json_string(method));
	if (params)
		varlink_set(msg, "parameters", json_incref(params));
	if (more)
		varlink_set(msg, "more", json_true());
	if (oneway)
		varlink_set(msg, "oneway", json_true());
	varlink_put(out, msg);
}

void varlink_put_reply(struct buf *out, const char *error, json_t *params, bool continues)
{
	json_t *msg = json_object();

	if (error)
		varlink_set(msg, "error", json_string(error));
	varlink_set(msg, "parameters", params ? json_incref(params) : json_object());
	if (continues)
		varlink_set(msg, "continues", json_true());
	varlink_put(out, msg);
}

json_t *varlink_text(const char *key, const char *text)
{
	json_t *o = json_object();

	varlink_set(o, key, varlink_string(text, strlen(text)));
	return o;
}

/* The length of the well-formed UTF-8 character at p, or 0. */
static size_t varlink_utf8(const unsigned char *p, size_t n)
{
	size_t len = p[0] < 0x80 ? 1 : p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : (p[0] & 0xf0) == 0xe0 ? 3 :
		     p[0] >= 0xf0 && p[0] < 0xf5 ? 4 : 0;

	if (len == 0 || len > n)
		return 0;
	for (size_t i = 1; i < len; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
	    (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return len;
}

json_t *varlink_string(const char *bytes, size_t len)
{
	json_t *s = json_stringn(bytes ? bytes : "", len);
	struct buf b = { 0 };

	if (s)
		return s;
	for (size_t i = 0, n; i < len; i += n ? n : 1) {
		n = varlink_utf8((const unsigned char *)bytes + i, len - i);
		if (n)
			buf_add(&b, bytes + i, n);
		else
			buf_adds(&b, "\xef\xbf\xbd");
	}
	s = json_stringn(buf_str(&b), b.len);
	buf_fini(&b);
	must(s != NULL);
	return s;
}
