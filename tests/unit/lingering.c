// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/lingering.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int lingering_new(int *ret_peer)
{
	static const char much[65536];
	struct sockaddr_in sa = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(sa);
	int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_eq(bind(listening, (struct sockaddr *)&sa, sizeof(sa)), 0);
	cr_assert_eq(listen(listening, 1), 0);
	cr_assert_eq(getsockname(listening, (struct sockaddr *)&sa, &len), 0);
	cr_assert_eq(connect(fd, (struct sockaddr *)&sa, len), 0);
	*ret_peer = accept(listening, NULL, NULL);
	cr_assert_geq(*ret_peer, 0);
	(void)close(listening);
	while (send(fd, much, sizeof(much), MSG_DONTWAIT) > 0)
		continue;
	return fd;
}

static void set_linger(int fd, int seconds)
{
	const struct linger l = { .l_onoff = seconds > 0, .l_linger = seconds };

	cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)), 0);
}

int lingering_send(int sock)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .bytes = { 0 } };
	char byte = 'x';
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.bytes,
			      .msg_controllen = sizeof(control.bytes) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	int peer, fd = lingering_new(&peer);
	int go[2], status = -1;
	pid_t pid;

	set_linger(fd, 3600);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(int));
	cr_assert_eq(pipe(go), 0);
	/* Ours may be the last one, if it is received soon: only an exit does not wait. */
	pid = fork();
	if (pid == 0) {
		(void)close(go[1]);
		(void)!read(go[0], &byte, 1);
		_exit(sendmsg(sock, &msg, MSG_NOSIGNAL) < 0 ? errno : 0);
	}
	(void)close(fd);
	(void)close(go[0]);
	(void)close(go[1]);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status));
	if (WEXITSTATUS(status))
		(void)close(peer);
	return WEXITSTATUS(status) ? -WEXITSTATUS(status) : peer;
}
