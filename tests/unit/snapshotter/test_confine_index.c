// SPDX-License-Identifier: Apache-2.0
/* The rights of a process that makes an index, in case malicious bytes have taken it over. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "snapshotter/node/parser/confine.h"

TestSuite(confine_index, .timeout = 60);

static void *note_thread(void *arg)
{
	*(int *)arg = 1;
	return NULL;
}

/* 0, or the number of the call that was allowed, or of the needed one that was not. */
static int try_all(void)
{
	struct error err = ERROR_INIT;
	pthread_t t;
	int ran = 0;

	if (confine_index(&err) < 0)
		return 1;
	if (syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) != -1 || errno != EPERM)
		return 2;
	if (syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0) != -1 ||
	    errno != EPERM)
		return 3;
	if (syscall(SYS_clone3, NULL, 0) != -1 || errno != ENOSYS)
		return 4;
	if (setsid() != -1 || errno != EPERM || setpgid(0, 0) != -1)
		return 5;
	if (syscall(SYS_fsopen, "tmpfs", 0) != -1 || errno != EPERM)
		return 6;
	if (socket(1, 1, 0) != -1 || errno != EPERM)
		return 7;
	/* Threads are allowed: the process needs them for its work. */
	if (pthread_create(&t, NULL, note_thread, &ran) != 0 ||
	    pthread_join(t, NULL) != 0 || ran != 1)
		return 8;
	return 0;
}

Test(confine_index, leaves_threads_and_no_process_session_mount_or_socket)
{
	int status = 0;
	pid_t pid = fork();

	cr_assert_geq(pid, 0);
	if (pid == 0)
		_exit(try_all());
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status));
	cr_expect_eq(WEXITSTATUS(status), 0, "step %d", WEXITSTATUS(status));
}
