/* SPDX-License-Identifier: MIT
 * plugin_elf.h - do these bytes look like a shared object that this machine can map?
 * Threads: any. Locks: none. */
#ifndef ENGINE_PLUGIN_ELF_H
#define ENGINE_PLUGIN_ELF_H

#include "engine/plugin/plugin_refusal.h"

/* A whole shared object of this machine: its segments lie inside the bytes, so that mapping it cannot end in a
 * SIGBUS. *ret_loaded: where the last segment ends; the symbols and debug information behind it are never
 * mapped. RC_PLUGIN not-a-plugin-file. */
int plugin_elf_check(const void *bytes, size_t n, size_t *ret_loaded, struct buf *why);

#endif
