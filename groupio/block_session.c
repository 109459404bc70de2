// SPDX-License-Identifier: Apache-2.0
/* The connection of a program for blocks, after its first request: docs/formats/blocks.md. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/bytes.h"
#include "groupio/blocks_priv.h"
#include "groupio/rank_socket.h"
#include "groupio/save_priv.h"

/* programs keep these connections for as long as they like */
#define SESSIONS_MAX 32u
#define REQUEST_SIZE 8u
#define GREETING "{\"blocks\":1}\n"
#define TOO_MANY "{\"reason\":\"32 connections have blocks already\"}\n"

enum block_op { BLOCK_OP_GET = 1, BLOCK_OP_PUT = 2, BLOCK_OP_HAS = 3 };

/* Send a length or -errno, and the block's memory `fd` unless it is -1. */
static bool send_answer(int sock, int64_t n, int fd)
{
	uint8_t text[8];
	struct iovec io = { .iov_base = text, .iov_len = sizeof(text) };
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { .space = { 0 } };
	struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1 };

	put_le64(text, (uint64_t)n);
	if (fd >= 0) {
		m.msg_control = &control;
		m.msg_controllen = sizeof(control.space);
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
	}
	/* A message this short is sent whole, or not at all. */
	return sendmsg(sock, &m, MSG_NOSIGNAL) == (ssize_t)sizeof(text);
}

static bool serve_get(struct blocks *b, int sock, const char *name)
{
	struct error err = ERROR_INIT;
	struct kept_block *k = NULL;
	const int rc = blocks_get(b, name, &k, &err);
	bool ok;

	if (rc < 0)
		return send_answer(sock, rc, -1);
	ok = send_answer(sock, (int64_t)k->len, k->fd);
	block_unref(k);
	return ok;
}

static int serve_op(struct blocks *b, unsigned int op, const char *name,
		    int *fd)
{
	struct error err = ERROR_INIT;

	if (op == BLOCK_OP_PUT && *fd >= 0)
		return blocks_put(b, name, steal_fd(fd), &err);
	if (op == BLOCK_OP_HAS)
		return blocks_has(b, name, &err);
	return -EINVAL;
}

static bool serve_request(struct blocks *b, int sock, const char *cache)
{
	char key[BLOCK_KEY_MAX], name[BLOCK_NAME_LEN + 1];
	uint8_t head[REQUEST_SIZE];
	AUTO_CLOSE int fd = -1;
	uint32_t len;

	if (rank_receive(sock, head, sizeof(head), &fd, NULL) < 0)
		return false;
	len = get_le32(head + 4);
	if (!len || len > sizeof(key) ||
	    rank_receive(sock, key, len, &fd, NULL) < 0 ||
	    block_name(&b->secret, cache, key, len, name) < 0)
		return false;
	if (get_le32(head) == BLOCK_OP_GET)
		return serve_get(b, sock, name);
	return send_answer(sock, serve_op(b, get_le32(head), name, &fd), -1);
}

static bool begin_session(struct blocks *b)
{
	bool ok;

	(void)pthread_mutex_lock(&b->lock);
	ok = b->n_sessions < SESSIONS_MAX;
	b->n_sessions += ok;
	(void)pthread_mutex_unlock(&b->lock);
	return ok;
}

void blocks_serve(struct blocks *b, int sock, const char *cache)
{
	/* No timeout: a program may be silent for as long as it likes. */
	const struct timeval ever = { .tv_sec = 0 };

	if (!begin_session(b)) {
		(void)send(sock, TOO_MANY, strlen(TOO_MANY), MSG_NOSIGNAL);
		return;
	}
	(void)setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &ever, sizeof(ever));
	if (send(sock, GREETING, strlen(GREETING), MSG_NOSIGNAL) > 0)
		while (!atomic_load(&b->is_ending) &&
		       serve_request(b, sock, cache))
			;
	(void)pthread_mutex_lock(&b->lock);
	b->n_sessions--;
	(void)pthread_mutex_unlock(&b->lock);
}
