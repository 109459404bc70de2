// SPDX-License-Identifier: Apache-2.0
#include "net/control_client.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"
#include "net/control.h"
#include "net/unix_connect.h"

#define PAUSE_MS 20 /* between attempts to connect: grows */
#define PAUSE_MAX_MS 500
#define DAY_MS (24u * 3600 * 1000)
/* repeats of one call whose connection is closed each time */
#define REPEATS_MAX 8

/* Used when the caller gives no patience: waits for control_client_config.wait_ms. */
struct plain_patience {
	struct control_patience patience;
	/* since when the server does not listen; 0: it listens */
	int64_t since_ms;
	uint32_t wait_ms;
};

/* Interval at which a waiting call checks c->is_gone. */
#define LOOK_MS 200

struct control_client {
	struct control_client_config cfg;
	int fd;
	struct plain_patience plain;
	char *path;                        /* cfg.path is this */
	struct control_patience *patience; /* or NULL */
	struct buf in;
	bool broken; /* a call was cut short: replies no longer match */
	const atomic_bool *is_gone; /* ends calls early; NULL: nothing does */
};

static int set_no_answer_error(const struct control_client *c,
			       struct error *err)
{
	return error_set(err, ETIMEDOUT,
			 "no answer from %s within %" PRIu32 " ms",
			 c->cfg.server, c->cfg.timeout_ms);
}

/* Connect once. When a server listens but does not accept, its queue is full, and this waits
 * for as long as a call may. */
static int connect_once(struct control_client *c, struct error *err)
{
	/* Without a time limit, "for ever" is a day. */
	int fd = unix_connect(c->path,
			      c->cfg.timeout_ms ? c->cfg.timeout_ms : DAY_MS);

	if (fd == -EAGAIN)
		return set_no_answer_error(c, err);
	if (fd == -EACCES)
		return error_set(err, EACCES,
				 "socket '%s': only root may ask %s%s", c->path,
				 c->cfg.server, error_root_hint(EACCES));
	if (fd == -ENAMETOOLONG)
		return error_set(err, ENAMETOOLONG,
				 "socket '%s': the path is too long", c->path);
	if (fd < 0)
		return error_set(err, -fd,
				 "%s does not answer at '%s' (%s): start it, "
				 "or name its socket",
				 c->cfg.server, c->path, strerror(-fd));
	c->fd = fd;
	return 0;
}

static void pause_ms(uint32_t ms)
{
	const struct timespec t = clock_timespec((int64_t)ms * 1000000);

	(void)nanosleep(&t, NULL);
}

/* Connect, and try again while the server does not listen, as long as the client's patience
 * lasts. */
static int connect_patiently(struct control_client *c, struct error *err)
{
	uint32_t pause = PAUSE_MS, left;

	for (;;) {
		struct error why = ERROR_INIT;
		int rc = connect_once(c, &why);

		if (rc == 0) {
			if (c->patience)
				c->patience->is_there(c->patience);
			return 0;
		}
		left = c->patience && (rc == -ENOENT || rc == -ECONNREFUSED)
			       ? c->patience->left_ms(c->patience, &why)
			       : 0;
		if (left == 0)
			return error_set(err, -rc, "%s", why.msg);
		pause_ms(pause < left ? pause : left);
		pause = 2 * pause < PAUSE_MAX_MS ? 2 * pause : PAUSE_MAX_MS;
	}
}

static uint32_t get_plain_wait_left_ms(struct control_patience *p,
				       const struct error *why)
{
	struct plain_patience *w =
		container_of(p, struct plain_patience, patience);
	int64_t now = clock_now_ms(), end;

	(void)why;
	if (!w->since_ms)
		w->since_ms = now;
	end = w->since_ms + w->wait_ms;
	return now < end ? (uint32_t)(end - now) : 0;
}

static void note_server_is_there(struct control_patience *p)
{
	container_of(p, struct plain_patience, patience)->since_ms = 0;
}

static int client_new(const struct control_client_config *cfg,
		      struct control_client **ret, struct error *err)
{
	struct control_client *c = calloc(1, sizeof(*c));
	char *path = strdup(cfg->path);

	if (!c || !path) {
		free(c);
		free(path);
		return error_nomem(err);
	}
	c->cfg = *cfg;
	c->cfg.path = c->path = path;
	c->fd = -1;
	c->in.limit = CONTROL_HEAD_MAX + CONTROL_REPLY_MAX + 65536;
	c->plain = (struct plain_patience){
		.patience = { .left_ms = get_plain_wait_left_ms,
			      .is_there = note_server_is_there },
		.wait_ms = cfg->wait_ms,
	};
	c->patience = cfg->patience  ? cfg->patience
		      : cfg->wait_ms ? &c->plain.patience
				     : NULL;
	*ret = c;
	return 0;
}

int control_client_open(const struct control_client_config *cfg,
			struct control_client **ret, struct error *err)
{
	struct control_client *c = NULL;
	int rc = client_new(cfg, &c, err);

	if (rc < 0)
		return rc;
	rc = connect_patiently(c, err);
	if (rc < 0)
		control_client_close(c);
	else
		*ret = c;
	return rc;
}

void control_client_close(struct control_client *c)
{
	if (!c)
		return;
	if (c->fd >= 0)
		close(c->fd);
	buf_fini(&c->in);
	free(c->path);
	free(c);
}

