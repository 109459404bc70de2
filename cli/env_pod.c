// SPDX-License-Identifier: Apache-2.0
#include "cli/env_pod.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "net/control.h"
#include "net/unix_connect.h"

#define CALL_S 90

/* Read the next byte.  Returns 1; 0: the peer closed the connection; or -errno. */
static int read_byte(int fd, int64_t deadline_ns, char *ret)
{
	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int64_t left = (deadline_ns - clock_now_ns()) / NS_PER_MS;
		ssize_t n = left > 0 ? poll(&p, 1, (int)left) : 0;

		if (n == 0)
			return -ETIMEDOUT;
		if (n > 0)
			n = recv(fd, ret, 1, MSG_DONTWAIT);
		if (n >= 0)
			return (int)n;
		if (errno != EINTR && errno != EAGAIN)
			return -errno;
	}
}

int env_pod_read(int fd, unsigned int seconds, struct buf *ret,
		 struct error *err)
{
	int64_t deadline_ns = clock_now_ns() + seconds * NS_PER_S;
	char c;

	buf_reset(ret);
	for (;;) {
		int n = read_byte(fd, deadline_ns, &c);

		if (n < 0)
			return error_errno(err, -n, "no line comes");
		if (n == 0)
			return error_set(err, ECONNRESET, "the other end left");
		if (c == '\n')
			return buf_append(ret, "", 1) < 0 ? error_nomem(err)
							  : 0;
		if (ret->len + 2 > ENV_POD_LINE_MAX)
			return error_set(err, EMSGSIZE,
					 "a line is longer than %d bytes",
					 ENV_POD_LINE_MAX);
		if (buf_append(ret, &c, 1) < 0)
			return error_nomem(err);
	}
}

int env_pod_write(int fd, const struct buf *line, struct error *err)
{
	size_t done = 0;

	while (done < line->len) {
		ssize_t n = send(fd, line->data + done, line->len - done,
				 MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_errno(err, errno, "no line is taken");
		done += (size_t)n;
	}
	return 0;
}

int env_pod_reply(int fd, json_t *result, struct error *err)
{
	AUTO_BUF line = BUF_INIT;
	json_t *said = result ? json_incref(result) : json_object();
	int rc = control_reply_format(said, &line, err);

	json_decref(said);
	return rc < 0 ? rc : env_pod_write(fd, &line, err);
}

const char *env_pod_socket(void)
{
	const char *named = getenv("BOOTSEER_ENV_SOCKET");

	if (named)
		return *named ? named : NULL;
	return access(ENV_POD_SOCKET, W_OK) == 0 ? ENV_POD_SOCKET : NULL;
}

int env_pod_connect(const char *path, int *ret, struct error *err)
{
	int fd = unix_connect(path, CALL_S * 1000);

	if (fd < 0)
		return error_errno(err, -fd, "'%.100s', the container's socket",
				   path);
	*ret = fd;
	return 0;
}

int env_pod_call(int fd, const char *method, json_t *params,
		 unsigned int seconds, json_t **ret, struct error *err)
{
	AUTO_BUF line = BUF_INIT;
	AUTO_JSON *result = NULL;
	struct error untaken = ERROR_INIT;
	int rc = control_request_format(method, params, &line, err);

	if (rc == 0)
		rc = env_pod_write(fd, &line, &untaken);
	/* A server that refuses requests may have sent the reason before it closed the
	 * connection. */
	if (rc == 0 || rc == -EPIPE || rc == -ECONNRESET)
		rc = env_pod_read(fd, seconds, &line, err);
	if (rc < 0 && untaken.code)
		return error_set(err, untaken.code, "%s", untaken.msg);
	if (rc == 0)
		rc = control_reply_parse(line.data, line.len - 1, &result, err);
	if (rc == 0 && ret)
		*ret = json_incref(result);
	return rc;
}

json_t *env_snapshot_params(const char *url, const struct env_snapshot *snap)
{
	char key[DIGEST_STR_MAX], manifest[DIGEST_STR_MAX];

	digest_format(&snap->key.digest, key);
	digest_format(&snap->manifest, manifest);
	/* A bootseerd that does not know shared packs refuses this member, so it is only sent when
	 * true. */
	return json_pack("{s:s, s:s, s:s, s:s, s:o*}", "store", url, "folder",
			 snap->folder, "key", key, "manifest", manifest,
			 "shared_packs", snap->is_shared ? json_true() : NULL);
}

json_t *env_params_with(json_t *params, const char *key, json_t *value)
{
	if (json_object_set_new(params, key, value) == 0)
		return params;
	json_decref(params);
	return NULL;
}

static json_t *restore_params(const struct env_mount_job *job)
{
	json_t *targets = json_array();

	for (size_t i = 0; i < job->targets->n; i++)
		if (json_array_append_new(targets,
					  json_string(job->targets->paths[i])) <
		    0) {
			json_decref(targets);
			return NULL;
		}
	return env_params_with(env_snapshot_params(job->store, job->snap),
			       "targets", targets);
}

int env_pod_mount(const char *path, const struct env_mount_job *job,
		  struct error *err)
{
	json_t *params = restore_params(job);
	AUTO_CLOSE int fd = -1;
	int rc = params ? env_pod_connect(path, &fd, err)
			: error_set(err, EINVAL,
				    "no memory, or a path is not UTF-8");

	if (rc == 0)
		rc = env_pod_call(fd, "environment.restore", params, CALL_S,
				  NULL, err);
	json_decref(params);
	if (rc < 0)
		return rc;
	rc = job->check ? job->check->is_good(job->check, err) : 0;
	if (rc < 0) {
		(void)!env_pod_call(fd, "environment.drop", NULL, CALL_S, NULL,
				    NULL);
		return rc;
	}
	return env_pod_call(fd, "environment.keep", NULL, CALL_S, NULL, err);
}
