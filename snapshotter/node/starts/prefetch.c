// SPDX-License-Identifier: Apache-2.0
/* The prefetches of the node's images, and the notes of them on disk. */
#include "snapshotter/node/starts/prefetch.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "snapshotter/node/peers/image_swarm.h"
#include "snapshotter/node/starts/hot_file.h"
#include "snapshotter/node/starts/mounted.h"
#include "snapshotter/node/starts/pressure.h"
#include "snapshotter/node/constants.h"

#define LOOK_NS (NS_PER_S / 20) /* period of checks of a pace */
/* The disk and /proc are read at most once in this time. */
#define PRESSURE_EVERY_NS (NS_PER_S / 2)
/* The prefetch of the rest takes link and CPU from a start: it goes on when no reader and no
 * start was there for SETTLE_NS, or after it has waited for SETTLE_MAX_NS. */
#define SETTLE_NS (2 * NS_PER_S)
#define SETTLE_MAX_NS (120 * NS_PER_S)

struct prefetches {
	struct prefetches_of of;
	struct prefetcher *prefetcher;
	/* Held while starts are asked which blocks they have read; when it is free, `starts`
	 * may be cleared and closed. */
	pthread_mutex_t asking;
	struct starts *starts; /* under `asking` */
	/* under `asking`; NULL: there are no starts to ask */
	starts_reads_fn *reads;
	pthread_mutex_t lock; /* protects the members below */
	struct pressure_facts facts;
	int64_t looked_ns;
	bool was_short; /* pressure was logged, and its end not yet */
	struct prefetch_sums past;
};

/* The prefetch of an image. */
struct image_prefetch {
	struct prefetches *all;
	struct image *image;   /* a use */
	struct mounted *files; /* block map and device, not mounted */
	struct prefetch *prefetch;
	unsigned int refs; /* under images_lock() */
	/* Held while the note on disk is made to fit what is asked for. */
	pthread_mutex_t noting;
	/* under `noting`: it is under way only for an environment that is unpacked */
	bool is_to_unpack;
};

/* -------------------------------------------------------------- pressure --- */

static void gather_facts(const struct prefetches *all,
			 struct pressure_facts *ret)
{
	pressure_gather(all->of.cfg->root, all->of.min_free,
			all->of.opens.cache, ret);
}

static struct pressure_facts get_pressure_facts(struct prefetches *all)
{
	struct pressure_facts facts;
	bool is_old;

	(void)pthread_mutex_lock(&all->lock);
	facts = all->facts;
	is_old = clock_now_ns() - all->looked_ns >= PRESSURE_EVERY_NS;
	/* A single thread reads the facts again; others take the older ones meanwhile. */
	if (is_old)
		all->looked_ns = clock_now_ns();
	(void)pthread_mutex_unlock(&all->lock);
	if (!is_old)
		return facts;
	gather_facts(all, &facts);
	(void)pthread_mutex_lock(&all->lock);
	all->facts = facts;
	(void)pthread_mutex_unlock(&all->lock);
	return facts;
}

static bool is_under_pressure(void *arg, struct error *why)
{
	struct prefetches *all = arg;
	struct pressure_facts facts = get_pressure_facts(all);
	bool is_short = pressure_judge(&facts, why), changed;

	(void)pthread_mutex_lock(&all->lock);
	changed = all->was_short != is_short;
	all->was_short = is_short;
	(void)pthread_mutex_unlock(&all->lock);
	if (changed && is_short)
		log_warning("prefetch", "paused reason=\"%s\"", why->msg);
	else if (changed)
		log_info("prefetch", "goes on");
	return is_short;
}

static uint64_t disk_room(void *arg)
{
	struct pressure_facts facts = get_pressure_facts(arg);

	return pressure_room(&facts);
}

static int64_t network_idle_ns(void *arg)
{
	const struct prefetches *all = arg;

	/* While a container is not ready, bulk waits: the container may wait for data that
	 * other programs fetch over the same link, above all a checkpoint. */
	return *all->of.n_unready ? PREFETCH_HELD
				  : fetcher_idle_ns(all->of.opens.fetcher);
}

