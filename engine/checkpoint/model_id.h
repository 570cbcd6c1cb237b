/* SPDX-License-Identifier: MIT
 * model_id.h - which model is this? A digest that another model does not have, cheap enough for every start.
 * Threads: any. Locks: none. */
#ifndef ENGINE_MODEL_ID_H
#define ENGINE_MODEL_ID_H

#include "engine/base/buf.h"
#include "engine/base/sha256.h"
#include "engine/checkpoint/checkpoint.h"

/* Of config.json and, of every .safetensors file in the order of their names, its size, its header and the first and
 * last kilobytes of its data. Where the directory lies and what the files are called makes no difference. The
 * checkpoint is mapped (CHECKPOINT_MAP). -errno. */
int model_id(const struct checkpoint *ck, char ret_id[SHA256_HEX], struct buf *why);

#endif
