/* SPDX-License-Identifier: MIT
 * inspect.h - describes a checkpoint from its headers alone: tensors, bytes, reads per token, KV, faults.
 * Threads: any. Locks: none. */
#ifndef ENGINE_INSPECT_H
#define ENGINE_INSPECT_H

#include "engine/base/buf.h"

#include <stdbool.h>

struct checkpoint;

/* Describes a directory as text for people or as one JSON object, and reads nothing but configs, index and
 * headers; the data may even be absent. What is missing, unexpected or mismatched is part of the description
 * ("complete" in the JSON), and makes the result RC_MODEL with the first fault in why: out is filled, but the
 * model cannot be loaded. RC_MODEL, RC_UNSUPPORTED, -ENOMEM, -errno when the files cannot be read at all; out
 * is then untouched. */
int inspect_describe(const char *dir, bool json, struct buf *out, struct buf *why);
/* The same for an open checkpoint. */
int inspect_checkpoint(const struct checkpoint *ck, bool json, struct buf *out, struct buf *why);

#endif
