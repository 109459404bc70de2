// SPDX-License-Identifier: Apache-2.0
/*
 * The client of the descriptor store protocol of sd_notify(3): FDSTORE=1, FDSTOREREMOVE=1,
 * BARRIER=1 on the service manager's datagram socket $NOTIFY_SOCKET, or on the inherited socket
 * of hold.c; and LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES of sd_listen_fds_with_names(3).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "fuse/fuse.h"
#include "fuse/hold_priv.h"

#define FIRST_FD 3
#define N_FDS_MAX 1024
#define NAME_MAX_BYTES 255
#define BARRIER_TIMEOUT_MS 5000

struct kept_fd {
	char *name;
	int fd; /* -1 once it was taken */
};

struct fd_keeper {
	int sock; /* -1: there is no descriptor store */
	struct kept_fd *kept;
	size_t n_kept;
};

static bool name_is_valid(const char *name, size_t len)
{
	static const char set[] = "abcdefghijklmnopqrstuvwxyz"
				  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

	return len > 0 && len <= NAME_MAX_BYTES && strspn(name, set) >= len;
}

static int parse_count(const char *text, long max, long *ret)
{
	char *end;
	long v;

	if (!text)
		return -ENOENT;
	errno = 0;
	v = strtol(text, &end, 10);
	if (errno || end == text || *end || v < 0 || v > max)
		return -EINVAL;
	*ret = v;
	return 0;
}

static int take_inherited_descriptor(struct kept_fd *k, int fd,
				     const char *name, size_t len,
				     struct error *err)
{
	if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return error_errno(err, errno, "inherited descriptor %d", fd);
	k->name = strndup(name, len);
	if (!k->name)
		return error_nomem(err);
	k->fd = fd;
	return 0;
}

static int take_inherited_descriptors(struct fd_keeper *k, struct error *err)
{
	const char *names = getenv("LISTEN_FDNAMES");
	long pid, n;

	/* Inherited variables may be meant for another process, and its descriptors. */
	if (parse_count(getenv("LISTEN_PID"), INT32_MAX, &pid) < 0 ||
	    pid != (long)getpid())
		return 0;
	if (parse_count(getenv("LISTEN_FDS"), N_FDS_MAX, &n) < 0 || n == 0)
		return 0;
	k->kept = calloc((size_t)n, sizeof(*k->kept));
	if (!k->kept)
		return error_nomem(err);
	for (long i = 0; i < n; i++) {
		size_t len = names ? strcspn(names, ":") : 0;
		int rc =
			take_inherited_descriptor(&k->kept[i],
						  FIRST_FD + (int)i,
						  names ? names : "", len, err);

		if (rc < 0)
			return rc;
		k->n_kept++;
		if (names)
			names += len + (names[len] == ':');
	}
	return 0;
}

/* Use the holder's socket, if a holder started this process. */
static int inherit_holder_socket(struct fd_keeper *k, struct error *err)
{
	const char *text = getenv(HOLD_ENV);
	const char *colon = text ? strchr(text, ':') : NULL;
	char number[HOLD_ENV_MAX];
	long pid, fd;

	if (!colon || (size_t)(colon - text) >= sizeof(number))
		return 0;
	memcpy(number, text, (size_t)(colon - text));
	number[colon - text] = '\0';
	if (parse_count(number, INT32_MAX, &pid) < 0 || pid != (long)getpid() ||
	    parse_count(colon + 1, INT32_MAX, &fd) < 0)
		return 0;
	if (fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0)
		return error_errno(err, errno, "the holder's socket, %ld", fd);
	k->sock = (int)fd;
	return 0;
}

static int connect_to_notify_socket(struct fd_keeper *k, struct error *err)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	socklen_t len;
	size_t n;

	if (!path || !path[0])
		return 0;
	n = strlen(path);
	if ((path[0] != '/' && path[0] != '@') || n >= sizeof(sa.sun_path))
		return error_set(err, EINVAL, "NOTIFY_SOCKET '%s'", path);
	memcpy(sa.sun_path, path, n);
	if (path[0] == '@')
		sa.sun_path[0] = '\0';
	len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n +
			  (path[0] == '/'));
	k->sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (k->sock < 0 || connect(k->sock, (const void *)&sa, len) < 0)
		return error_errno(err, errno, "connect to NOTIFY_SOCKET '%s'",
				   path);
	return 0;
}

