// SPDX-License-Identifier: Apache-2.0
#include "common/notify.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/cleanup.h"

#define FIRST_FD 3 /* SD_LISTEN_FDS_START */

void notify_send(const char *state)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	const char *path = getenv("NOTIFY_SOCKET");
	AUTO_CLOSE int fd = -1;
	size_t len = path ? strlen(path) : 0;

	if (len < 2 || len >= sizeof(addr.sun_path))
		return;
	memcpy(addr.sun_path, path, len);
	if (*path == '@')
		addr.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	/* A service manager that does not listen is no failure of ours. */
	if (fd < 0 ||
	    sendto(fd, state, strlen(state), MSG_NOSIGNAL,
		   (struct sockaddr *)&addr,
		   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) <
		    0)
		return;
}

int notify_take_socket(void)
{
	const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");
	int listening = 0;
	socklen_t len = sizeof(listening);
	bool ours = pid && n && strtol(pid, NULL, 10) == (long)getpid() &&
		    strtol(n, NULL, 10) >= 1;

	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	if (!ours ||
	    getsockopt(FIRST_FD, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) <
		    0 ||
	    !listening || fcntl(FIRST_FD, F_SETFD, FD_CLOEXEC) < 0)
		return -1;
	return FIRST_FD;
}
