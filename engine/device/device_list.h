/* SPDX-License-Identifier: MIT
 * device_list.h - the words that name devices: "cpu", "cuda", "cuda:3", "cuda:0-3,6".
 * Threads: any. Locks: none. */
#ifndef ENGINE_DEVICE_LIST_H
#define ENGINE_DEVICE_LIST_H

#include "engine/base/buf.h"

#define DEVICE_LIST_MAX 64

/* The GPUs of a list in the order they are named in, at most DEVICE_LIST_MAX of numbers below it, none twice; "cuda" is
 * number 0. */
struct device_list {
	int n;                         /* 0: the CPU */
	int gpu[DEVICE_LIST_MAX];
};

/* RC_INVALID; why names what is wrong and what is expected. */
int device_list_parse(const char *words, struct device_list *ret_l, struct buf *why);

#endif
