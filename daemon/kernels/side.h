/* SPDX-License-Identifier: MIT
 * side.h - a kernel set with numerics as operators type them for an experiment: "SET[,PARAMETER=VALUE...]".
 * Threads: control. Locks: none. */
#ifndef DAEMON_SIDE_H
#define DAEMON_SIDE_H

#include "engine/base/buf.h"
#include "engine/engine.h"

struct side {
	struct buf set;            /* as kernels_resolve() and warming_set() read it */
	struct numerics numerics;
};

/* Reads "SET", "SET,P=V..." or "P=V...": the set is one name, or FAMILY[.PHASE]=PLUGIN, OP[.PHASE]=PLUGIN and more of
 * these; without one it is the active one. index_topk, which is an op and a parameter, is the parameter with a number
 * for a value. numerics begins as `base`. RC_INVALID, RC_NOT_FOUND. */
int side_read(struct side *s, const struct numerics *base, const char *text, struct buf *why);
/* As it would be typed: the set, then the parameters that are others than `base`. */
void side_print(const char *set, const struct numerics *n, const struct numerics *base, struct buf *out);
void side_fini(struct side *s);

#endif
