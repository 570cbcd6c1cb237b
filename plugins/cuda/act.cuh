/* SPDX-License-Identifier: MIT
 * act.cuh - how activations are rounded before FP8 and FP4 weights: e4m3 values and a power-of-two scale per 128 columns
 * (doc/format.md 3.2), to the bit as plugins/ref/round.c. */
#ifndef CUDA_ACT_CUH
#define CUDA_ACT_CUH

#include "plugins/cuda/numbers.cuh"
#include "plugins/cuda/reduce.cuh"

/* A warp's block of 128 values, v[i] of lane l being number l + 32 i and zero where there is none, becomes e4m3 values,
 * of which these are the codes; returns their scale. NaN takes no part in choosing it and stays NaN. */
__device__ inline float act_split(float (&v)[ACT_BLOCK / WARP], uint8_t (&code)[ACT_BLOCK / WARP])
{
	float amax = 0, s;

	for (int i = 0; i < ACT_BLOCK / WARP; i++)
		amax = fmaxf(amax, fabsf(v[i]));
	s = dsv4_fp8_scale(warp_max(amax));
	for (int i = 0; i < ACT_BLOCK / WARP; i++) {
		code[i] = dsv4_f32_to_e4m3(v[i] / s);
		v[i] = dsv4_e4m3_to_f32(code[i]);
	}
	return s;
}

#endif
