// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/outlets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/thread.h"
#include "net/listener.h"
#include "net/metrics_server.h"

#define RETRY_NS (2 * NS_PER_S)
#define BACKLOG 16

enum outlet_kind { OUTLET_STATUS, OUTLET_METRICS, OUTLET_HTTP, OUTLET_KINDS };

struct outlet {
	struct outlets *all;
	enum outlet_kind kind;
	char *at; /* NULL: it is not wanted */
	bool is_open;
	bool was_told; /* the log has that it is not open */
	struct listener listener;
};

struct outlets {
	struct outlets_config cfg;
	struct outlet kinds[OUTLET_KINDS];
	struct loop *loop;
	struct metrics *http;
	struct loop_timer again; /* opens what is not open */
	struct loop_call ending, ended;
	struct thread thread;
};

/* Figures fit a socket's buffer: nobody who does not read holds the others up. */
static void outlet_asked(struct listener *l, int fd,
			 const struct sockaddr_storage *from)
{
	const struct outlet *o = container_of(l, struct outlet, listener);
	const struct outlets_config *cfg = &o->all->cfg;
	AUTO_CLOSE int peer = fd;
	AUTO_BUF text = BUF_INIT;
	int rc = o->kind == OUTLET_METRICS
			 ? ckpt_mount_metrics(cfg->mount, &text)
			 : ckpt_mount_status(cfg->mount, cfg->path,
					     cfg->is_adopted, &text);

	(void)from;
	if (rc == 0)
		(void)!send(peer, text.data, text.len,
			    MSG_DONTWAIT | MSG_NOSIGNAL);
}

static int outlet_text(void *mount, struct buf *ret)
{
	return ckpt_mount_metrics(mount, ret);
}

static int outlet_open(struct outlet *o, struct error *err)
{
	struct outlets *all = o->all;
	int fd = -1, rc;

	if (o->kind == OUTLET_HTTP) {
		rc = metrics_new(all->loop, o->at, outlet_text, all->cfg.mount,
				 &all->http, err);
		if (rc == 0)
			log_info("ckpt", "metrics port=%u", outlets_port(all));
		return rc;
	}
	rc = listener_open_unix(o->at, 0600, BACKLOG, "choose another --run",
				&fd, err);
	return rc < 0 ? rc : listener_start(&o->listener, all->loop, fd, err);
}

static void tell_failure(struct outlet *o, int rc, const struct error *why)
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

/* The first that fails ends a mount that nobody uses yet. */
static int open_missing(struct outlets *all, struct error *err)
{
	bool is_missing = false;

	for (size_t i = 0; i < OUTLET_KINDS; i++) {
		struct outlet *o = &all->kinds[i];
		struct error why = ERROR_INIT;
		int rc;

		if (!o->at || o->is_open)
			continue;
		rc = outlet_open(o, &why);
		if (rc < 0 && !all->cfg.is_adopted)
			return error_set(err, -rc, "%s", why.msg);
		tell_failure(o, rc, &why);
		o->is_open = rc == 0;
		is_missing = is_missing || rc < 0;
	}
	return is_missing
		       ? loop_timer_start(all->loop, &all->again, RETRY_NS, err)
		       : 0;
}

static void outlets_retry(struct loop_timer *t)
{
	/* Memory was short for the timer: then nobody tries again. */
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

	for (enum outlet_kind k = 0; k < OUTLET_KINDS; k++)
		all->kinds[k] = (struct outlet){
			.all = all,
			.kind = k,
			.listener = { .name = "ckpt",
				      .accepted = outlet_asked },
		};
	all->again.fn = outlets_retry;
	all->kinds[OUTLET_STATUS].at = fs_join(c->run_dir, "status.sock");
	all->kinds[OUTLET_METRICS].at = fs_join(c->run_dir, "metrics.sock");
	all->kinds[OUTLET_HTTP].at = c->metrics ? strdup(c->metrics) : NULL;
	return !all->kinds[OUTLET_STATUS].at ||
			       !all->kinds[OUTLET_METRICS].at ||
			       (c->metrics && !all->kinds[OUTLET_HTTP].at)
		       ? -ENOMEM
		       : 0;
}

/* On the loop, or without its thread. */
static void stop_all(struct outlets *all)
{
	loop_timer_stop(&all->again);
	metrics_stop(all->http);
	for (size_t i = 0; i < OUTLET_KINDS; i++) {
		struct outlet *o = &all->kinds[i];

		listener_stop(&o->listener);
		if (o->is_open && o->kind != OUTLET_HTTP)
			(void)unlink(o->at);
	}
}

static void free_all(struct outlets *all)
{
	loop_free(all->loop);
	metrics_free(all->http);
	for (size_t i = 0; i < OUTLET_KINDS; i++)
		free(all->kinds[i].at);
	free(all);
}

static void outlets_ended(struct loop_call *c)
{
	loop_stop(container_of(c, struct outlets, ended)->loop);
}

/* An answer that was under way is dropped on the loop, after this and before its end. */
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
	return metrics_port(all->http);
}
