// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/control/housekeeper.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "objects/oci_hosts.h"
#include "snapshotter/node/control/disk.h"
#include "snapshotter/node/control/environment.h"
#include "snapshotter/node/control/gc.h"
#include "snapshotter/node/images/kept_logins.h"
#include "snapshotter/node/images/origin.h"
#include "snapshotter/node/node.h"
#include "snapshotter/node/offers/offers.h"
#include "snapshotter/node/starts/mounted.h"

#define ROUND_NS INT64_C(60000000000)
/* Period of looks at what has to be in the log within seconds: full disks, silent hosts. */
#define WATCH_NS INT64_C(5000000000)

struct housekeeper {
	struct node *node;
	struct loop *loop;
	struct pool *pool;
	struct loop_timer timer;
	struct work work;
	bool stopped;
	/* The watch, on the loop: */
	struct loop_timer watch;
	uint64_t n_not_kept;  /* blocks, when it was told */
	int64_t told_full_ns; /* 0: never */
	bool was_silent;      /* some registry, at the last look */
};

static void wait_round(struct housekeeper *h, int64_t delay_ns)
{
	struct error err = ERROR_INIT;

	if (!h->stopped &&
	    loop_timer_start(h->loop, &h->timer, delay_ns, &err) < 0)
		log_error("gc", "no timer reason=\"%s\"", err.msg);
}

/* Was a block of it not what its index says? */
static bool is_wrong(struct image *i)
{
	struct mounted *m = mounted_hold(i);
	struct device_stats d = { .error_at = 0 };
	bool wrong;

	if (m)
		(void)mounted_stats(m, &d);
	if (m)
		mounted_release(m);
	images_lock(i->all);
	wrong = d.error.code == EBADMSG ||
		(i->last_error_at && i->last_error.code == EBADMSG);
	images_unlock(i->all);
	return wrong;
}

/* Indexes that other nodes made: of those that are wrong no other node is to start, nor this one
 * again.  Without its signature an image is not taken from the disk any more. */
static void withdraw_wrong(struct node *n)
{
	struct error err = ERROR_INIT;
	struct image **list;
	size_t count;

	if (!n->offers || images_list(n->images, &list, &count, &err) < 0)
		return;
	for (size_t k = 0; k < count; k++) {
		AUTO_FREE char *offer = image_path(list[k], OFFER_FILE);
		AUTO_FREE char *evidence = image_path(list[k], EVIDENCE_FILE);

		if (offer && evidence && access(offer, F_OK) == 0 &&
		    is_wrong(list[k]) && unlink(evidence) == 0)
			offers_wrong(n->offers, list[k]);
	}
	images_list_free(list, count);
}

static void housekeeper_run(struct work *w)
{
	struct housekeeper *h = container_of(w, struct housekeeper, work);

	withdraw_wrong(h->node);
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

/* ------------------------------------------------------------------- watch --- */

static uint64_t free_mib(const char *dir)
{
	struct statvfs fs;

	return statvfs(dir, &fs) < 0
		       ? 0
		       : ((uint64_t)fs.f_bavail * fs.f_frsize) >> 20;
}

/* Reads go on without the cache, and get slow: nobody else would say why. */
static void tell_full_disk(struct housekeeper *h, int64_t now_ns)
{
	struct cache_stats c;

	cache_get_stats(h->node->cache, &c);
	if (c.put_failed == h->n_not_kept ||
	    (h->told_full_ns && now_ns - h->told_full_ns < ROUND_NS))
		return;
	log_warning("disk",
		    "blocks were not kept n=%" PRIu64 " root=\"%s\" "
		    "free_mib=%" PRIu64 " effect=\"they are fetched at each "
		    "read\" cure=\"make room on its disk; bootseer node doctor "
		    "has more\"",
		    c.put_failed - h->n_not_kept, h->node->cfg->root,
		    free_mib(h->node->cfg->root));
	h->n_not_kept = c.put_failed;
	h->told_full_ns = now_ns;
}

static void tell_silent(struct housekeeper *h, int64_t now_ns)
{
	struct oci_hosts *hosts = origins_hosts(h->node->origins);
	char host[OCI_HOST_ROOM];
	struct error why = ERROR_INIT;
	int64_t ns;
	bool is_silent =
		oci_hosts_get_silent(hosts, 0, now_ns, host, &ns, &why);

	if (is_silent && !h->was_silent)
		log_warning("origin",
			    "silent registry=\"%s\" for_ms=%" PRId64
			    " reason=\"%s\" effect=\"reads of what is not on "
			    "the node wait\"",
			    host, ns / NS_PER_MS, why.msg);
	h->was_silent = is_silent;
}

static void watch_again(struct housekeeper *h)
{
	struct error err = ERROR_INIT;

	if (!h->stopped &&
	    loop_timer_start(h->loop, &h->watch, WATCH_NS, &err) < 0)
		log_error("gc", "no timer reason=\"%s\"", err.msg);
}

static void housekeeper_watch(struct loop_timer *t)
{
	struct housekeeper *h = container_of(t, struct housekeeper, watch);
	int64_t now = clock_now_ns();

	tell_full_disk(h, now);
	tell_silent(h, now);
	watch_again(h);
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
	h->watch.fn = housekeeper_watch;
	watch_again(h);
	*ret = h;
	return 0;
}

void housekeeper_stop(struct housekeeper *h)
{
	if (!h)
		return;
	h->stopped = true;
	loop_timer_stop(&h->timer);
	loop_timer_stop(&h->watch);
}

void housekeeper_free(struct housekeeper *h)
{
	free(h);
}