/* -------------------------------------------------------- open and close --- */

int node_prefetch_open(const struct prefetches_of *of, struct prefetches **ret,
		       struct error *err)
{
	struct prefetches *all = calloc(1, sizeof(*all));
	struct prefetcher_config p = {
		.limits = { .hot_streams = NODE_HOT_STREAMS,
			    .cold_streams = NODE_COLD_STREAMS,
			    .cold_rate = of->cfg->cold_rate,
			    .gap = NODE_HOT_GAP,
			    .hot_range = NODE_HOT_RANGE,
			    .hot_grown = NODE_HOT_GROWN,
			    .cold_range = NODE_COLD_RANGE,
			    .settle_ns = SETTLE_NS,
			    .settle_max_ns = SETTLE_MAX_NS,
			    .retry_ns = NODE_PREFETCH_RETRY_NS },
		.pressure = is_under_pressure,
		.room = disk_room,
		.idle_ns = network_idle_ns,
		.arg = all,
	};
	int rc;

	if (!all)
		return error_nomem(err);
	all->of = *of;
	all->looked_ns = clock_now_ns();
	gather_facts(all, &all->facts);
	(void)pthread_mutex_init(&all->lock, NULL);
	(void)pthread_mutex_init(&all->asking, NULL);
	rc = prefetcher_new(&p, &all->prefetcher, err);
	if (rc < 0) {
		(void)pthread_mutex_destroy(&all->lock);
		(void)pthread_mutex_destroy(&all->asking);
		free(all);
		return rc;
	}
	*ret = all;
	return 0;
}

void node_prefetch_ask_starts(struct prefetches *all, struct starts *s,
			      starts_reads_fn *reads)
{
	(void)pthread_mutex_lock(&all->asking);
	all->starts = s;
	all->reads = reads;
	(void)pthread_mutex_unlock(&all->asking);
}

void node_prefetch_close(struct prefetches *all)
{
	struct image **list;
	size_t len, k;

	if (!all)
		return;
	if (images_list(all->of.images, &list, &len, NULL) == 0) {
		for (k = 0; k < len; k++)
			node_prefetch_drop(list[k]);
		images_list_free(list, len);
	}
	prefetcher_free(all->prefetcher);
	(void)pthread_mutex_destroy(&all->lock);
	(void)pthread_mutex_destroy(&all->asking);
	free(all);
}

/* ----------------------------------------- --- the prefetch of one image --- */

static void add_sums(struct prefetch_sums *sums, struct image_prefetch *ip)
{
	struct prefetch_stats s;
	struct device_stats d;

	prefetch_get_stats(ip->prefetch, &s);
	device_get_stats(ip->files->device, &d);
	sums->under_way += s.phase == PREFETCH_HOT || s.phase == PREFETCH_COLD;
	sums->hot_bytes += s.hot_fetched_bytes;
	sums->cold_bytes += s.cold_fetched_bytes;
	sums->hot_blocks += s.hot_fetched_blocks;
	sums->cold_blocks += s.cold_fetched_blocks;
	sums->pauses += s.pauses;
	sums->failures += s.failures;
	sums->fetches += d.fetches;
	sums->fetched_bytes += d.fetched_bytes;
}

static void merge_sums(struct prefetch_sums *to, const struct prefetch_sums *s)
{
	to->hot_bytes += s->hot_bytes;
	to->cold_bytes += s->cold_bytes;
	to->hot_blocks += s->hot_blocks;
	to->cold_blocks += s->cold_blocks;
	to->pauses += s->pauses;
	to->failures += s->failures;
	to->fetches += s->fetches;
	to->fetched_bytes += s->fetched_bytes;
}