static int wait_ready(struct control_client *c, short events, int64_t deadline,
		      struct error *err)
{
	struct pollfd p = { .fd = c->fd, .events = events };
	int64_t left, tick = c->is_gone ? LOOK_MS : INT32_MAX;
	bool again;
	int n;

	do {
		left = deadline ? deadline - clock_now_ms() : INT64_MAX;
		if (c->is_gone && atomic_load(c->is_gone))
			return error_set(err, ECANCELED,
					 "whoever asked has left");
		if (left <= 0)
			n = 0;
		else if (left == INT64_MAX && !c->is_gone)
			n = poll(&p, 1, -1);
		else
			n = poll(&p, 1, (int)(left > tick ? tick : left));
		again = n < 0 ? errno == EINTR : n == 0 && left > tick;
	} while (again);
	if (n == 0)
		return set_no_answer_error(c, err);
	return n < 0 ? error_errno(err, errno, "poll") : 0;
}

void control_client_heed(struct control_client *c, const atomic_bool *is_gone)
{
	c->is_gone = is_gone;
}

static int control_client_lost(const struct control_client *c,
			       struct error *err)
{
	return error_set(err, ECONNRESET,
			 "%s closed the connection: it ended or was "
			 "restarted, see its log",
			 c->cfg.server);
}

static int send_all(struct control_client *c, const struct buf *b,
		    int64_t deadline, struct error *err)
{
	size_t done = 0;
	ssize_t n;
	int rc;

	while (done < b->len) {
		n = send(c->fd, b->data + done, b->len - done,
			 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n >= 0) {
			done += (size_t)n;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno == EPIPE || errno == ECONNRESET)
			return control_client_lost(c, err);
		if (errno != EAGAIN)
			return error_errno(err, errno, "send");
		rc = wait_ready(c, POLLOUT, deadline, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Read an answer into c->in. */
static int recv_answer(struct control_client *c, int64_t deadline,
		       struct control_answer *ret, struct error *err)
{
	ssize_t n;
	int rc = 0;

	buf_reset(&c->in);
	while (rc == 0) {
		rc = wait_ready(c, POLLIN, deadline, err);
		if (rc < 0)
			return rc;
		rc = buf_reserve(&c->in, 65536);
		if (rc < 0)
			return error_set(err, -rc, "reply is too long");
		n = recv(c->fd, c->in.data + c->in.len, 65536, MSG_DONTWAIT);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n == 0 || (n < 0 && errno == ECONNRESET))
			return control_client_lost(c, err);
		if (n < 0)
			return error_errno(err, errno, "recv");
		c->in.len += (size_t)n;
		c->in.data[c->in.len] = '\0';
		rc = control_answer_parse(c->in.data, c->in.len, ret, err);
	}
	return rc < 0 ? rc : 0;
}

/* Send the request and read its answer into c->in. */
static int control_client_exchange(struct control_client *c,
				   const struct buf *request,
				   struct control_answer *ret,
				   struct error *err)
{
	int64_t deadline =
		c->cfg.timeout_ms ? clock_now_ms() + c->cfg.timeout_ms : 0;
	int rc = send_all(c, request, deadline, err);

	if (rc == 0)
		rc = recv_answer(c, deadline, ret, err);
	if (rc < 0)
		c->broken = true;
	return rc;
}

static bool is_repeatable(const struct control_client *c, const char *method)
{
	return !c->cfg.is_repeatable || c->cfg.is_repeatable(method);
}

/* The connection was closed during a call, as when the server restarts: connect again. 0:
 * connected. */
static int control_client_reconnect(struct control_client *c)
{
	struct error ignored = ERROR_INIT;
	int rc;

	fd_close(c->fd);
	c->fd = -1;
	rc = connect_patiently(c, &ignored);
	c->broken = rc < 0;
	return rc;
}

int control_client_call(struct control_client *c, const char *method,
			json_t *params, json_t **ret, struct error *err)
{
	struct control_answer answer;
	AUTO_BUF request = BUF_INIT;
	int rc;

	if (c->broken)
		return error_set(err, ENOTCONN,
				 "an earlier call on this "
				 "connection was cut short");
	rc = control_call_format(method, params, &request, err);
	if (rc < 0)
		return rc;
	for (unsigned int n = 0; n < REPEATS_MAX; n++) {
		rc = control_client_exchange(c, &request, &answer, err);
		if (rc != -ECONNRESET || !c->patience ||
		    !is_repeatable(c, method) ||
		    control_client_reconnect(c) < 0)
			break;
	}
	if (rc < 0)
		return error_wrap(err, rc, "%s", method);
	return control_reply_parse(c->in.data + answer.head_len,
				   answer.body_len, ret, err);
}

int control_client_read(struct control_client *c, const char *path,
			bool is_call, struct buf *ret, struct error *err)
{
	const struct buf none = BUF_INIT;
	struct control_answer answer;
	AUTO_BUF request = BUF_INIT;
	const char *text;
	int rc = control_http_format(path, is_call ? &none : NULL, &request);

	rc = rc < 0 ? error_nomem(err)
		    : control_client_exchange(c, &request, &answer, err);
	if (rc == 0 && buf_printf(ret, "%.*s", (int)answer.body_len,
				  c->in.data + answer.head_len) < 0)
		rc = error_nomem(err);
	text = ret->len ? ret->data : "it refuses";
	if (rc == 0 && answer.status != 200)
		rc = error_set(err, EIO, "%s: %.*s", c->cfg.server,
			       (int)strcspn(text, "\n"), text);
	return rc;
}
