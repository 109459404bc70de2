// SPDX-License-Identifier: Apache-2.0
/*
 * Bytes on a connection without TLS: a file is sent by sendfile; a piece is read straight into its
 * memory, and the bytes after it into the buffer.
 */
#include <errno.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#include "p2p/net/net_priv.h"

static ssize_t plain_result(ssize_t n)
{
	if (n >= 0)
		return n;
	return errno == EINTR || errno == EWOULDBLOCK ? -EAGAIN : -errno;
}

/* If only bulk is plain, the first byte tells the kind of connection: TLS begins with 22, which
 * no first message of this protocol has as its length. */
static int plain_secure(struct conn *c, struct error *err)
{
	uint8_t first;
	ssize_t n;

	if (!c->net->security || c->outgoing || c->signs)
		return 0;
	n = plain_result(recv(c->fd, &first, 1, MSG_PEEK));
	if (n == 0)
		return error_set(err, ECONNRESET, "it was closed at once");
	if (n < 0)
		return (int)n;
	if (first != 22) {
		c->signs = true;
		return 0;
	}
	if (security_wrap(c, err) < 0)
		return -err->code;
	return c->io->secure(c, err);
}

static ssize_t plain_recv(struct conn *c, void *a, size_t n_a, void *b,
			  size_t n_b)
{
	struct iovec iov[2] = { { a, n_a }, { b, n_b } };

	if (n_a == 0)
		return plain_result(recv(c->fd, b, n_b, 0));
	return plain_result(readv(c->fd, iov, n_b ? 2 : 1));
}

static ssize_t send_some(struct conn *c, const void *head, size_t n_head,
			 const struct net_body *body, size_t n_body)
{
	struct iovec iov[2];
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	off_t off;
	ssize_t n = 0;

	if (!body || body->fd < 0) {
		memcpy(&iov[0].iov_base, &head, sizeof(head));
		iov[0].iov_len = n_head;
		if (body)
			memcpy(&iov[1].iov_base, &body->data,
			       sizeof(body->data));
		iov[1].iov_len = n_body;
		if (!body)
			msg.msg_iovlen = 1;
		return plain_result(sendmsg(c->fd, &msg, MSG_NOSIGNAL));
	}
	if (n_head) {
		n = plain_result(
			send(c->fd, head, n_head, MSG_NOSIGNAL | MSG_MORE));
		if (n < (ssize_t)n_head)
			return n;
	}
	off = (off_t)body->off;
	n = plain_result(sendfile(c->fd, body->fd, &off, n_body));
	if (n == 0)
		return -ENODATA; /* the file is shorter than the piece */
	if (n == -EAGAIN && n_head)
		return (ssize_t)n_head;
	return n < 0 ? n : n + (ssize_t)n_head;
}

static ssize_t plain_send(struct conn *c, const void *head, size_t n_head,
			  const struct net_body *body, size_t n_body)
{
	ssize_t n = send_some(c, head, n_head, body, n_body);

	if (n > 0)
		c->tx_total += (uint64_t)n;
	return n;
}

static int plain_flush(struct conn *c)
{
	return 0;
}

static void plain_close(struct conn *c)
{
}

const struct conn_io conn_plain = {
	.secure = plain_secure,
	.recv = plain_recv,
	.send = plain_send,
	.flush = plain_flush,
	.close = plain_close,
};