static void image_prefetch_free(struct image_prefetch *ip)
{
	prefetch_free(ip->prefetch);
	mounted_free(ip->files);
	(void)pthread_mutex_destroy(&ip->noting);
	images_put(ip->image);
	free(ip);
}

static void image_prefetch_put(struct image_prefetch *ip)
{
	struct images *images;
	bool last;

	if (!ip)
		return;
	images = ip->image->all;
	images_lock(images);
	last = --ip->refs == 0;
	images_unlock(images);
	if (last)
		image_prefetch_free(ip);
}

/* Take a use of the image's prefetch, or NULL. */
static struct image_prefetch *image_prefetch_get(struct image *i)
{
	struct image_prefetch *ip;

	images_lock(i->all);
	ip = i->prefetch;
	if (ip)
		ip->refs++;
	images_unlock(i->all);
	return ip;
}

void node_prefetch_mark_read(struct prefetches *all, const struct image *i,
			     const struct blockmap *map, uint8_t *bits)
{
	(void)pthread_mutex_lock(&all->asking);
	if (all->reads)
		all->reads(all->starts, i, map, bits);
	(void)pthread_mutex_unlock(&all->asking);
}

static void mark_read(void *arg, uint8_t *bits)
{
	const struct image_prefetch *ip = arg;

	node_prefetch_mark_read(ip->all, ip->image, &ip->files->map, bits);
}

static void on_done(void *arg);
static void on_failed(void *arg, const struct error *why, int64_t retry_ns);

static int image_prefetch_new(struct prefetches *all, struct image *i,
			      struct remote_call *call,
			      struct image_prefetch **ret, struct error *err)
{
	struct image_prefetch *ip = calloc(1, sizeof(*ip));
	struct map_file meta = MAP_FILE_INIT;
	struct prefetch_config cfg = { .mark_read = mark_read,
				       .done = on_done,
				       .failed = on_failed,
				       .arg = ip };
	int rc;

	if (!ip)
		return error_nomem(err);
	ip->all = all;
	ip->image = i;
	images_ref(i);
	(void)pthread_mutex_init(&ip->noting, NULL);
	rc = mounted_open(&all->of.opens, i, call, &meta, &ip->files, err);
	map_file_close(&meta);
	if (rc == 0)
		rc = mounted_open_device(ip->files, i, err);
	if (rc == 0) {
		cfg.dev = ip->files->device;
		cfg.map = &ip->files->map;
		cfg.label = ip->files->label;
		cfg.fetch = ip->files->peer ? image_swarm_fetch : NULL;
		cfg.fetch_arg = ip->files->peer;
		rc = prefetch_new(all->prefetcher, &cfg, &ip->prefetch, err);
	}
	if (rc < 0) {
		image_prefetch_free(ip);
		return rc;
	}
	*ret = ip;
	return 0;
}

/* Take a use of the image's prefetch, which is made if there is none. */
static int get_or_make_image_prefetch(struct prefetches *all, struct image *i,
				      struct remote_call *call,
				      struct image_prefetch **ret,
				      struct error *err)
{
	struct image_prefetch *ip = image_prefetch_get(i);
	bool removed;
	int rc;

	if (!ip) {
		rc = mounted_lock_image(&all->of.opens, i, call, err);
		if (rc < 0)
			return rc;
		images_lock(i->all);
		removed = i->removed;
		images_unlock(i->all);
		ip = image_prefetch_get(i);
		if (removed)
			rc = error_set(err, ENOENT, "it was removed meanwhile");
		else if (!ip)
			rc = image_prefetch_new(all, i, call, &ip, err);
		if (rc == 0) {
			images_lock(i->all);
			ip->refs += i->prefetch ? 0 : 2;
			i->prefetch = ip;
			images_unlock(i->all);
		}
		keyed_lock_leave(all->of.opens.gate, &i->id);
		if (rc < 0) {
			image_prefetch_put(ip);
			return rc;
		}
	}
	*ret = ip;
	return 0;
}

