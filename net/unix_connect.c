// SPDX-License-Identifier: Apache-2.0
#include "net/unix_connect.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

int unix_connect(const char *path, uint32_t patience_ms)
{
	const struct timeval most = { .tv_sec = patience_ms / 1000,
				      .tv_usec = patience_ms % 1000 * 1000 };
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	AUTO_CLOSE int fd = -1;

	if (strlen(path) >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	strcpy(addr.sun_path, path);
	fd = socket(AF_UNIX,
		    SOCK_STREAM | SOCK_CLOEXEC |
			    (patience_ms ? 0 : SOCK_NONBLOCK),
		    0);
	/* SO_SNDTIMEO also limits connect(2). */
	if (fd < 0 ||
	    (patience_ms && (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most,
					sizeof(most)) < 0 ||
			     setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most,
					sizeof(most)) < 0)) ||
	    connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0)
		return -errno;
	return steal_fd(&fd);
}

bool unix_is_served(const char *path)
{
	int fd = unix_connect(path, 0);

	fd_close(fd);
	return fd >= 0 || fd == -EAGAIN;
}
