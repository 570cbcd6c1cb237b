/* SPDX-License-Identifier: MIT
 * child.c - runs a piece of a unit test in a child process: for assertions, and for what goes to stderr.
 * Threads: one. Locks: none. */
#include "tests/unit/child.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

int child_run(void (*fn)(void), struct buf *err)
{
	char chunk[4096];
	int fd[2], status;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(fd), 0);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		signal(SIGABRT, SIG_DFL); /* cmocka's handler would go on with the tests */
		dup2(fd[1], STDERR_FILENO);
		close(fd[0]);
		close(fd[1]);
		fn();
		_exit(0);
	}
	close(fd[1]);
	while ((n = read(fd[0], chunk, sizeof chunk)) > 0)
		buf_add(err, chunk, (size_t)n);
	close(fd[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

void child_aborts(void (*fn)(void), const char *text)
{
	struct buf err = { 0 };
	int status = child_run(fn, &err);

	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	assert_true(strncmp(buf_str(&err), "<0>assert ", 10) == 0);
	assert_non_null(strstr(buf_str(&err), text));
	buf_fini(&err);
}