void node_prefetch_drop(struct image *i)
{
	struct prefetch_sums sums = { .hot_bytes = 0 };
	struct image_prefetch *ip;
	struct prefetches *all;

	images_lock(i->all);
	ip = i->prefetch;
	i->prefetch = NULL;
	images_unlock(i->all);
	if (!ip)
		return;
	prefetch_stop(ip->prefetch);
	add_sums(&sums, ip);
	all = ip->all;
	(void)pthread_mutex_lock(&all->lock);
	merge_sums(&all->past, &sums);
	(void)pthread_mutex_unlock(&all->lock);
	image_prefetch_put(ip);
}

/* ------------------------------------------------------- --- notes on disk --- */

static void log_failure_to_note(const struct image *i, int rc,
				const struct error *why)
{
	if (rc < 0)
		log_warning("prefetch",
			    "image=%.12s what=\"not noted: a restart may "
			    "forget it\" reason=\"%s\"",
			    i->hex, why->msg);
}

static int write_hot(const struct image *i, const struct buf *hot,
		     struct error *err)
{
	AUTO_FREE char *path = image_path(i, "hot.json");

	if (!path)
		return error_nomem(err);
	if (hot->len)
		return fs_replace_file(path, hot->data, hot->len, 0600, err);
	if (unlink(path) < 0 && errno != ENOENT)
		return error_set(err, errno, "remove '%s': %s", path,
				 strerror(errno));
	return 0;
}

/* Note on disk what is prefetched.  `noting` is held. */
static void note_state(struct image_prefetch *ip, enum state_prefetch what,
		       const struct buf *hot)
{
	struct error err = ERROR_INIT;
	int rc;

	rc = write_hot(ip->image, hot, &err);
	if (rc == 0)
		rc = image_set_prefetch(ip->image, what, &err);
	log_failure_to_note(ip->image, rc, &err);
}

/* Remove the note: the prefetch is over.  `noting` is held. */
static void clear_prefetch_note(struct image_prefetch *ip)
{
	struct error err = ERROR_INIT;
	int rc;

	/* Write the state first: a hot set without a state is ignored. */
	rc = image_set_prefetch(ip->image, STATE_PREFETCH_NONE, &err);
	if (rc == 0)
		rc = write_hot(ip->image, &(struct buf)BUF_INIT, &err);
	log_failure_to_note(ip->image, rc, &err);
}

/* Remove the note of a prefetch that is done or stopped; if another start has begun one
 * meanwhile, keep it. */
static void clear_ended_note(struct image_prefetch *ip)
{
	enum prefetch_phase phase;

	(void)pthread_mutex_lock(&ip->noting);
	phase = prefetch_get_phase(ip->prefetch);
	if (phase == PREFETCH_DONE || phase == PREFETCH_STOPPED)
		clear_prefetch_note(ip);
	(void)pthread_mutex_unlock(&ip->noting);
}

static void on_done(void *arg)
{
	struct image_prefetch *ip = arg;

	log_info("prefetch", "done image=\"%s\"", ip->files->label);
	clear_ended_note(ip);
}

static void on_failed(void *arg, const struct error *why, int64_t retry_ns)
{
	const struct image_prefetch *ip = arg;

	log_warning("prefetch",
		    "failed image=\"%s\" reason=\"%s\" again_s=%lld",
		    ip->files->label, why->msg,
		    (long long)(retry_ns / NS_PER_S));
}

/* Are any of the wanted blocks still missing?  `noting` is held. */
static bool is_worth_noting(struct image_prefetch *ip, bool rest)
{
	struct prefetch_stats s;

	prefetch_get_stats(ip->prefetch, &s);
	return s.hot_have < s.hot_blocks || (rest && s.all_have < s.all_blocks);
}

/* ------------------------------------------------ --- beginning and waiting --- */

/* Was the prefetch ordered for more than unpacking, and is it under way?  `noting` is held. */
static bool is_ordered(struct image_prefetch *ip)
{
	enum prefetch_phase phase = prefetch_get_phase(ip->prefetch);

	return phase != PREFETCH_IDLE && phase != PREFETCH_DONE &&
	       phase != PREFETCH_STOPPED && !ip->is_to_unpack;
}

