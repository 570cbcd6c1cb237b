/* SPDX-License-Identifier: MIT
 * fuzz_probe_stream.c - any bytes as a streamed answer of another server: cut anywhere, they read the same.
 * Threads: one. Locks: none. */
#include "ctl/probe/probe_audit.h"
#include "ctl/probe/probe_stream.h"
#include "engine/base/must.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void audit(void *arg, json_t *chunk)
{
	probe_audit_chunk(arg, chunk);
}

/* Reads the bytes in pieces of `step`; what came of it as text. */
static char *read_in(const char *bytes, size_t len, size_t step)
{
	struct probe_stream s;
	struct probe_audit a = { 0 };
	struct buf why = { 0 }, list = { 0 };
	json_t *reply, *all;
	char *text;
	int r = 0;

	probe_stream_init(&s);
	s.chunk = audit;
	s.chunk_arg = &a;
	for (size_t at = 0; at < len && !r; at += step)
		r = probe_stream_add(&s, bytes + at, len - at < step ? len - at : step, &why);
	r = r ? r : probe_stream_end(&s, &why);
	reply = probe_stream_reply(&s);
	probe_audit_list(a.unknown, &list);
	probe_audit_list(a.wrong, &list);
	all = json_pack("{s:i, s:i, s:i, s:i, s:o}", "rc", r, "chunks", s.chunks, "finishes", s.finishes, "list",
			(int)list.len, "reply", reply);
	must(all);
	text = json_dumps(all, JSON_SORT_KEYS);
	must(text);
	json_decref(all);
	probe_audit_fini(&a);
	probe_stream_fini(&s);
	buf_fini(&why);
	buf_fini(&list);
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *whole = read_in((const char *)data, size, size ? size : 1), *cut = read_in((const char *)data, size, 7);

	must(!strcmp(whole, cut));
	free(whole);
	free(cut);
	return 0;
}
