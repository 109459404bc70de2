// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/control/housekeeper.h"

#include <time.h>

#include "common/log.h"
#include "snapshotter/node/control/disk.h"
#include "snapshotter/node/control/environment.h"
#include "snapshotter/node/control/gc.h"
#include "snapshotter/node/images/kept_logins.h"
#include "snapshotter/node/node.h"

#define ROUND_NS INT64_C(60000000000)

struct housekeeper {
	struct node *node;
	struct loop *loop;
	struct pool *pool;
	struct loop_timer timer;
	struct work work;
	bool stopped;
};

static void wait_round(struct housekeeper *h, int64_t delay_ns)
{
	struct error err = ERROR_INIT;

	if (!h->stopped &&
	    loop_timer_start(h->loop, &h->timer, delay_ns, &err) < 0)
		log_error("gc", "no timer reason=\"%s\"", err.msg);
}

static void housekeeper_run(struct work *w)
{
	struct housekeeper *h = container_of(w, struct housekeeper, work);

	node_collect_old(h->node, time(NULL));
	environments_collect(h->node, time(NULL));
	kept_logins_collect(h->node->logins, h->node->images);
	disk_refresh(h->node->disk);
	disk_give_way(h->node->disk);
}

static void housekeeper_done(struct work *w)
{
	wait_round(container_of(w, struct housekeeper, work), ROUND_NS);
}

static void housekeeper_tick(struct loop_timer *t)
{
	struct housekeeper *h = container_of(t, struct housekeeper, timer);

	if (pool_submit(h->pool, &h->work) < 0)
		wait_round(h, ROUND_NS);
}

int housekeeper_start(struct node *n, struct loop *loop, struct pool *pool,
		      struct housekeeper **ret, struct error *err)
{
	struct housekeeper *h = calloc(1, sizeof(*h));
	int rc;

	if (!h)
		return error_nomem(err);
	h->node = n;
	h->loop = loop;
	h->pool = pool;
	h->timer.fn = housekeeper_tick;
	h->work.run = housekeeper_run;
	h->work.done = housekeeper_done;
	rc = loop_timer_start(loop, &h->timer, 0, err);
	if (rc < 0) {
		free(h);
		return rc;
	}
	*ret = h;
	return 0;
}

void housekeeper_stop(struct housekeeper *h)
{
	if (!h)
		return;
	h->stopped = true;
	loop_timer_stop(&h->timer);
}

void housekeeper_free(struct housekeeper *h)
{
	free(h);
}
