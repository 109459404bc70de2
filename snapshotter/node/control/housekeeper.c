// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/control/housekeeper.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "objects/oci_hosts.h"
#include "snapshotter/node/control/disk.h"
#include "snapshotter/node/control/environment.h"
#include "snapshotter/node/control/gc.h"
#include "snapshotter/node/control/node.h"
#include "snapshotter/node/images/kept_logins.h"
#include "snapshotter/node/images/origin.h"
#include "snapshotter/node/offers/offers.h"
#include "snapshotter/node/starts/mounted.h"

/* content of an image's file `wrong` when the service refused the withdrawal */
#define REFUSED "refused\n"
#define ROUND_NS INT64_C(60000000000)
/* Period of the watch for trouble that has to be in the log within seconds: full disks, silent
 * registries. */
#define WATCH_NS INT64_C(5000000000)

struct housekeeper {
	struct node *node;
	struct loop *loop;
	struct pool *pool;
	struct loop_timer timer;
	struct work work;
	bool stopped;
	/* The watch, on the loop's thread: */
	struct loop_timer watch;
	/* count of blocks not kept when the full disk was last logged */
	uint64_t n_not_kept;
	int64_t told_full_ns; /* when a full disk was last logged; 0: never */
	bool was_silent;      /* a registry was silent at the last look */
};

static void wait_round(struct housekeeper *h, int64_t delay_ns)
{
	struct error err = ERROR_INIT;

	if (!h->stopped &&
	    loop_timer_start(h->loop, &h->timer, delay_ns, &err) < 0)
		log_error("gc", "no timer reason=\"%s\"", err.msg);
}

/* Did a block fail its index's digest since the last call? */
static bool has_new_damage(struct image *i)
{
	struct mounted *m = mounted_hold(i);
	struct device_stats d = { .error_at = 0 };
	int64_t at = 0;
	bool is_new;

	if (m)
		(void)mounted_stats(m, &d);
	if (m)
		mounted_release(m);
	if (d.error.code == EBADMSG)
		at = d.error_at;
	images_lock(i->all);
	if (i->last_error.code == EBADMSG && i->last_error_at > at)
		at = i->last_error_at;
	is_new = at > i->judged_error_at;
	if (is_new)
		i->judged_error_at = at;
	images_unlock(i->all);
	return is_new;
}

/*
 * Blocks did not match the index: remove its signature, so that no start takes the index from
 * the disk any more.  If this node's disk damaged the copy, the next start asks for it again;
 * if the copy is as it was signed, the index is wrong for all nodes.
 */
static int drop_index_evidence(struct image *i, const char *evidence,
			       const char *wrong, struct error *err)
{
	int rc = offer_file_check(i->dir, &i->artifact, err);

	if (rc == -EBADMSG)
		log_warning("index",
			    "damaged on this node's disk image=\"%s/%s\" "
			    "action=\"the next start asks the service for it\"",
			    i->state.host, i->state.repo);
	else if (rc == 0)
		rc = fs_replace_file(wrong, "", 0, 0600, err);
	else
		return rc;
	if (rc == 0 || rc == -EBADMSG)
		rc = unlink(evidence) < 0 ? -errno : 0;
	return rc;
}

/* Report a wrong index to the service; if that fails, the next round tries again. */
static void withdraw_index(struct node *n, struct image *i, const char *wrong)
{
	struct error err = ERROR_INIT;
	int rc = offers_withdraw(n->offers, i, &err);

	if (rc == -EACCES &&
	    fs_replace_file(wrong, REFUSED, strlen(REFUSED), 0600, &err) == 0) {
		log_warning("index",
			    "not withdrawn image=\"%s/%s\" reason=\"the "
			    "service lets this node withdraw none\" "
			    "cure=\"DELETE /v1/indexes there\"",
			    i->state.host, i->state.repo);
		return;
	}
	if (rc < 0) {
		log_warning("index",
			    "not withdrawn image=\"%s/%s\" reason=\"%s\" "
			    "action=\"tried again in a minute\"",
			    i->state.host, i->state.repo, err.msg);
		return;
	}
	(void)unlink(wrong);
	log_warning("index",
		    "withdrawn image=\"%s/%s\" reason=\"it is not what the "
		    "layers hold\"",
		    i->state.host, i->state.repo);
}

/* Withdraw indexes that other nodes made and that proved wrong. */
static void judge_indexes(struct node *n)
{
	struct error err = ERROR_INIT;
	struct image **list;
	size_t count;

	if (!n->offers || images_list(n->images, &list, &count, &err) < 0)
		return;
	for (size_t k = 0; k < count && !atomic_load(&n->is_ending); k++) {
		AUTO_FREE char *offer = image_path(list[k], OFFER_FILE);
		AUTO_FREE char *evidence = image_path(list[k], EVIDENCE_FILE);
		AUTO_FREE char *wrong = image_path(list[k], WRONG_FILE);
		struct stat st;

		if (!offer || !evidence || !wrong || access(offer, F_OK) < 0)
			continue;
		if (has_new_damage(list[k]) && access(evidence, F_OK) == 0 &&
		    drop_index_evidence(list[k], evidence, wrong, &err) < 0)
			log_error("index",
				  "not judged image=\"%s/%s\" reason=\"%s\"",
				  list[k]->state.host, list[k]->state.repo,
				  err.msg);
		/* A file with text marks a withdrawal that the service refused; do not try that
		 * again. */
		if (stat(wrong, &st) == 0 && st.st_size == 0)
			withdraw_index(n, list[k], wrong);
	}
	images_list_free(list, count);
}

static void housekeeper_run(struct work *w)
{
	struct housekeeper *h = container_of(w, struct housekeeper, work);

	gc_old(&h->node->gc, time(NULL));
	environments_collect(&h->node->environments, time(NULL));
	kept_logins_collect(h->node->logins, h->node->images);
	disk_refresh(h->node->disk);
	disk_give_way(h->node->disk);
	/* This step is the last because it waits for the service. */
	judge_indexes(h->node);
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

/* ----------------------------------------------------------- --- the watch --- */

static uint64_t free_mib(const char *dir)
{
	struct statvfs fs;

	return statvfs(dir, &fs) < 0
		       ? 0
		       : ((uint64_t)fs.f_bavail * fs.f_frsize) >> 20;
}

/* Log that blocks cannot be kept on a full disk: reads go on without the cache but are slow,
 * and nothing else would say why. */
static void log_full_disk(struct housekeeper *h, int64_t now_ns)
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

static void housekeeper_log_silence(struct housekeeper *h, int64_t now_ns)
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

	log_full_disk(h, now);
	housekeeper_log_silence(h, now);
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
