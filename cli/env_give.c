// SPDX-License-Identifier: Apache-2.0
/*
 * Blocks for unpacking an environment. bootseerd writes requested blocks into a file, which root
 * reads directly; a container gets the bytes from `env socket`, which sends its requests to
 * bootseerd.
 */
#include "cli/env_give.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/env_pod.h"
#include "cli/node_ask.h"
#include "common/fs.h"
#include "net/control.h"

#define OPEN_MS 60000
#define LEAVE_MS 10000
/* seconds for a reply; then the blocks are read from the store instead */
#define READ_S 30
#define ROOM 65536
/* the metadata file, the map and the file of blocks, in this order */
#define FILES 3

struct env_give {
	struct env_giver base;
	struct node_client *node; /* connection to bootseerd, or NULL: the
	                           * next member is used */
	int pod;
	int blocks; /* file of blocks, for root; -1: the socket brings them */
	char name[ENV_MOUNT_NAME_ROOM]; /* bootseerd's mount, for root; "":
	                                 * none */
	char *socket;                   /* bootseerd's socket; may be NULL */
};

/* ------------------------------------------------------------------------ bytes --- */

/* Send the content, not a descriptor: a container's root could reopen a node's file for writing
 * through it, or keep its disk space occupied. */
static int send_bytes(int fd, int file, uint64_t size, struct error *err)
{
	off_t at = 0;

	while ((uint64_t)at < size) {
		ssize_t n =
			sendfile(fd, file, &at, (size_t)(size - (uint64_t)at));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return error_set(err, n < 0 ? errno : EIO,
					 "send bytes: %s",
					 n < 0 ? strerror(errno) : "too few");
	}
	return 0;
}

static int receive_bytes(int fd, void *buf, size_t len, struct error *err)
{
	char *to = buf;

	while (len > 0) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int rc = poll(&p, 1, READ_S * 1000);
		ssize_t n = rc > 0 ? recv(fd, to, len, MSG_DONTWAIT) : -1;

		if (rc < 0 && errno == EINTR)
			continue;
		if (rc == 0)
			return error_set(err, ETIMEDOUT, "no bytes come");
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0)
			return error_set(err, n < 0 ? errno : ECONNRESET,
					 "the other end left");
		to += n;
		len -= (size_t)n;
	}
	return 0;
}

/* Receive a file's content into an anonymous file of this process. */
static int receive_file(int fd, const json_t *size, int *ret, struct error *err)
{
	json_int_t len = json_is_integer(size) ? json_integer_value(size) : -1;
	AUTO_CLOSE int file = memfd_create("bootseer-env", MFD_CLOEXEC);
	AUTO_FREE char *room = malloc(ROOM);
	int rc = 0;

	if (len < 0 || file < 0 || !room)
		return error_set(err, EPROTO, "no size is said, or no memory");
	for (json_int_t at = 0; rc == 0 && at < len; at += ROOM) {
		size_t n = len - at < ROOM ? (size_t)(len - at) : ROOM;

		rc = receive_bytes(fd, room, n, err);
		if (rc == 0 && fs_pwrite_full(file, room, n, (uint64_t)at) < 0)
			rc = error_nomem(err);
	}
	if (rc == 0)
		*ret = steal_fd(&file);
	return rc;
}

static void close_files(int files[FILES])
{
	for (size_t k = 0; k < FILES; k++)
		if (files[k] >= 0)
			(void)close(steal_fd(&files[k]));
}

