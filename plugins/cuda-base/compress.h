/* SPDX-License-Identifier: MIT
 * compress.h - what the kernel of compress.cu is told. */
#ifndef CUDA_BASE_COMPRESS_H
#define CUDA_BASE_COMPRESS_H

#include "plugins/dsv4_plugin.h"

/* Grid: output rows. Dynamic shared memory: dim floats. */
struct compress_args {
	struct dsv4_compress a;
};

#endif
