/* SPDX-License-Identifier: MIT
 * cusim_fibre.h - stacks of their own for a block's threads, between which one OS thread changes in a few nanoseconds.
 * Threads: one at a time. Locks: none. */
#ifndef CUSIM_FIBRE_H
#define CUSIM_FIBRE_H

#include <stdint.h>

#define CUSIM_STACK 65536

/* Stack number i, at its lowest address; all are made by cusim_fibre_init() and kept for ever. */
#define CUSIM_FIBRE_FENCE 4096
extern uintptr_t cusim_fibre_memory;
static inline uintptr_t cusim_fibre_stack(uint32_t i)
{
	return cusim_fibre_memory + (uintptr_t)i * (CUSIM_STACK + CUSIM_FIBRE_FENCE) + CUSIM_FIBRE_FENCE;
}
void cusim_fibre_init(void);
/* Prepares stack i so that the next cusim_fibre_enter(i) calls f, which never returns. */
void cusim_fibre_begin(uint32_t i, void (*f)(void));
/* From the scheduler into fibre i, until it leaves. */
void cusim_fibre_enter(uint32_t i);
/* From fibre i back to the scheduler, or into another fibre. */
void cusim_fibre_leave(uint32_t i);
#if defined __x86_64__ && !defined __ILP32__
extern void *cusim_fibre_sp[];      /* of fibres that do not run */
/* Saves the registers that a callee keeps, and goes on where `to` was saved. */
void cusim_fibre_switch(void **from, void *to);
static inline void cusim_fibre_change(uint32_t i, uint32_t to)
{
	cusim_fibre_switch(&cusim_fibre_sp[i], cusim_fibre_sp[to]);
}
#else
void cusim_fibre_change(uint32_t i, uint32_t to);
#endif

#endif