/* Open the files that bootseerd's reply names. */
static int open_files(const json_t *reply, int ret[FILES], struct error *err)
{
	static const char *const keys[FILES] = { "meta", "map", "blocks" };

	for (size_t k = 0; k < FILES; k++) {
		const char *path =
			json_string_value(json_object_get(reply, keys[k]));

		if (!path)
			return error_set(err, EPROTO,
					 "bootseerd names no file '%s'",
					 keys[k]);
		ret[k] = open(path,
			      O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if (ret[k] < 0)
			return error_errno(err, errno, "open '%.200s'", path);
	}
	return 0;
}

/* -------------------------------------------------------------------- questions --- */

static json_t *ranges_json(const struct env_range *e, size_t n)
{
	json_t *list = json_array();

	for (size_t k = 0; k < n; k++)
		if (json_array_append_new(list,
					  json_integer((json_int_t)e[k].off)) <
			    0 ||
		    json_array_append_new(list,
					  json_integer((json_int_t)e[k].len)) <
			    0) {
			json_decref(list);
			return NULL;
		}
	return list;
}

static int ask_ranges(struct env_give *g, json_t *at, struct error *err)
{
	json_t *params = json_pack("{s:s*, s:o}", "name",
				   g->node ? g->name : NULL, "at", at);
	int rc;

	if (g->node)
		return node_ask_on(g->node, "environment.read", params, NULL,
				   err);
	rc = params ? env_pod_call(g->pod, "environment.read", params, READ_S,
				   NULL, err)
		    : error_nomem(err);
	json_decref(params);
	return rc;
}

static int env_give_some(struct env_giver *base, const struct env_range *e,
			 size_t n, void *buf, struct error *err)
{
	struct env_give *g = container_of(base, struct env_give, base);
	json_t *at = ranges_json(e, n);
	size_t len = 0;
	int rc = at ? ask_ranges(g, at, err) : error_nomem(err);

	for (size_t k = 0; k < n; k++)
		len += e[k].len;
	if (rc < 0 || g->pod >= 0)
		return rc < 0 ? rc : receive_bytes(g->pod, buf, len, err);
	rc = fs_pread_full(g->blocks, buf, len, 0);
	return rc < 0 ? error_errno(err, -rc, "read what was given") : 0;
}

/* ------------------------------------------------------------------ open and close --- */

/* Tell bootseerd to close the environment, over a new connection, as the old one may have failed.
 * Errors do not matter: bootseerd also notices by itself. */
static void close_node_environment(struct env_give *g)
{
	struct error ignored = ERROR_INIT;
	struct node_client *c = NULL;

	if (env_node_connect(g->socket, LEAVE_MS, &c, &ignored) == 0)
		(void)!node_ask_on(c, "environment.umount",
				   json_pack("{s:s}", "name", g->name), NULL,
				   NULL);
	node_client_close(c);
}

static int open_node(struct env_give *g, const struct env_mount_job *job,
		     int files[FILES], struct error *err)
{
	AUTO_JSON *reply = NULL;
	struct node_client *c = NULL;
	int rc = env_node_connect(job->socket, OPEN_MS, &c, err);

	if (rc == 0 && job->socket && !(g->socket = strdup(job->socket)))
		rc = error_nomem(err);
	if (rc == 0)
		rc = env_mount_choose_name(g->name, err);
	if (rc == 0)
		rc = node_ask_on(c, "environment.open",
				 env_params_with(env_snapshot_params(job->store,
								     job->snap),
						 "name", json_string(g->name)),
				 &reply, err);
	node_client_close(c);
	if (rc == 0)
		rc = env_node_connect(job->socket, READ_S * 1000, &g->node,
				      err);
	return rc < 0 ? rc : open_files(reply, files, err);
}

static int open_pod(struct env_give *g, const char *path,
		    const struct env_mount_job *job, int files[FILES],
		    struct error *err)
{
	json_t *params = env_snapshot_params(job->store, job->snap);
	AUTO_JSON *reply = NULL;
	int rc = params ? env_pod_connect(path, &g->pod, err)
			: error_set(err, EINVAL,
				    "no memory, or a path is not UTF-8");

	if (rc == 0)
		rc = env_pod_call(g->pod, "environment.open", params,
				  OPEN_MS / 1000, &reply, err);
	json_decref(params);
	if (rc == 0)
		rc = receive_file(g->pod, json_object_get(reply, "meta"),
				  &files[0], err);
	return rc < 0 ? rc
		      : receive_file(g->pod, json_object_get(reply, "map"),
				     &files[1], err);
}

void env_give_close(struct env_giver *base)
{
	struct env_give *g;

	if (!base)
		return;
	g = container_of(base, struct env_give, base);
	node_client_close(g->node);
	if (*g->name)
		close_node_environment(g);
	free(g->socket);
	fd_close(g->pod);
	close_files((int[FILES]){ g->base.meta, g->base.map, g->blocks });
	free(g);
}

int env_give_open(const struct env_mount_job *job, struct env_giver **ret,
		  struct error *err)
{
	const char *pod = job->socket ? NULL : env_pod_socket();
	struct env_give *g = calloc(1, sizeof(*g));
	int files[FILES] = { -1, -1, -1 };
	int rc;

	if (!g)
		return error_nomem(err);
	g->base.give = env_give_some;
	g->pod = -1;
	rc = pod ? open_pod(g, pod, job, files, err)
		 : open_node(g, job, files, err);
	g->base.meta = files[0];
	g->base.map = files[1];
	g->blocks = files[2];
	if (rc < 0) {
		env_give_close(&g->base);
		return rc;
	}
	*ret = &g->base;
	return 0;
}

int env_give_order(const struct env_mount_job *job, struct error *err)
{
	struct env_giver *g = NULL;
	int rc = env_give_open(job, &g, err);

	/* With the name cleared, closing does not end it: bootseerd ends it when no reads come. */
	if (rc == 0)
		container_of(g, struct env_give, base)->name[0] = '\0';
	env_give_close(g);
	return rc;
}

/* --------------------------------------------------------------------- for a pod --- */

static uint64_t sum_range_lengths(const json_t *at)
{
	uint64_t sum = 0;

	for (size_t k = 1; k < json_array_size(at); k += 2)
		sum += (uint64_t)json_integer_value(json_array_get(at, k));
	return sum;
}

/* Answer one request of the container.  -ECONNRESET: it closed the connection. */
static int answer_range_request(const struct node_options *node, int fd,
				int blocks, const char *name,
				unsigned int seconds, struct error *err)
{
	AUTO_FINI(control_request) r = { .root = NULL };
	json_t *at = NULL;
	AUTO_BUF line = BUF_INIT;
	int rc;

	/* alarm() ends this process if the container stays silent; bootseerd then closes the
	 * environment. */
	(void)alarm(2 * seconds);
	rc = env_pod_read(fd, seconds, &line, err);
	if (rc < 0)
		return rc;
	rc = control_request_parse(line.data, line.len - 1, &r, err);
	if (rc == 0 && strcmp(r.method, "environment.read") != 0)
		rc = error_set(err, ENOSYS,
			       "after environment.open only environment.read "
			       "is answered");
	if (rc == 0 &&
	    json_unpack_ex(r.params, NULL, JSON_STRICT, "{s:o}", "at", &at) < 0)
		rc = error_set(err, EINVAL, "parameters: at, and nothing else");
	if (rc == 0)
		rc = node_ask(node, "environment.read",
			      json_pack("{s:s, s:O}", "name", name, "at", at),
			      NULL, err);
	if (rc == 0)
		rc = env_pod_reply(fd, NULL, err);
	if (rc == 0)
		rc = send_bytes(fd, blocks, sum_range_lengths(at), err);
	return rc;
}

/* Send the sizes, then the content of metadata and map. */
static int send_metadata(int fd, const int files[FILES], struct error *err)
{
	AUTO_JSON *sizes = NULL;
	struct stat meta, map;
	int rc;

	if (fstat(files[0], &meta) < 0 || fstat(files[1], &map) < 0)
		return error_errno(err, errno, "metadata");
	sizes = json_pack("{s:I, s:I}", "meta", (json_int_t)meta.st_size, "map",
			  (json_int_t)map.st_size);
	rc = env_pod_reply(fd, sizes, err);
	if (rc == 0)
		rc = send_bytes(fd, files[0], (uint64_t)meta.st_size, err);
	return rc < 0 ? rc
		      : send_bytes(fd, files[1], (uint64_t)map.st_size, err);
}

int env_give_serve(const struct node_options *node, int fd, json_t *params,
		   unsigned int seconds, struct error *err)
{
	AUTO_JSON *name = json_incref(json_object_get(params, "name"));
	AUTO_JSON *reply = NULL;
	int files[FILES] = { -1, -1, -1 };
	int rc;

	/* sendfile(2) has no flag against SIGPIPE. */
	(void)signal(SIGPIPE, SIG_IGN);
	rc = node_ask(node, "environment.open", params, &reply, err);
	if (rc == 0)
		rc = open_files(reply, files, err);
	if (rc == 0)
		rc = send_metadata(fd, files, err);
	while (rc == 0)
		rc = answer_range_request(node, fd, files[2],
					  json_string_value(name), seconds,
					  err);
	close_files(files);
	return rc;
}
