/* SPDX-License-Identifier: MIT
 * rc.c - look-ups in the error table.
 * Threads: any. Locks: none. */
#include "engine/base/rc.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

static const struct rc_row {
	int code, http;
	const char *name, *type, *varlink, *text;
} rc_table[] = {
#define RC(name, code, http, type, varlink, text) { code, http, #name, type, varlink, text },
#include "engine/base/rc.def"
#undef RC
};

static const struct rc_row *rc_find(int rc)
{
	for (size_t i = 0; i < sizeof rc_table / sizeof *rc_table; i++)
		if (rc_table[i].code == rc)
			return &rc_table[i];
	return NULL;
}

const char *rc_name(int rc)
{
	const struct rc_row *r = rc_find(rc);

	return r ? r->name : rc == 0 ? "RC_OK" : "errno";
}

int rc_http(int rc)
{
	const struct rc_row *r = rc_find(rc);

	return r ? r->http : rc == 0 ? 200 : rc == -ENOMEM ? 507 : 500;
}

const char *rc_type(int rc)
{
	const struct rc_row *r = rc_find(rc);

	return r ? r->type : "server_error";
}

const char *rc_varlink(int rc)
{
	const struct rc_row *r = rc_find(rc);

	return r ? r->varlink : "io.dsv4.Daemon.Internal";
}

const char *rc_text(int rc)
{
	const struct rc_row *r = rc_find(rc);

	return r ? r->text : rc == 0 ? "ok" : strerror(-rc);
}