/* Begin a prefetch and note it on disk.  `noting` is held.  A prefetch for unpacking is not
 * noted: after a restart a reader that still wants the blocks asks for them one by one. */
static int begin_noted(struct image_prefetch *ip, struct hot_list *hot,
		       enum prefetch_rest rest, bool to_unpack,
		       const struct buf *text, struct error *err)
{
	bool is_to_unpack = to_unpack && !is_ordered(ip);
	/* A prediction is not resumed after a restart, since its start is over. */
	bool is_passing = to_unpack || (hot && hot->is_predicted);
	/* Start the transfers before the note: they need not wait for the disk. */
	int rc = prefetch_start(ip->prefetch, hot, rest, err);

	if (rc < 0)
		return rc;
	ip->is_to_unpack = is_to_unpack;
	if (!is_passing && is_worth_noting(ip, rest != PREFETCH_REST_NONE))
		note_state(ip,
			   rest == PREFETCH_REST_NONE ? STATE_PREFETCH_HOT
						      : STATE_PREFETCH_ALL,
			   text);
	return 0;
}

static int begin_prefetch(struct image_prefetch *ip, struct hot_list *hot,
			  enum prefetch_rest rest, bool to_unpack,
			  struct error *err)
{
	AUTO_BUF text = { .limit = HOT_FILE_MAX };
	int rc = 0;

	if (hot && hot->n > 0)
		rc = hot_file_format(hot, &text, err);
	if (rc < 0) {
		hot_list_fini(hot);
		return rc;
	}
	(void)pthread_mutex_lock(&ip->noting);
	rc = begin_noted(ip, hot, rest, to_unpack, &text, err);
	(void)pthread_mutex_unlock(&ip->noting);
	return rc;
}

static int begin_prefetch_of_image(struct prefetches *all, struct image *i,
				   struct hot_list *hot,
				   enum prefetch_rest rest, bool to_unpack,
				   struct remote_call *call, struct error *err)
{
	struct image_prefetch *ip = NULL;
	struct remote_call own;
	int rc;

	mounted_call_init(&all->of.opens, &own);
	rc = get_or_make_image_prefetch(all, i, call ? call : &own, &ip, err);
	if (rc == 0)
		rc = begin_prefetch(ip, hot, rest, to_unpack, err);
	else if (hot)
		hot_list_fini(hot);
	image_prefetch_put(ip);
	return error_wrap(err, rc, "prefetch");
}

/* An order for the hot set alone fails without a trace.  A predicted hot set does not count: it
 * is fetched only as far as readers confirm it, and an order has no readers. */
static int check_order(struct image *i, struct error *err)
{
	struct prefetch_stats s;

	(void)node_prefetch_stats(i, &s);
	return s.hot_blocks > 0 && !s.is_predicted
		       ? 0
		       : error_set(
				 err, ENOENT,
				 "no trace of a start of this image is known: "
				 "'bootseer image record' makes one, or fetch "
				 "all of it (--all)");
}

int node_prefetch(struct prefetches *all, struct image *i,
		  enum prefetch_event event, struct hot_list *hot,
		  struct remote_call *call, struct error *err)
{
	static const enum prefetch_rest rests[] = {
		[PREFETCH_CHOICE_HOT] = PREFETCH_REST_NONE,
		[PREFETCH_CHOICE_HOT_THEN_IDLE] = PREFETCH_REST_IDLE,
		[PREFETCH_CHOICE_ALL_NOW] = PREFETCH_REST_NOW,
	};
	enum prefetch_choice choice =
		prefetch_choose(prefetch_mode_of(all->of.cfg->prefetch), event);

