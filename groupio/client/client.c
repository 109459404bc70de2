// SPDX-License-Identifier: Apache-2.0
/* The program's side of the socket of a mount's group. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/bounded_json.h"
#include "common/bytes.h"
#include "common/clock.h"
#include "groupio/client/client_priv.h"

#define LINE_MAX_BYTES (16u << 20)
#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

int client_error(int rc, const struct error *from, struct bootseer_error *to)
{
	if (rc < 0 && to) {
		to->code = -rc;
		(void)snprintf(to->text, sizeof(to->text), "%s", from->msg);
	}
	return rc;
}

int client_send(int sock, const void *data, size_t len, int fd,
		struct error *err)
{
	const char *from = data;
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { .space = { 0 } };

	while (len) {
		struct iovec io = { .iov_base = (void *)(uintptr_t)from,
				    .iov_len = len };
		struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1 };
		ssize_t n;

		if (fd >= 0) {
			m.msg_control = control.space;
			m.msg_controllen = sizeof(control.space);
			control.head.cmsg_level = SOL_SOCKET;
			control.head.cmsg_type = SCM_RIGHTS;
			control.head.cmsg_len = CMSG_LEN(sizeof(int));
			memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
		}
		n = sendmsg(sock, &m, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return error_set(err, ECONNRESET,
					 "the mount's process has gone");
		fd = -1;
		from += n;
		len -= (size_t)n;
	}
	return 0;
}

static int client_connect(const char *address, int *ret, struct error *err)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	AUTO_CLOSE int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(address) >= sizeof(a.sun_path))
		return error_set(err, ENAMETOOLONG, "the socket '%s'", address);
	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", address);
	if (sock < 0 ||
	    connect(sock, (const struct sockaddr *)&a, sizeof(a)) < 0)
		return error_errno(err, errno, "the mount's socket '%s'",
				   address);
	*ret = steal_fd(&sock);
	return 0;
}

int client_call(const char *address, json_t *request, int fd, int *ret_sock,
		struct error *err)
{
	AUTO_JSON *j = request;
	AUTO_FREE char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
	AUTO_CLOSE int sock = -1;
	uint8_t head[4];
	int rc;

	if (!text)
		return error_nomem(err);
	put_le32(head, (uint32_t)strlen(text));
	rc = client_connect(address, &sock, err);
	if (rc == 0)
		rc = client_send(sock, head, sizeof(head), fd, err);
	if (rc == 0)
		rc = client_send(sock, text, strlen(text), -1, err);
	if (rc == 0)
		*ret_sock = steal_fd(&sock);
	return rc;
}

static int wait_readable(int sock, int64_t until_ns, struct error *err)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };
	const int64_t left_ns = until_ns - clock_now_ns();
	const int64_t ms = left_ns <= 0 ? 0 : (left_ns - 1) / NS_PER_MS + 1;
	const int n = poll(&p, 1,
			   until_ns == INT64_MAX ? -1
			   : ms > INT32_MAX      ? INT32_MAX
						 : (int)ms);

	if (n > 0 || (n < 0 && errno == EINTR))
		return 0;
	return error_set(err, ETIMEDOUT, "the mount has not answered yet");
}

/* Take a line of `len` bytes from `rest` and parse it; bytes behind it stay in `rest`. */
static int take_line(struct buf *rest, size_t len, json_t **ret,
		     struct error *err)
{
	const int rc = bounded_json_load_large(rest->data, len, LINE_MAX_BYTES,
					       "an answer", ret, err);

	rest->len -= len + 1;
	memmove(rest->data, rest->data + len + 1, rest->len);
	return rc;
}

int client_line(int sock, struct buf *rest, int64_t until_ns, json_t **ret,
		struct error *err)
{
	for (;;) {
		char part[4096];
		const char *end =
			rest->len ? memchr(rest->data, '\n', rest->len) : NULL;
		ssize_t n;
		int rc;

		if (end)
			return take_line(rest, (size_t)(end - rest->data), ret,
					 err);
		rc = wait_readable(sock, until_ns, err);
		if (rc < 0)
			return rc;
		n = recv(sock, part, sizeof(part), MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (n <= 0 || rest->len > LINE_MAX_BYTES)
			return error_set(err, ECONNRESET,
					 "the mount's process has ended");
		if (buf_append(rest, part, (size_t)n) < 0)
			return error_nomem(err);
	}
}

int client_memory_new(size_t size, int *ret_fd, char **ret_map,
		      struct error *err)
{
	AUTO_CLOSE int fd =
		memfd_create("bootseer", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	char *map = NULL;

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		return error_errno(err, errno, "memory");
	if (size)
		map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			   0);
	if (map == MAP_FAILED)
		return error_errno(err, errno, "memory");
	/* Children that the process forks must not inherit the mapping: it would prevent the
	 * sealing. */
	if (map)
		(void)madvise(map, size, MADV_DONTFORK);
	*ret_fd = steal_fd(&fd);
	*ret_map = map;
	return 0;
}

int client_memory_seal(int fd, char *map, size_t size, struct error *err)
{
	if (map)
		(void)munmap(map, size);
	if (fcntl(fd, F_ADD_SEALS, SEALS) < 0)
		return error_errno(err, errno, "seal memory");
	return 0;
}
