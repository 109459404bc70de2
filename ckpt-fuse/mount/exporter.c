// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/exporter.h"

#include <stdlib.h>

#include "common/log.h"
#include "common/thread.h"
#include "net/metrics_server.h"

struct exporter {
	struct loop *loop;
	struct metrics *metrics;
	struct loop_call ending, ended;
	struct thread thread;
};

static int exporter_text(void *arg, struct buf *ret)
{
	return ckpt_mount_metrics(arg, ret);
}

static void *exporter_main(void *arg)
{
	struct exporter *e = arg;
	struct error err = ERROR_INIT;

	if (loop_run(e->loop, &err) < 0)
		log_warning("ckpt", "metrics have ended reason=\"%s\"",
			    err.msg);
	return NULL;
}

static void exporter_ended(struct loop_call *c)
{
	loop_stop(container_of(c, struct exporter, ended)->loop);
}

/* An answer that was under way is dropped on the loop, after this and before its end. */
static void exporter_end(struct loop_call *c)
{
	struct exporter *e = container_of(c, struct exporter, ending);

	metrics_stop(e->metrics);
	e->ended.fn = exporter_ended;
	loop_post(e->loop, &e->ended);
}

static void free_parts(struct exporter *e)
{
	loop_free(e->loop);
	metrics_free(e->metrics);
	free(e);
}

int exporter_new(const char *at, struct ckpt_mount *m, struct exporter **ret,
		 struct error *err)
{
	struct exporter *e = calloc(1, sizeof(*e));
	int rc;

	if (!e)
		return error_nomem(err);
	rc = loop_new(&e->loop, err);
	if (rc == 0)
		rc = metrics_new(e->loop, at, exporter_text, m, &e->metrics,
				 err);
	if (rc == 0) {
		log_info("ckpt", "metrics port=%u", metrics_port(e->metrics));
		rc = thread_start(&e->thread, exporter_main, e, err);
		if (rc < 0)
			metrics_stop(e->metrics);
	}
	if (rc < 0)
		free_parts(e);
	else
		*ret = e;
	return rc;
}

unsigned int exporter_port(const struct exporter *e)
{
	return metrics_port(e->metrics);
}

void exporter_free(struct exporter *e)
{
	if (!e)
		return;
	e->ending.fn = exporter_end;
	loop_post(e->loop, &e->ending);
	thread_join(&e->thread);
	free_parts(e);
}