	if (choice == PREFETCH_CHOICE_NOTHING) {
		if (hot)
			hot_list_fini(hot);
		return 0;
	}
	if (event == PREFETCH_ON_ORDER_HOT && check_order(i, err) < 0)
		return -ENOENT;
	return begin_prefetch_of_image(all, i, hot, rests[choice],
				       event == PREFETCH_ON_UNPACK, call, err);
}

void node_prefetch_stop(struct image *i)
{
	struct image_prefetch *ip = image_prefetch_get(i);

	if (!ip)
		return;
	prefetch_stop(ip->prefetch);
	clear_ended_note(ip);
	image_prefetch_put(ip);
}

void node_prefetch_leave(struct image *i)
{
	struct image_prefetch *ip = image_prefetch_get(i);
	bool is_unused;

	if (!ip)
		return;
	/* A new user is added to the image before its order comes here, so either the user or
	 * the order is seen. */
	(void)pthread_mutex_lock(&ip->noting);
	images_lock(i->all);
	is_unused = i->state.users.n == 0 && !i->mounted;
	images_unlock(i->all);
	if (is_unused && ip->is_to_unpack) {
		prefetch_cancel(ip->prefetch);
		ip->is_to_unpack = false;
	}
	(void)pthread_mutex_unlock(&ip->noting);
	image_prefetch_put(ip);
}

/* The time of the next check of the pace. */
static int64_t next_pace_check(int64_t until, const struct pace *pace)
{
	int64_t next = clock_now_ns() + LOOK_NS;

	return pace && next < until ? next : until;
}

/* Did the wait end only to check the pace? */
static bool does_wait_continue(int64_t slice, int64_t until, struct pace *pace)
{
	return slice < until && clock_now_ns() >= slice &&
	       pace_level(pace) != PACE_STOP;
}

int node_prefetch_wait(struct image *i, const struct wait_policy *policy,
		       struct pace *pace, struct error *err)
{
	struct image_prefetch *ip = image_prefetch_get(i);
	int64_t until = clock_now_ns() + NODE_PREFETCH_WAIT_NS, slice;
	int rc;

	if (!ip)
		return 0;
	if (policy->kind == WAIT_DEADLINE && policy->ns < NODE_PREFETCH_WAIT_NS)
		until = clock_now_ns() + policy->ns;
	do {
		slice = next_pace_check(until, pace);
		rc = prefetch_wait(ip->prefetch, policy, slice, err);
	} while (rc == -ETIMEDOUT && does_wait_continue(slice, until, pace));
	image_prefetch_put(ip);
	return rc;
}

int node_prefetch_wait_end(struct image *i, int64_t timeout_ns,
			   struct pace *pace, struct error *err)
{
	struct image_prefetch *ip = image_prefetch_get(i);
	int64_t until = clock_now_ns() + timeout_ns, slice;

	if (!ip)
		return 0;
	do {
		slice = next_pace_check(until, pace);
		prefetch_wait_end(ip->prefetch, slice);
	} while (does_wait_continue(slice, until, pace));
	image_prefetch_put(ip);
	return pace_level(pace) == PACE_STOP
		       ? error_set(err, ECANCELED, "whoever asked has left")
		       : 0;
}

int node_prefetch_read(struct prefetches *all, struct image *i, uint64_t off,
		       void *buf, size_t len, struct remote_call *call,
		       struct error *err)
{
	struct image_prefetch *ip = NULL;
	int rc = get_or_make_image_prefetch(all, i, call, &ip, err);

	if (rc == 0 && call->is_local &&
	    !device_has_bytes(ip->files->device, off, len))
		rc = error_set(err, EINPROGRESS, "the store is needed");
	if (rc == 0)
		rc = device_read_sync(ip->files->device, off, buf, len, err);
	image_prefetch_put(ip);
	return rc;
}

int node_prefetch_ahead(struct prefetches *all, struct image *i,
			const uint32_t *blocks, size_t n_blocks,
			const volatile bool *cancel, struct remote_call *call,
			struct error *err)
{
	struct image_prefetch *ip = NULL;
	int rc = get_or_make_image_prefetch(all, i, call, &ip, err);

