// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/control/ready_server.h"

#include "common/log.h"
#include "common/thread.h"
#include "net/control_server.h"
#include "net/places.h"
#include "snapshotter/node/control/control.h"
#include "snapshotter/node/control/node.h"
#include "snapshotter/node/starts/starts.h"

#define READY_NAME "ready.sock"

struct ready_server {
	struct loop *loop;
	struct pool *pool;
	struct control_server *server;
	struct thread thread;
};

static int ready_answer(void *arg, struct control_call *call, struct buf *reply)
{
	call->type = "text/plain";
	return node_ready(arg, call, reply);
}

/* Group connections by container, so that a container that floods the socket takes the share of
 * one container only. */
static uint64_t container_group_of_peer(const struct httpd_peer *peer)
{
	AUTO_BUF cgroups = BUF_INIT;

	return process_cgroups(peer->pid, peer->pidfd, &cgroups, NULL) < 0
		       ? 0
		       : places_group(cgroups.data);
}

static void stop_ready_server(struct ready_server *s)
{
	if (s->server)
		control_server_stop(s->server);
	pool_free(s->pool);
	loop_free(s->loop);
	control_server_free(s->server);
}

/* The thread also closes the server: closing connections that strangers left may take a while. */
static void *ready_main(void *arg)
{
	struct ready_server *s = arg;
	struct error err = ERROR_INIT;

	if (loop_run(s->loop, &err) < 0)
		log_error("control", "no container is heard reason=\"%s\"",
			  err.msg);
	stop_ready_server(s);
	return NULL;
}

static int serve_ready(struct ready_server *s, struct node *n,
		       struct error *err)
{
	AUTO_FREE char *path = NULL;
	struct control_server_config cfg = {
		.name = "ready",
		.option = "choose another --run",
		.group = container_group_of_peer,
		.answer = ready_answer,
		.arg = n,
	};
	int rc;

	if (asprintf(&path, "%s/" READY_NAME, n->cfg->run) < 0) {
		path = NULL;
		return error_nomem(err);
	}
	cfg.path = path;
	rc = loop_new(&s->loop, err);
	if (rc == 0)
		rc = pool_new(s->loop, 1, CONTROL_CONNECTIONS_MAX, &s->pool,
			      err);
	cfg.loop = s->loop;
	cfg.pools[CONTROL_QUICK] = s->pool;
	return rc < 0 ? rc : control_server_new(&cfg, &s->server, err);
}

int ready_server_start(struct node *n, struct ready_server **ret,
		       struct error *err)
{
	struct ready_server *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return error_nomem(err);
	rc = serve_ready(s, n, err);
	if (rc == 0)
		rc = thread_start(&s->thread, ready_main, s, err);
	if (rc < 0) {
		stop_ready_server(s);
		free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

void ready_server_stop(struct ready_server *s)
{
	if (!s)
		return;
	loop_stop(s->loop);
	thread_join(&s->thread);
	free(s);
}
