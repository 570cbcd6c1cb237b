/* SPDX-License-Identifier: MIT
 * model_id.h - which model is this? A digest that another model does not have, cheap enough for every start.
 * Threads: any. Locks: none.
 *
 * Of config.json and, of every .safetensors file in the order of their names, its size, the time of its last change,
 * its header, the first and last page of its data, and of all tensors together up to MODEL_ID_SAMPLES pages: head,
 * middle and end of each while that is enough, else an even choice of those. Where the directory lies and what the
 * files are called makes no difference, and a copy that keeps the files' times is the same model.
 *
 * Not seen: a change within what is not sampled, of a file whose size stayed and whose time was put back. To see that
 * one would have to read the checkpoint, which takes minutes; who writes into a checkpoint and hides it clears the
 * cache. */
#ifndef ENGINE_MODEL_ID_H
#define ENGINE_MODEL_ID_H

#include "engine/base/buf.h"
#include "engine/base/sha256.h"
#include "engine/checkpoint/checkpoint.h"

#define MODEL_ID_PAGE 4096
#define MODEL_ID_SAMPLES 2048 /* pages, each a random read on a cold disk, all under way at once */

/* The checkpoint is mapped (CHECKPOINT_MAP). -errno. */
int model_id(const struct checkpoint *ck, char ret_id[SHA256_HEX], struct buf *why);

#endif
