/* SPDX-License-Identifier: MIT
 * page.c - GET /: one static page that shows the live state and has a chat box.
 * Threads: the connection's libmicrohttpd thread. Locks: none. */
#include "api/http/page.h"
#include "engine/base/base64.h"
#include "engine/base/must.h"
#include "engine/base/rc.h"
#include "engine/base/sha256.h"

#include <string.h>
#include <strings.h>

/* 'sha256-...' of what stands between the only <tag> and </tag>. */
static void page_hash(struct buf *out, const char *open, const char *close)
{
	const char *html = (const char *)page_html, *from = memmem(html, page_html_len, open, strlen(open)), *to;
	uint8_t digest[SHA256_BYTES];

	must(from);
	from += strlen(open);
	to = memmem(from, page_html_len - (size_t)(from - html), close, strlen(close));
	must(to);
	sha256(digest, from, (size_t)(to - from));
	buf_adds(out, "'sha256-");
	base64_put(out, digest, sizeof digest);
	buf_addc(out, '\'');
}

/* Nothing from elsewhere, nothing but the page's own script; that one cannot make markup of what the model says,
 * since a browser that knows trusted types lets nothing become markup at all. */
void page_policy(struct buf *out)
{
	buf_adds(out, "default-src 'none'; script-src ");
	page_hash(out, "<script>", "</script>");
	buf_adds(out, "; style-src ");
	page_hash(out, "<style>", "</style>");
	buf_adds(out, "; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors "
		      "'none'; "
		      "require-trusted-types-for 'script'; trusted-types 'none'");
}

static void page_reply(struct exchange *x, unsigned status)
{
	struct buf policy = { 0 }, text = { 0 };

	page_policy(&policy);
	buf_add(&text, page_html, page_html_len);
	exchange_reply_with(x, status, &text, (const struct exchange_header[]){
		{ "Content-Type", "text/html; charset=utf-8" },
		{ "Content-Security-Policy", buf_str(&policy) },
		{ "X-Content-Type-Options", "nosniff" },
		{ "Referrer-Policy", "no-referrer" },
		{ "Cross-Origin-Opener-Policy", "same-origin" },
		{ "Cache-Control", "no-cache" },
		{ "Vary", "Accept" },
		{ NULL, NULL } });
	buf_fini(&policy);
}

void page_route(struct exchange *x)
{
	page_reply(x, MHD_HTTP_OK);
}

bool page_refuse(struct exchange *x)
{
	const char *accept = MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, "Accept");

	if (x->error.rc != RC_AUTH || !x->route || x->route->handler != page_route || !accept ||
	    !strcasestr(accept, "text/html"))
		return false;
	page_reply(x, MHD_HTTP_UNAUTHORIZED);
	return true;
}
