// SPDX-License-Identifier: Apache-2.0
#include "groupio/rank_socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int take_fd(struct msghdr *m, int *fd)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
		    c->cmsg_len != CMSG_LEN(sizeof(int)))
			return -EPROTO;
		fd_close(*fd);
		memcpy(fd, CMSG_DATA(c), sizeof(int));
	}
	return m->msg_flags & MSG_CTRUNC ? -EPROTO : 0;
}

int rank_receive(int sock, void *data, size_t len, int *fd, struct error *err)
{
	char *to = data;

	while (len) {
		union {
			struct cmsghdr align;
			char space[CMSG_SPACE(sizeof(int))];
		} control;
		struct iovec io = { .iov_base = to, .iov_len = len };
		struct msghdr m = { .msg_iov = &io,
				    .msg_iovlen = 1,
				    .msg_control = &control,
				    .msg_controllen = CMSG_LEN(sizeof(int)) };
		const ssize_t n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 || take_fd(&m, fd) < 0)
			return error_set(err, EPROTO,
					 "the request ended before its end");
		to += n;
		len -= (size_t)n;
	}
	return 0;
}
