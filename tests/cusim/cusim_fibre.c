/* SPDX-License-Identifier: MIT
 * cusim_fibre.c - stacks of their own for a block's threads, between which one OS thread changes in a few nanoseconds.
 * Threads: one at a time. Locks: none.
 *
 * swapcontext() asks the kernel for the signal mask at every change, which is most of the time of a test that launches
 * tens of thousands of kernels: on x86-64 the change is written out. */
#include "tests/cusim/cusim_fibre.h"
#include "tests/cusim/cusim_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CUSIM_FIBRE_STRIDE (CUSIM_STACK + CUSIM_FIBRE_FENCE)

uintptr_t cusim_fibre_memory;

void cusim_fibre_init(void)
{
	size_t all = (size_t)CUSIM_MAX_THREADS * CUSIM_FIBRE_STRIDE;
	char *p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED) {
		perror("cusim: stacks");
		abort();
	}
	for (size_t i = 0; i < CUSIM_MAX_THREADS; i++)
		mprotect(p + i * CUSIM_FIBRE_STRIDE, CUSIM_FIBRE_FENCE, PROT_NONE);
	cusim_fibre_memory = (uintptr_t)p;
}

#if defined __x86_64__ && !defined __ILP32__

void *cusim_fibre_sp[CUSIM_MAX_THREADS];
static void *cusim_fibre_scheduler;

__asm__(".text\n"
	".type cusim_fibre_switch, @function\n"
	".hidden cusim_fibre_switch\n"
	".globl cusim_fibre_switch\n"
	"cusim_fibre_switch:\n"
	"	pushq %rbp\n"
	"	pushq %rbx\n"
	"	pushq %r12\n"
	"	pushq %r13\n"
	"	pushq %r14\n"
	"	pushq %r15\n"
	"	movq %rsp, (%rdi)\n"
	"	movq %rsi, %rsp\n"
	"	popq %r15\n"
	"	popq %r14\n"
	"	popq %r13\n"
	"	popq %r12\n"
	"	popq %rbx\n"
	"	popq %rbp\n"
	"	popq %rcx\n"
	"	jmp *%rcx\n" /* a ret would be predicted to go where it was called from */
	".size cusim_fibre_switch, . - cusim_fibre_switch\n");

void cusim_fibre_begin(uint32_t i, void (*f)(void))
{
	/* Tops at different offsets in their pages, so that a thousand of them do not share a few lines of the cache. */
	uintptr_t top = cusim_fibre_stack(i) + CUSIM_STACK - i * 192 % 4096;
	void **sp = (void **)(top & ~(uintptr_t)15);

	*--sp = NULL;           /* f's caller */
	*--sp = (void *)f;
	sp -= 6;
	memset(sp, 0, 6 * sizeof *sp);
	cusim_fibre_sp[i] = sp;
}

void cusim_fibre_enter(uint32_t i)
{
	cusim_fibre_switch(&cusim_fibre_scheduler, cusim_fibre_sp[i]);
}

void cusim_fibre_leave(uint32_t i)
{
	cusim_fibre_switch(&cusim_fibre_sp[i], cusim_fibre_scheduler);
}

#else

#include <ucontext.h>

static ucontext_t cusim_fibre_context[CUSIM_MAX_THREADS], cusim_fibre_scheduler;

void cusim_fibre_begin(uint32_t i, void (*f)(void))
{
	ucontext_t *c = &cusim_fibre_context[i];

	getcontext(c);
	c->uc_stack.ss_sp = (void *)cusim_fibre_stack(i);
	c->uc_stack.ss_size = CUSIM_STACK;
	makecontext(c, f, 0);
}

void cusim_fibre_enter(uint32_t i)
{
	swapcontext(&cusim_fibre_scheduler, &cusim_fibre_context[i]);
}

void cusim_fibre_leave(uint32_t i)
{
	swapcontext(&cusim_fibre_context[i], &cusim_fibre_scheduler);
}

void cusim_fibre_change(uint32_t i, uint32_t to)
{
	swapcontext(&cusim_fibre_context[i], &cusim_fibre_context[to]);
}

#endif
