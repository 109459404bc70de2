// SPDX-License-Identifier: Apache-2.0
/* The library's blocks of a KV cache: docs/formats/blocks.md. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "groupio/client/client_priv.h"

#define KEY_MAX 1024u
#define GREET_NS (60 * NS_PER_S)
/* Longer than the mount waits for other nodes and the store. */
#define ANSWER_S 300

enum cache_op { CACHE_GET = 1, CACHE_PUT = 2, CACHE_HAS = 3 };

struct bootseer_cache {
	char *socket, *name;
	int sock; /* -1: the mount's process has ended */
};

static int cache_connect(struct bootseer_cache *c, struct error *err)
{
	const struct timeval patience = { .tv_sec = ANSWER_S };
	AUTO_BUF rest = BUF_INIT;
	AUTO_JSON *said = NULL;
	int rc = client_call(c->socket,
			     json_pack("{s:s,s:s}", "op", "blocks", "cache",
				       c->name),
			     -1, &c->sock, err);

	if (rc == 0)
		rc = client_line(c->sock, &rest, clock_now_ns() + GREET_NS,
				 &said, err);
	if (rc == 0 && !json_object_get(said, "blocks"))
		rc = error_set(err, EACCES, "the mount at '%s': %.300s",
			       c->socket,
			       json_string_value(
				       json_object_get(said, "reason"))
				       ?: "it said nothing");
	if (rc == 0) {
		(void)setsockopt(c->sock, SOL_SOCKET, SO_RCVTIMEO, &patience,
				 sizeof(patience));
		(void)setsockopt(c->sock, SOL_SOCKET, SO_SNDTIMEO, &patience,
				 sizeof(patience));
	}
	if (rc < 0 && c->sock >= 0)
		(void)close(steal_fd(&c->sock));
	return rc;
}

CLIENT_API int bootseer_cache_open(const char *socket, const char *name,
				   struct bootseer_cache **ret,
				   struct bootseer_error *err)
{
	struct bootseer_cache *c = calloc(1, sizeof(*c));
	struct error why = ERROR_INIT;
	int rc;

	if (!c)
		return client_error(error_nomem(&why), &why, err);
	c->sock = -1;
	c->socket = strdup(socket);
	c->name = strdup(name);
	rc = c->socket && c->name ? cache_connect(c, &why) : error_nomem(&why);
	if (rc < 0)
		bootseer_cache_close(c);
	else
		*ret = c;
	return client_error(rc, &why, err);
}

CLIENT_API void bootseer_cache_close(struct bootseer_cache *c)
{
	if (!c)
		return;
	fd_close(c->sock);
	free(c->socket);
	free(c->name);
	free(c);
}

static int receive_answer(int sock, int64_t *ret_n, int *ret_fd,
			  struct error *err)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	uint8_t text[8];
	struct iovec io = { .iov_base = text, .iov_len = sizeof(text) };
	struct msghdr m = { .msg_iov = &io,
			    .msg_iovlen = 1,
			    .msg_control = control.space,
			    .msg_controllen = sizeof(control.space) };
	ssize_t n;

	do
		n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC | MSG_WAITALL);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return error_set(err, ETIMEDOUT,
				 "the mount has not answered for %u s",
				 ANSWER_S);
	if (n != (ssize_t)sizeof(text))
		return error_set(err, ECONNRESET,
				 "the mount's process has ended");
	if (m.msg_controllen >= CMSG_LEN(sizeof(int)))
		memcpy(ret_fd, CMSG_DATA(&control.head), sizeof(int));
	*ret_n = (int64_t)get_le64(text);
	return 0;
}

static int ask_once(struct bootseer_cache *c, const uint8_t *request,
		    size_t len, int fd, int64_t *ret_n, int *ret_fd,
		    struct error *err)
{
	int rc = c->sock < 0 ? cache_connect(c, err) : 0;

	if (rc == 0)
		rc = client_send(c->sock, request, len, fd, err);
	if (rc == 0)
		rc = receive_answer(c->sock, ret_n, ret_fd, err);
	if (rc < 0 && c->sock >= 0)
		(void)close(steal_fd(&c->sock));
	return rc;
}

/* Send a request. Connects again first if the mount's process was restarted since the last
 * call. */
static int cache_ask(struct bootseer_cache *c, enum cache_op op,
		     const void *key, size_t key_len, int fd, int64_t *ret_n,
		     int *ret_fd, struct error *err)
{
	uint8_t request[8 + KEY_MAX];
	int rc;

	if (!key_len || key_len > KEY_MAX)
		return error_set(err, EINVAL, "a key of %zu bytes: 1 to %u",
				 key_len, KEY_MAX);
	put_le32(request, op);
	put_le32(request + 4, (uint32_t)key_len);
	memcpy(request + 8, key, key_len);
	rc = ask_once(c, request, 8 + key_len, fd, ret_n, ret_fd, err);
	if (rc == -ECONNRESET)
		rc = ask_once(c, request, 8 + key_len, fd, ret_n, ret_fd, err);
	if (rc < 0 || *ret_n >= 0)
		return rc;
	return error_errno(err, (int)-*ret_n, "the block");
}

CLIENT_API int bootseer_cache_put(struct bootseer_cache *c, const void *key,
				  size_t key_len, const void *data, size_t len,
				  struct bootseer_error *err)
{
	struct error why = ERROR_INIT;
	AUTO_CLOSE int fd = -1;
	char *map;
	int64_t n = 0;
	int none = -1;
	int rc = client_memory_new(len, &fd, &map, &why);

	if (rc == 0) {
		if (len)
			memcpy(map, data, len);
		rc = client_memory_seal(fd, map, len, &why);
	}
	if (rc == 0)
		rc = cache_ask(c, CACHE_PUT, key, key_len, fd, &n, &none, &why);
	return client_error(rc, &why, err);
}

CLIENT_API int bootseer_cache_get(struct bootseer_cache *c, const void *key,
				  size_t key_len, const void **ret,
				  size_t *ret_len, struct bootseer_error *err)
{
	struct error why = ERROR_INIT;
	AUTO_CLOSE int fd = -1;
	int64_t n = 0;
	void *map;
	int rc = cache_ask(c, CACHE_GET, key, key_len, -1, &n, &fd, &why);

	if (rc < 0)
		return client_error(rc, &why, err);
	map = mmap(NULL, (size_t)n, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return client_error(error_errno(&why, errno, "map a block"),
				    &why, err);
	*ret = map;
	*ret_len = (size_t)n;
	return 0;
}

CLIENT_API void bootseer_cache_release(const void *data, size_t len)
{
	(void)munmap((void *)(uintptr_t)data, len);
}

CLIENT_API int bootseer_cache_has(struct bootseer_cache *c, const void *key,
				  size_t key_len, struct bootseer_error *err)
{
	struct error why = ERROR_INIT;
	int64_t n = 0;
	int none = -1;
	const int rc =
		cache_ask(c, CACHE_HAS, key, key_len, -1, &n, &none, &why);

	return client_error(rc, &why, err);
}
