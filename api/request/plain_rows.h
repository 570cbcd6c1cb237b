/* SPDX-License-Identifier: MIT
 * plain_rows.h - the rows of PLAIN_TABLE, a protocol's *_fields.def, as plain fields (plain.h) of a PLAIN_OF. Included
 * where the rows are to stand, each time anew.
 * Threads: any. Locks: none. */
#define INT(name, member, min, max, text) PLAIN_ROW_INT(PLAIN_OF, name, member, min, max, text)
#define FLAG(name, member, text) PLAIN_ROW_FLAG(PLAIN_OF, name, member, text)
#define REFUSED PLAIN_ROW_REFUSED
#define ONLY PLAIN_ROW_ONLY
#define REMARK(name, text)
#include PLAIN_TABLE
#undef INT
#undef FLAG
#undef REFUSED
#undef ONLY
#undef REMARK
#undef PLAIN_OF
#undef PLAIN_TABLE
