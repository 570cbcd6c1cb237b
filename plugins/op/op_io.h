/* SPDX-License-Identifier: MIT
 * op_io.h - what an op reads in place and writes: where, how many, and how to point it elsewhere.
 * Used to run one op beside another on the same inputs. Threads: any. Locks: none. */
#ifndef OP_IO_H
#define OP_IO_H

#include "plugins/dsv4_plugin.h"

#include <stdbool.h>

#define OP_IO_MAX_OUT 4

/* One output: n_row rows of `width` values, ld values apart. */
struct op_out {
	const char *name;          /* its name in the argument struct */
	void *data;                /* float or int32_t */
	bool is_int;
	bool is_set;               /* each row of ints is one set: rows chosen, experts chosen */
	bool in_place;             /* also an input: fill a copy before the op runs on it */
	int64_t n_row, width, ld;
	const int32_t *valid;      /* [n_row] values of each row that are defined, or NULL: all */
};

/* Size of the op's argument struct. */
size_t op_args_size(enum dsv4_op op);
/* The outputs of a call with these arguments; returns how many. For index_score the number of columns of each
 * token that the op must write is worked out into `visible` ([n_tok], the caller's; may be NULL for other ops):
 * the rows it sees, or 0 where it sees no more than k and may stay unscored. Of index_topk's rows, `valid` is
 * the count the op itself writes. */
int op_outputs(enum dsv4_op op, const void *args, int32_t *visible, struct op_out out[OP_IO_MAX_OUT]);
/* Number of tokens (rows) of a call; of rms_norm and sum n_row, of compress n_out. */
int64_t op_rows(enum dsv4_op op, const void *args);
/* Points output number `which` of the argument struct at other memory of the same layout; of rms_norm where y
 * is x, its input as well. */
void op_redirect(enum dsv4_op op, void *args, int which, void *data);
/* Calls fn as the op it is. */
int op_call(enum dsv4_op op, dsv4_any_f *fn, struct dsv4_exec *x, const struct dsv4_host *host, const void *args);

#endif
