/* SPDX-License-Identifier: MIT
 * cuda_base.cu - all kernels of cuda-base, as one module. */
#include "plugins/cuda-base/attn.cu"
#include "plugins/cuda-base/compress.cu"
#include "plugins/cuda-base/indexer.cu"
#include "plugins/cuda-base/linear.cu"
#include "plugins/cuda-base/mhc.cu"
#include "plugins/cuda-base/moe.cu"
#include "plugins/cuda-base/norm.cu"
