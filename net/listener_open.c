// SPDX-License-Identifier: Apache-2.0
/* Opens listening sockets. */
#include <errno.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "net/listener.h"
#include "net/unix_connect.h"

int listener_open_tcp(const struct sockaddr_storage *addr, socklen_t len,
		      int backlog, const char *option, const char *where,
		      int *ret, struct error *err)
{
	AUTO_CLOSE int fd =
		socket(addr->ss_family,
		       SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const int one = 1;

	if (fd < 0)
		return error_errno(err, errno, "socket");
	/* Without it, a restart would have to wait until old connections time out. */
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (const struct sockaddr *)addr, len) < 0 ||
	    listen(fd, backlog) < 0)
		return error_listen(err, errno, where, option);
	*ret = steal_fd(&fd);
	return 0;
}

static int check_path(const struct sockaddr_un *addr, const char *cure,
		      struct error *err)
{
	struct stat st;

	/* Do not take over a served socket: the other process would run on unreachable. */
	if (unix_is_served(addr->sun_path))
		return error_set(err, EADDRINUSE,
				 "socket '%s' is served by another process: "
				 "end it, or %s",
				 addr->sun_path, cure);
	/* The rename below replaces whatever is at the path, so check that it is a socket. */
	if (lstat(addr->sun_path, &st) == 0 && !S_ISSOCK(st.st_mode))
		return error_set(err, EEXIST,
				 "socket '%s': something else has that name: "
				 "%s, or move it away first",
				 addr->sun_path, cure);
	return 0;
}

/* Bind under another name and rename, so that the socket appears with its mode and
 * accepting. The other name is not longer than `path`, as room for it is short. */
static int bind_beside(const struct sockaddr_un *addr, mode_t mode, int backlog,
		       int *ret, struct error *err)
{
	AUTO_CLOSE int fd =
		socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un beside = *addr;
	char *last = beside.sun_path + strlen(beside.sun_path) - 1;

	*last = *last == '~' ? '-' : '~';
	(void)unlink(beside.sun_path);
	if (fd < 0 ||
	    bind(fd, (const struct sockaddr *)&beside, sizeof(beside)) < 0 ||
	    chmod(beside.sun_path, mode) < 0 || listen(fd, backlog) < 0 ||
	    rename(beside.sun_path, addr->sun_path) < 0)
		return error_set(err, errno, "socket '%s': %s%s",
				 addr->sun_path, strerror(errno),
				 error_root_hint(errno));
	*ret = steal_fd(&fd);
	return 0;
}

int listener_open_unix(const char *path, mode_t mode, int backlog,
		       const char *cure, int *ret, struct error *err)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int rc;

	if (!*path || strlen(path) >= sizeof(addr.sun_path))
		return error_set(err, ENAMETOOLONG,
				 "socket '%s': want 1 to %zu bytes: %s", path,
				 sizeof(addr.sun_path) - 1, cure);
	strcpy(addr.sun_path, path);
	rc = check_path(&addr, cure, err);
	return rc < 0 ? rc : bind_beside(&addr, mode, backlog, ret, err);
}
