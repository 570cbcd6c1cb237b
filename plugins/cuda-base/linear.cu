/* SPDX-License-Identifier: MIT
 * linear.cu - y = x W^T for every weight format. */
#include "plugins/cuda/linear_kernels.cuh"

LINEAR_KERNELS(cuda_base)