	if (rc == 0)
		rc = prefetch_ahead(ip->prefetch, blocks, n_blocks, cancel,
				    err);
	image_prefetch_put(ip);
	return rc;
}

void node_prefetch_ahead_forget(struct image *i)
{
	struct image_prefetch *ip = image_prefetch_get(i);

	if (ip)
		prefetch_ahead_forget(ip->prefetch);
	image_prefetch_put(ip);
}

/* ---------------------------------------------------------------- figures --- */

bool node_prefetch_stats(struct image *i, struct prefetch_stats *ret)
{
	struct image_prefetch *ip = image_prefetch_get(i);

	*ret = (struct prefetch_stats){ .phase = PREFETCH_IDLE };
	if (!ip)
		return false;
	prefetch_get_stats(ip->prefetch, ret);
	image_prefetch_put(ip);
	return true;
}

int node_prefetch_fetched(struct image *i, bool hot_only, uint8_t **ret_bits,
			  struct error *err)
{
	struct image_prefetch *ip = image_prefetch_get(i);
	int rc;

	if (!ip)
		return error_set(err, ENOENT, "the image has no prefetch");
	rc = prefetch_fetched(ip->prefetch, hot_only, ret_bits, err);
	image_prefetch_put(ip);
	return rc;
}

void node_prefetch_sums(struct prefetches *all, struct prefetch_sums *ret)
{
	struct image_prefetch *ip;
	struct image **list;
	size_t len, k;

	(void)pthread_mutex_lock(&all->lock);
	*ret = all->past;
	(void)pthread_mutex_unlock(&all->lock);
	if (images_list(all->of.images, &list, &len, NULL) < 0)
		return;
	for (k = 0; k < len; k++) {
		ip = image_prefetch_get(list[k]);
		if (ip)
			add_sums(ret, ip);
		image_prefetch_put(ip);
	}
	images_list_free(list, len);
}

/* ----------------------------------------------------------------- restart --- */

static int read_hot(const struct image *i, struct hot_list *ret,
		    struct error *err)
{
	AUTO_FREE char *path = image_path(i, "hot.json");
	AUTO_BUF text = BUF_INIT;
	int rc;

	if (!path)
		return error_nomem(err);
	rc = fs_read_file(path, HOT_FILE_MAX, &text, err);
	if (rc == -ENOENT)
		return 0;
	return rc < 0 ? rc : hot_file_parse(text.data, text.len, ret, err);
}

static void resume_one(struct prefetches *all, struct image *i)
{
	struct hot_list hot = { .blocks = NULL };
	struct error err = ERROR_INIT;
	enum prefetch_event event;
	enum state_prefetch what;
	int rc;

	images_lock(i->all);
	what = i->state.prefetch;
	images_unlock(i->all);
	if (what == STATE_PREFETCH_NONE)
		return;
	event = what == STATE_PREFETCH_ALL ? PREFETCH_ON_RESTART_ALL
					   : PREFETCH_ON_RESTART_HOT;
	rc = read_hot(i, &hot, &err);
	if (rc == 0)
		rc = node_prefetch(all, i, event, &hot, NULL, &err);
	if (rc < 0) {
		log_warning("prefetch",
			    "image=%.12s hot set lost reason=\"%s\"", i->hex,
			    err.msg);
		rc = node_prefetch(all, i, event, NULL, NULL, &err);
	}
	if (rc < 0)
		log_warning("prefetch", "image=%.12s not resumed reason=\"%s\"",
			    i->hex, err.msg);
	else
		log_info("prefetch", "resumed image=%.12s", i->hex);
}

void node_prefetch_resume(struct prefetches *all)
{
	struct image **list;
	size_t len, k;

	if (images_list(all->of.images, &list, &len, NULL) < 0)
		return;
	for (k = 0; k < len; k++)
		resume_one(all, list[k]);
	images_list_free(list, len);
}
