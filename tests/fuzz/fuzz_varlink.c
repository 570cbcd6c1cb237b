/* SPDX-License-Identifier: MIT
 * fuzz_varlink.c - any bytes as a call on the control socket: framed, parsed, checked against the verb table.
 * Threads: one. Locks: none. */
#include "ctl/varlink.h"
#include "ctl/verb.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void call(const char *bytes, size_t len)
{
	struct varlink_call c;
	struct varlink_reply r;
	struct buf why = { 0 };

	if (varlink_parse_call(bytes, len, &c, &why) == 0) {
		const struct verb *v = verb_find_method(c.method);
		char bad[VERB_NAME_MAX];

		if (v)
			verb_check(v, c.params, bad);
		varlink_call_fini(&c);
	}
	if (varlink_parse_reply(bytes, len, &r, &why) == 0)
		varlink_reply_fini(&r);
	buf_fini(&why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf in = { 0 };
	size_t scanned = 0, len;

	buf_add(&in, data, size);
	while (varlink_frame(&in, VARLINK_MAX_CALL, &scanned, &len) == 0) {
		call(in.data, len);
		buf_drop(&in, len + 1);
	}
	call(buf_str(&in), in.len);
	json_decref(varlink_string(in.data, in.len));
	buf_fini(&in);
	return 0;
}
