// SPDX-License-Identifier: Apache-2.0
/* Client of bootseerd's control socket: blocking, one call at a time. */
#include "snapshotter/client.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "snapshotter/control.h"

struct node_client {
	int fd;
	uint32_t timeout_ms; /* of one call; 0 is none */
	struct buf in;
	bool broken; /* a call was cut short: replies no longer match */
};

int node_client_open(const char *socket_path, uint32_t timeout_ms,
		     struct node_client **ret, struct error *err)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	AUTO_CLOSE int fd = -1;
	struct node_client *c;

	if (strlen(socket_path) >= sizeof(addr.sun_path))
		return error_set(err, ENAMETOOLONG,
				 "socket '%s': path over %zu bytes",
				 socket_path, sizeof(addr.sun_path) - 1);
	strcpy(addr.sun_path, socket_path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return error_set(err, errno, "socket: %s", strerror(errno));
	/* Never waits long on a local socket: either it listens or not. */
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		if (errno == EACCES)
			return error_set(err, EACCES,
					 "socket '%s': only root may ask "
					 "bootseerd%s",
					 socket_path, error_root_hint(EACCES));
		return error_set(err, errno,
				 "bootseerd does not answer at '%s' (%s): "
				 "start it, or name its socket",
				 socket_path, strerror(errno));
	}
	c = calloc(1, sizeof(*c));
	if (!c)
		return error_nomem(err);
	c->fd = steal_fd(&fd);
	c->timeout_ms = timeout_ms;
	c->in.limit = CONTROL_REPLY_MAX;
	*ret = c;
	return 0;
}

void node_client_close(struct node_client *c)
{
	if (!c)
		return;
	close(c->fd);
	buf_fini(&c->in);
	free(c);
}

static int wait_ready(struct node_client *c, short events, int64_t deadline,
		      struct error *err)
{
	struct pollfd p = { .fd = c->fd, .events = events };
	int64_t left;
	int n;

	do {
		left = deadline ? deadline - clock_now_ms() : -1;
		if (deadline && left <= 0)
			n = 0;
		else
			n = poll(&p, 1,
				 left > INT32_MAX ? INT32_MAX : (int)left);
	} while (n < 0 && errno == EINTR);
	if (n == 0)
		return error_set(err, ETIMEDOUT,
				 "no answer from bootseerd within %" PRIu32
				 " ms",
				 c->timeout_ms);
	return n < 0 ? error_set(err, errno, "poll: %s", strerror(errno)) : 0;
}

static int lost(struct error *err)
{
	return error_set(err, ECONNRESET,
			 "bootseerd closed the connection: it ended or was "
			 "restarted, see its log");
}

