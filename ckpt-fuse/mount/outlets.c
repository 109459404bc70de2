// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/outlets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/thread.h"
#include "net/control_server.h"

#define RETRY_NS (2 * NS_PER_S)
#define QUEUE_MAX 64
#define SOCKET_NAME "mount.sock"

enum outlet_kind { OUTLET_SOCKET, OUTLET_HTTP, OUTLET_KINDS };

struct outlet {
	char *at;                      /* NULL: not configured */
	struct control_server *server; /* NULL: not open */
	bool was_told;                 /* the failure to open it was logged */
};

struct outlets {
	struct outlets_config cfg;
	struct outlet kinds[OUTLET_KINDS];
	struct loop *loop;
	/* one thread, because collecting the figures may take long */
	struct pool *pool;
	struct loop_timer again; /* retries outlets that are not open */
	struct loop_call ending, ended;
	struct thread thread;
};

static int outlet_metrics(void *mount, struct buf *ret)
{
	return ckpt_mount_metrics(mount, ret);
}

/* Over the network only metrics are given: the status shows the mount's path and store. */
static int outlet_answer(void *arg, struct control_call *call,
			 struct buf *reply)
{
	const struct outlets_config *cfg = &((const struct outlets *)arg)->cfg;

	if (strcmp(call->path, "/status") == 0 && call->peer)
		return ckpt_mount_status(cfg->mount, cfg->path, cfg->is_adopted,
					 reply) < 0
			       ? -ENOMEM
			       : HTTPD_OK;
	return control_figures(call, outlet_metrics, cfg->mount, reply);
}

static int outlet_open(struct outlets *all, enum outlet_kind kind,
		       struct error *err)
{
	struct outlet *o = &all->kinds[kind];
	const struct control_server_config cfg = {
		.name = "ckpt",
		.path = kind == OUTLET_SOCKET ? o->at : NULL,
		.listen = kind == OUTLET_HTTP ? o->at : NULL,
		.option = kind == OUTLET_HTTP ? "--metrics"
					      : "choose another --run",
		.loop = all->loop,
		.pools = { all->pool },
		.answer = outlet_answer,
		.arg = all,
	};
	int rc = control_server_new(&cfg, &o->server, err);

	if (rc == 0 && kind == OUTLET_HTTP)
		log_info("ckpt", "metrics port=%u", outlets_port(all));
	return rc;
}

static void log_outlet_state(struct outlet *o, int rc, const struct error *why)
{
	if (rc == 0 && o->was_told)
		log_info("ckpt", "figures are told again at=\"%s\"", o->at);
	if (rc < 0 && !o->was_told)
		log_warning("ckpt",
			    "figures are not told, and the mount goes on: this "
			    "is tried again at=\"%s\" reason=\"%s\"",
			    o->at, why->msg);
	o->was_told = rc < 0;
}

/* Open the missing outlets. A failure ends a new mount, which is not in use yet. */
static int open_missing(struct outlets *all, struct error *err)
{
	bool is_missing = false;

	for (size_t i = 0; i < OUTLET_KINDS; i++) {
		struct outlet *o = &all->kinds[i];
		struct error why = ERROR_INIT;
		int rc;

		if (!o->at || o->server)
			continue;
		rc = outlet_open(all, i, &why);
		if (rc < 0 && !all->cfg.is_adopted)
			return error_set(err, -rc, "%s", why.msg);
		log_outlet_state(o, rc, &why);
		is_missing = is_missing || rc < 0;
	}
	return is_missing
		       ? loop_timer_start(all->loop, &all->again, RETRY_NS, err)
		       : 0;
}

static void outlets_retry(struct loop_timer *t)
{
	/* If memory is too short to set the timer, there is no further attempt. */
	(void)!open_missing(container_of(t, struct outlets, again), NULL);
}

static void *outlets_main(void *arg)
{
	struct outlets *all = arg;
	struct error err = ERROR_INIT;

	if (loop_run(all->loop, &err) < 0)
		log_warning("ckpt", "figures are told no more reason=\"%s\"",
			    err.msg);
	return NULL;
}

static int init_kinds(struct outlets *all)
{
	const struct ckpt_mount_config *c = all->cfg.mount->cfg;
	char **at = &all->kinds[OUTLET_HTTP].at;

	all->again.fn = outlets_retry;
	all->kinds[OUTLET_SOCKET].at = fs_join(c->run_dir, SOCKET_NAME);
	*at = c->metrics ? strdup(c->metrics) : NULL;
	return !all->kinds[OUTLET_SOCKET].at || (c->metrics && !*at) ? -ENOMEM
								     : 0;
}

/* Stop all. Call on the loop thread, or when that does not run. */
static void stop_all(struct outlets *all)
{
	loop_timer_stop(&all->again);
	for (size_t i = 0; i < OUTLET_KINDS; i++)
		if (all->kinds[i].server)
			control_server_stop(all->kinds[i].server);
	pool_free(steal_ptr(&all->pool));
}

static void free_all(struct outlets *all)
{
	loop_free(all->loop);
	for (size_t i = 0; i < OUTLET_KINDS; i++) {
		control_server_free(all->kinds[i].server);
		free(all->kinds[i].at);
	}
	free(all);
}

static void outlets_ended(struct loop_call *c)
{
	loop_stop(container_of(c, struct outlets, ended)->loop);
}

/* End the loop. A running answer is dropped on the loop after this call and before its end. */
static void outlets_end(struct loop_call *c)
{
	struct outlets *all = container_of(c, struct outlets, ending);

	stop_all(all);
	all->ended.fn = outlets_ended;
	loop_post(all->loop, &all->ended);
}

int outlets_new(const struct outlets_config *cfg, struct outlets **ret,
		struct error *err)
{
	struct outlets *all = calloc(1, sizeof(*all));
	int rc;

	if (!all)
		return error_nomem(err);
	all->cfg = *cfg;
	rc = init_kinds(all) < 0 ? error_nomem(err) : 0;
	if (rc == 0)
		rc = loop_new(&all->loop, err);
	if (rc == 0)
		rc = pool_new(all->loop, 1, QUEUE_MAX, &all->pool, err);
	if (rc == 0)
		rc = open_missing(all, err);
	if (rc == 0)
		rc = thread_start(&all->thread, outlets_main, all, err);
	if (rc == 0) {
		*ret = all;
		return 0;
	}
	stop_all(all);
	free_all(all);
	return rc;
}

void outlets_free(struct outlets *all)
{
	if (!all)
		return;
	all->ending.fn = outlets_end;
	loop_post(all->loop, &all->ending);
	thread_join(&all->thread);
	free_all(all);
}

unsigned int outlets_port(const struct outlets *all)
{
	return control_server_port(all->kinds[OUTLET_HTTP].server);
}
