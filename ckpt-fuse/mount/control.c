// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/control.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/clock.h"
#include "common/thread.h"
#include "net/shortage.h"

struct control {
	struct ckpt_mount *mount;
	const char *path;
	bool is_adopted;
	char *socket;
	bool is_metrics;
	int fd, end_fd;
	struct thread thread;
};

/* Figures fit a socket's buffer: nobody who does not read holds us up. */
static void tell(struct control *c, int fd)
{
	AUTO_BUF text = BUF_INIT;
	int rc = c->is_metrics ? ckpt_mount_metrics(c->mount, &text)
			       : ckpt_mount_status(c->mount, c->path,
						   c->is_adopted, &text);

	if (rc == 0)
		(void)!send(fd, text.data, text.len,
			    MSG_DONTWAIT | MSG_NOSIGNAL);
	(void)close(fd);
}

static void *control_main(void *arg)
{
	struct control *c = arg;
	struct accept_shortage shortage = { .total = 0 };
	struct pollfd p[2] = { { .fd = c->fd, .events = POLLIN },
			       { .fd = c->end_fd, .events = POLLIN } };

	while (poll(p, 2, -1) >= 0 || errno == EINTR) {
		int fd;

		if (p[1].revents)
			break;
		fd = accept4(c->fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0) {
			tell(c, fd);
		} else if (shortage_is(errno)) {
			shortage_note(&shortage, "ckpt", errno);
			(void)poll(&p[1], 1, SHORTAGE_PAUSE_NS / NS_PER_MS);
		}
	}
	return NULL;
}

static int listen_at(struct control *c, struct error *err)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };

	if (strlen(c->socket) >= sizeof(sa.sun_path))
		return error_set(err, ENAMETOOLONG, "'%s' is too long",
				 c->socket);
	memcpy(sa.sun_path, c->socket, strlen(c->socket));
	(void)unlink(c->socket);
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	c->end_fd = eventfd(0, EFD_CLOEXEC);
	if (c->fd < 0 || c->end_fd < 0 ||
	    bind(c->fd, (const void *)&sa, sizeof(sa)) < 0 ||
	    listen(c->fd, 16) < 0)
		return error_set(err, errno, "listen at '%s': %s", c->socket,
				 strerror(errno));
	return 0;
}

static void free_all(struct control *c)
{
	if (c->fd >= 0)
		(void)close(c->fd);
	if (c->end_fd >= 0)
		(void)close(c->end_fd);
	free(c->socket);
	free(c);
}

int control_new(const char *socket, struct ckpt_mount *m, const char *path,
		bool is_adopted, bool is_metrics, struct control **ret,
		struct error *err)
{
	struct control *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return error_nomem(err);
	*c = (struct control){ .mount = m,
			       .path = path,
			       .is_adopted = is_adopted,
			       .is_metrics = is_metrics,
			       .socket = strdup(socket),
			       .fd = -1,
			       .end_fd = -1 };
	rc = c->socket ? listen_at(c, err) : error_nomem(err);
	if (rc == 0) {
		rc = thread_start(&c->thread, control_main, c, err);
		if (rc < 0)
			(void)unlink(c->socket); /* nobody answers there */
	}
	if (rc < 0)
		free_all(c);
	else
		*ret = c;
	return rc;
}

void control_free(struct control *c)
{
	const uint64_t one = 1;

	if (!c)
		return;
	(void)unlink(c->socket);
	(void)!write(c->end_fd, &one, sizeof(one));
	thread_join(&c->thread);
	free_all(c);
}