static int send_all(struct node_client *c, const struct buf *b,
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
			return lost(err);
		if (errno != EAGAIN)
			return error_set(err, errno, "send: %s",
					 strerror(errno));
		rc = wait_ready(c, POLLOUT, deadline, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Read one line into c->in, without its end. */
static int recv_line(struct node_client *c, int64_t deadline, struct error *err)
{
	ssize_t n;
	int rc;

	buf_reset(&c->in);
	for (;;) {
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
			return lost(err);
		if (n < 0)
			return error_set(err, errno, "recv: %s",
					 strerror(errno));
		c->in.len += (size_t)n;
		if (c->in.data[c->in.len - 1] == '\n') {
			c->in.len--;
			return 0;
		}
	}
}

/* `params` may be NULL; `*ret` is the caller's. */
static int call(struct node_client *c, const char *method, json_t *params,
		json_t **ret, struct error *err)
{
	int64_t deadline = c->timeout_ms ? clock_now_ms() + c->timeout_ms : 0;
	AUTO_BUF line = BUF_INIT;
	int rc;

	if (c->broken)
		return error_set(err, ENOTCONN,
				 "an earlier call on this "
				 "connection was cut short");
	rc = control_request_format(method, params, &line, err);
	if (rc < 0)
		return rc;
	rc = send_all(c, &line, deadline, err);
	if (rc == 0)
		rc = recv_line(c, deadline, err);
	if (rc < 0) {
		c->broken = true;
		return error_wrap(err, rc, "%s", method);
	}
	return control_reply_parse(c->in.data, c->in.len, ret, err);
}

int node_call(struct node_client *c, const char *method, const char *params,
	      char **ret, struct error *err)
{
	AUTO_JSON *in = NULL;
	AUTO_JSON *out = NULL;
	json_error_t why;
	int rc;

	if (params) {
		in = json_loads(params, 0, &why);
		if (!in)
			return error_set(err, EINVAL, "parameters: %s",
					 why.text);
	}
	rc = call(c, method, in, &out, err);
	if (rc < 0)
		return rc;
	*ret = json_dumps(out, JSON_COMPACT);
	return *ret ? 0 : error_nomem(err);
}

static json_t *digest_json(const struct digest *d)
{
	char text[DIGEST_STR_MAX];

	digest_format(d, text);
	return json_string(text);
}

/* {"ref": .., "manifest": .. (when known), "plain_http": ..} */
static json_t *query_json(const struct node_image_query *q)
{
	json_t *j = json_pack("{s:s, s:b}", "ref", q->ref, "plain_http",
			      (int)q->plain_http);

	if (j && q->manifest &&
	    json_object_set_new(j, "manifest", digest_json(q->manifest)) < 0) {
		json_decref(j);
		return NULL;
	}
	return j;
}

void node_image_fini(struct node_image *i)
{
	free(i->chain_ids);
	free(i->warning);
	*i = (struct node_image){ .chain_ids = NULL };
}

static int parse_chain_ids(const json_t *list, struct node_image *ret,
			   struct error *err)
{
	size_t n = json_array_size(list), i;
	const char *text;
	int rc;

	ret->chain_ids = calloc(n ? n : 1, sizeof(*ret->chain_ids));
	if (!ret->chain_ids)
		return error_nomem(err);
	for (i = 0; i < n; i++) {
		text = json_string_value(json_array_get(list, i));
		rc = digest_parse(text ? text : "", &ret->chain_ids[i], err);
		if (rc < 0)
			return rc;
	}
	ret->n_chain_ids = n;
	return 0;
}

int node_image_prepare(struct node_client *c, const struct node_image_query *q,
		       struct node_image *ret, struct error *err)
{
	struct node_image image = { .chain_ids = NULL };
	AUTO_JSON *params = query_json(q);
	AUTO_JSON *out = NULL;
	const char *id, *manifest, *warning = NULL;
	json_t *chain;
	int rc;

	if (!params)
		return error_nomem(err);
	rc = call(c, "image.prepare", params, &out, err);
	if (rc < 0)
		return rc;
	if (json_unpack(out, "{s:s, s:s, s:o, s?s}", "id", &id, "manifest",
			&manifest, "chain_ids", &chain, "warning",
			&warning) < 0)
		return error_set(err, EPROTO, "image.prepare: bad reply");
	rc = digest_parse(id, &image.id, err);
	if (rc == 0)
		rc = digest_parse(manifest, &image.manifest, err);
	if (rc == 0)
		rc = parse_chain_ids(chain, &image, err);
	if (rc < 0) {
		node_image_fini(&image);
		return error_wrap(err, rc, "image.prepare: bad reply");
	}
	if (warning) {
		image.warning = strdup(warning);
		if (!image.warning) {
			node_image_fini(&image);
			return error_nomem(err);
		}
	}
	*ret = image;
	return 0;
}

int node_image_mount(struct node_client *c, const struct digest *id,
		     const char *user, bool for_start, char **ret_path,
		     struct error *err)
{
	AUTO_JSON *params =
		json_pack("{s:o, s:s, s:b}", "id", digest_json(id), "user",
			  user, "for_start", (int)for_start);
	AUTO_JSON *out = NULL;
	const char *path;
	int rc;

	if (!params)
		return error_set(err, EINVAL, "user '%s' is no UTF-8", user);
	rc = call(c, "image.mount", params, &out, err);
	if (rc < 0)
		return rc;
	if (json_unpack(out, "{s:s}", "path", &path) < 0)
		return error_set(err, EPROTO, "image.mount: bad reply");
	*ret_path = strdup(path);
	return *ret_path ? 0 : error_nomem(err);
}

int node_image_umount(struct node_client *c, const struct digest *id,
		      const char *user, struct error *err)
{
	AUTO_JSON *params =
		json_pack("{s:o, s:s}", "id", digest_json(id), "user", user);
	AUTO_JSON *out = NULL;

	if (!params)
		return error_set(err, EINVAL, "user '%s' is no UTF-8", user);
	return call(c, "image.umount", params, &out, err);
}

int node_start_begin(struct node_client *c, const struct digest *id,
		     const struct node_start *s, uint32_t *ret_waited_ms,
		     struct error *err)
{
	AUTO_JSON *params =
		json_pack("{s:o, s:s, s:b, s:s*, s:s*, s:s*, s:s*, s:s*}", "id",
			  digest_json(id), "user", s->user, "config_key",
			  (int)!s->workload, "workload", s->workload, "wait",
			  s->wait, "ready_file", s->ready_file, "ready_root",
			  s->ready_root, "bundle", s->bundle);
	AUTO_JSON *out = NULL;
	json_int_t waited = 0;
	int rc;

	if (!params)
		return error_set(err, EINVAL, "start of '%s': no UTF-8",
				 s->user);
	rc = call(c, "start.begin", params, &out, err);
	if (rc < 0)
		return rc;
	if (json_unpack(out, "{s:I}", "waited_ms", &waited) < 0)
		return error_set(err, EPROTO, "start.begin: bad reply");
	if (ret_waited_ms)
		*ret_waited_ms = (uint32_t)waited;
	return 0;
}

int node_start_end(struct node_client *c, const char *user, struct error *err)
{
	AUTO_JSON *params = json_pack("{s:s}", "user", user);
	AUTO_JSON *out = NULL;

	if (!params)
		return error_set(err, EINVAL, "user '%s' is no UTF-8", user);
	return call(c, "start.end", params, &out, err);
}

int node_layer_apply(struct node_client *c, const struct node_image_query *q,
		     size_t layer, const char *dir, struct error *err)
{
	AUTO_JSON *params = query_json(q);
	AUTO_JSON *out = NULL;

	if (!params ||
	    json_object_set_new(params, "layer",
				json_integer((json_int_t)layer)) < 0 ||
	    json_object_set_new(params, "dir", json_string(dir)) < 0)
		return error_set(err, EINVAL, "'%s' is no UTF-8", dir);
	return call(c, "layer.apply", params, &out, err);
}
