/* SPDX-License-Identifier: MIT
 * fake_ask.h - stands in for the program around the server: holds questions until it is told to answer them.
 * Threads: any. Lock: fake_ask. */
#ifndef TESTS_HTTP_FAKE_ASK_H
#define TESTS_HTTP_FAKE_ASK_H

struct question;

void fake_ask_init(void);
/* Answers what is still held, and frees. */
void fake_ask_fini(void);
/* For http_options.ask. */
void fake_ask(void *unused, struct question *q);
/* Waits until n are held. */
void fake_ask_wait(int n);
/* Answers all of them: metrics with an epoch of 7, the state with {"held": how many there were}. */
void fake_ask_answer(void);

#endif
