/* SPDX-License-Identifier: MIT
 * flash.h - makes a directory with the whole inventory of DeepSeek-V4-Flash: true headers over sparse files.
 * Written from the published shapes as plain numbers, not from the engine's table, so that it can check it.
 * Threads: one. */
#ifndef TESTS_FLASH_H
#define TESTS_FLASH_H

#include <stdbool.h>
#include <stdint.h>

enum flash_kind {
	FLASH_APRIL, /* V4-Flash: 46 files, one draft block */
	FLASH_0731,  /* 48 files, three DSpark stages */
	FLASH_BASE,  /* FP8 experts, F32 scales */
	FLASH_NVFP4  /* routed experts of the main layers in NVFP4 */
};

struct flash_total {
	int files, tensors;
	uint64_t bytes;
};

/* Writes into an existing empty directory. Without `data` the files end after their headers. 0 or -errno (a
 * file system that cannot hold sparse files of several GiB gives -EFBIG or -ENOSPC). */
int flash_make(const char *dir, enum flash_kind kind, bool data, struct flash_total *ret_total);
/* Removes what flash_make wrote, and the directory. */
void flash_remove(const char *dir);
/* "flash", "0731", "base", "nvfp4"; -1 when unknown. */
int flash_kind_find(const char *name);

#endif