int fd_keeper_open(struct fd_keeper **ret, struct error *err)
{
	struct fd_keeper *k = calloc(1, sizeof(*k));
	int rc;

	if (!k)
		return error_nomem(err);
	k->sock = -1;
	rc = take_inherited_descriptors(k, err);
	if (rc == 0)
		rc = inherit_holder_socket(k, err);
	if (rc == 0 && k->sock < 0)
		rc = connect_to_notify_socket(k, err);
	if (rc < 0) {
		fd_keeper_close(k);
		return rc;
	}
	*ret = k;
	return 0;
}

void fd_keeper_close(struct fd_keeper *k)
{
	if (!k)
		return;
	for (size_t i = 0; i < k->n_kept; i++) {
		fd_close(k->kept[i].fd);
		free(k->kept[i].name);
	}
	free(k->kept);
	fd_close(k->sock);
	free(k);
}

bool fd_keeper_is_durable(const struct fd_keeper *k)
{
	return k->sock >= 0;
}

static struct kept_fd *find_kept(const struct fd_keeper *k, const char *name)
{
	for (size_t i = 0; i < k->n_kept; i++)
		if (k->kept[i].fd >= 0 && strcmp(k->kept[i].name, name) == 0)
			return &k->kept[i];
	return NULL;
}

int fd_keeper_take(struct fd_keeper *k, const char *name)
{
	struct kept_fd *kept = find_kept(k, name);

	return kept ? steal_fd(&kept->fd) : -1;
}

int fd_keeper_look(const struct fd_keeper *k, const char *name)
{
	const struct kept_fd *kept = find_kept(k, name);

	return kept ? kept->fd : -1;
}

/* Send a message with a descriptor; `fd` -1: without. */
static int send_text(struct fd_keeper *k, const char *text, int fd,
		     struct error *err)
{
	struct iovec iov = { (void *)(uintptr_t)text, strlen(text) };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .bytes = { 0 } };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fd >= 0) {
		struct cmsghdr *c;

		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof(control.bytes);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(int));
	}
	while (sendmsg(k->sock, &msg, MSG_NOSIGNAL) < 0)
		if (errno != EINTR)
			return error_errno(err, errno,
					   "send to the descriptor store");
	return 0;
}

/* Wait until the other side has read all messages: it closes a pipe then. */
static int wait_until_messages_read(struct fd_keeper *k, struct error *err)
{
	struct pollfd p = { .events = 0 };
	int fds[2], rc;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return error_errno(err, errno, "pipe");
	rc = send_text(k, "BARRIER=1", fds[1], err);
	(void)close(fds[1]);
	p.fd = fds[0];
	if (rc == 0) {
		int n;

		do
			n = poll(&p, 1, BARRIER_TIMEOUT_MS);
		while (n < 0 && errno == EINTR);
		if (n <= 0)
			rc = error_set(err, ETIMEDOUT,
				       "the descriptor store does not answer");
	}
	(void)close(fds[0]);
	return rc;
}

static int send_remove(struct fd_keeper *k, const char *name, struct error *err)
{
	char text[64 + NAME_MAX_BYTES];

	if (!name_is_valid(name, strlen(name)))
		return error_set(err, EINVAL, "descriptor name '%s'", name);
	(void)snprintf(text, sizeof(text), "FDSTOREREMOVE=1\nFDNAME=%s", name);
	return send_text(k, text, -1, err);
}

int fd_keeper_put(struct fd_keeper *k, const char *name, int fd,
		  struct error *err)
{
	char text[64 + NAME_MAX_BYTES];
	int rc;

	if (k->sock < 0)
		return 0;
	rc = send_remove(k, name, err);
	if (rc < 0)
		return rc;
	(void)snprintf(text, sizeof(text), "FDSTORE=1\nFDNAME=%s", name);
	rc = send_text(k, text, fd, err);
	return rc == 0 ? wait_until_messages_read(k, err) : rc;
}

int fd_keeper_drop(struct fd_keeper *k, const char *name, struct error *err)
{
	int rc;

	if (k->sock < 0)
		return 0;
	rc = send_remove(k, name, err);
	return rc == 0 ? wait_until_messages_read(k, err) : rc;
}
