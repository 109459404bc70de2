// SPDX-License-Identifier: Apache-2.0
/*
 * The table of starts, and the thread that notices ended windows and new ready files.
 * starts_finish.c makes traces and figures on a pool.
 *
 * A device may be freed at any time.  A thread that ends a start first lets go of its device,
 * and then removes the start from the table; starts_detach() waits for that.
 */
#include "snapshotter/node/starts/starts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/cond.h"
#include "common/log.h"
#include "snapshotter/node/starts/mounted.h"
#include "snapshotter/node/starts/prefetch.h"
#include "snapshotter/node/starts/starts_priv.h"
#include "snapshotter/node/traces/trace_lookup.h"

#define GATE_NS (5 * NS_PER_S)
/* period of checks for ready files and bundles */
#define POLL_NS (100 * NS_PER_MS)
#define IDLE_NS NS_PER_S
/* A program that probes new devices, such as udev, reads less than this. */
#define PROBE_BYTES_MAX (1u << 20)
#define FINISHERS 2
#define ASKED_AGE_NS (300 * NS_PER_S)
/* Bytes of devices under recorders: 1 GiB of bits, 256 starts of images of 64 GB. */
#define WATCHED_BYTES_MAX ((uint64_t)16 << 40)

static struct mounted *find_start_mount(const struct start_request *r,
					const struct image *i)
{
	return r->mount ? r->mount : i->mounted;
}

static void unreserve_watched(struct container_start *s)
{
	if (s->watched_bytes)
		atomic_fetch_sub(&s->all->watched_bytes, s->watched_bytes);
	s->watched_bytes = 0;
}

void container_start_free(struct container_start *s)
{
	if (!s)
		return;
	recorder_free(s->recorder);
	unreserve_watched(s);
	images_put(s->image);
	if (s->ready_root >= 0)
		close(s->ready_root);
	free(s->user);
	free(s->workload);
	free(s->bundle);
	free(s->read_bundle);
	free(s->container);
	free(s->ready_file);
	free(s);
}
DEFINE_AUTO(container_start)

static int copy_text(char **ret, const char *text, struct error *err)
{
	*ret = text ? strdup(text) : NULL;
	return text && !*ret ? error_nomem(err) : 0;
}

static int copy_request(struct container_start *s,
			const struct start_request *r, struct error *err)
{
	const char *slash = r->bundle ? strrchr(r->bundle, '/') : NULL;
	int rc = copy_text(&s->user, r->user, err);

	if (rc == 0)
		rc = copy_text(&s->bundle,
			       r->workload && !s->all->events && !r->ready_file
				       ? NULL
				       : r->bundle,
			       err);
	s->words = s->bundle && !r->workload ? START_WORDS_PENDING
					     : START_WORDS_ASKED;
	if (rc == 0)
		rc = copy_text(&s->container, slash ? slash + 1 : NULL, err);
	if (rc == 0)
		rc = copy_text(&s->ready_file, r->ready_file, err);
	if (rc < 0 || !r->ready_file || !r->ready_root)
		return rc;
	s->ready_root = open(r->ready_root,
			     O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (s->ready_root >= 0)
		return 0;
	log_warning("starts",
		    "no ready file user=\"%s\" path=\"%s\" reason=\"%s\"",
		    s->user, r->ready_root, strerror(errno));
	free(steal_ptr(&s->ready_file));
	return 0;
}

/* ------------------------------------------------------------------- begin --- */

/* Look up the trace of this start, and begin the prefetch. */
static int look_up_trace(struct starts *all, struct container_start *s,
			 const struct start_request *r, bool *ret_wanted,
			 struct error *err)
{
	struct error why = ERROR_INIT;
	struct trace_answer a;
	int rc;

	if (trace_lookup_find(all->of.traces, s->image, r->workload, &a, &why) <
	    0)
		log_warning(
			"starts",
			"no trace image=%.12s reason=\"%s\" action=\"started "
			"without\"",
			s->image->hex, why.msg);
	s->reply.found = a.found;
	s->reply.match = a.match;
	*ret_wanted = !a.found || a.wanted || a.match != TRACE_MATCH_OWN;
	s->is_predicted = a.found && a.match == TRACE_MATCH_PREDICTED;
	/* node_prefetch() also resumes a prefetch that has failed. */
	rc = node_prefetch(all->of.prefetches, s->image,
			   a.found ? PREFETCH_ON_START_KNOWN
				   : PREFETCH_ON_START_UNKNOWN,
			   NULL, r->call, &why);
	if (rc == -EINPROGRESS)
		return error_set(err, EINPROGRESS, "%s", why.msg);
	if (rc < 0)
		log_warning("starts", "prefetch reason=\"%s\"", why.msg);
	return copy_text(&s->workload, a.workload, err);
}

static void wait_for_hot(struct starts *all, struct container_start *s,
			 const struct start_request *r)
{
	const struct wait_policy *policy = r->wait ? r->wait : &all->wait;
	struct prefetch_stats now = { .phase = PREFETCH_IDLE };
	int64_t before = clock_now_ns();
	struct error why = ERROR_INIT;

	(void)node_prefetch_stats(s->image, &s->prefetch_before);
	/* Do not wait for a prediction: it is fetched only as far as the start's reads confirm
	 * it. */
	if (s->reply.found && !s->is_predicted && policy->kind != WAIT_NONE &&
	    node_prefetch_wait(s->image, policy, &r->call->pace, &why) < 0)
		log_info("starts", "waited image=%.12s reason=\"%s\"",
			 s->image->hex, why.msg);
	s->reply.waited_ns = clock_now_ns() - before;
	(void)node_prefetch_stats(s->image, &now);
	s->reply.hot_blocks = now.hot_blocks;
	s->reply.hot_bytes = now.hot_bytes;
	s->reply.have_bytes = now.hot_have_bytes;
}

/* Put the start into the table.  Inside the image's gate. */
static int insert_start(struct starts *all, struct container_start *s,
			struct start_reply *ret, struct error *err)
{
	int rc = 0;

	pthread_mutex_lock(&all->lock);
	if (all->n >= STARTS_MAX || all->stopping) {
		rc = error_set(err, EAGAIN, "%zu starts are under way", all->n);
	} else {
		s->number = s->reply.number = ++all->last_number;
		s->next = all->first;
		s->refs = 1;
		all->first = s;
		all->n++;
		*all->of.n_unready += s->ready_file != NULL;
		all->stats.begun++;
		all->stats.with_trace += s->reply.found && !s->is_predicted;
		all->stats.waited_ms +=
			(uint64_t)(s->reply.waited_ns / NS_PER_MS);
		/* Copy the reply now: the start may be freed as soon as the lock is released. */
		*ret = s->reply;
	}
	pthread_mutex_unlock(&all->lock);
	if (rc == 0)
		periodic_wake(all->watcher);
	return rc;
}

/* Bound the memory of all recorders together: each has two bits for each page of its device,
 * and an image may claim any size for it. */
static int reserve_watched(struct container_start *s, uint64_t bytes,
			   struct error *err)
{
	uint64_t before = atomic_fetch_add(&s->all->watched_bytes, bytes);

	s->watched_bytes = bytes;
	if (before + bytes <= WATCHED_BYTES_MAX)
		return 0;
	return error_set(err, ENOSPC,
			 "the devices of all starts under way are larger than "
			 "%" PRIu64 " TiB",
			 WATCHED_BYTES_MAX >> 40);
}

/* Begin to record the reads of a lazy mount. */
static void observe_device(struct container_start *s, struct mounted *m)
{
	const struct recorder_config cfg = { .device_size =
						     m->image.device_size };
	struct error why = ERROR_INIT;

	if (!m->device)
		return;
	if (reserve_watched(s, cfg.device_size, &why) < 0 ||
	    recorder_new(&cfg, &s->recorder, &why) < 0) {
		log_warning("starts", "not watched reason=\"%s\"", why.msg);
		unreserve_watched(s);
		return;
	}
	s->device = m->device;
	device_get_stats(s->device, &s->device_before);
	s->sight = !m->was_started && s->device_before.read_bytes <=
					      PROBE_BYTES_MAX
			   ? RECORDING_FRESH
			   : RECORDING_STALE;
	m->was_started = true;
	device_observe(s->device, recorder_observer(s->recorder));
}

static int watch_start(struct starts *all, struct container_start *s,
		       const struct start_request *r, bool wanted,
		       struct start_reply *ret, struct error *err)
{
	enum recording_mode mode =
		r->mount ? RECORDING_MODE_ALWAYS : all->record.mode;
	struct image *i = s->image;
	struct mounted *m;
	int rc = keyed_lock_enter(all->of.gate, &i->id, GATE_NS, err);

	if (rc < 0)
		return rc;
	m = find_start_mount(r, i);
	if (!m) {
		keyed_lock_leave(all->of.gate, &i->id);
		return error_set(err, ENOENT, "image %.12s is not mounted",
				 i->hex);
	}
	observe_device(s, m);
	s->recording = recording_begin(s->sight, mode, wanted);
	s->reply.recording = recording_is_on(s->recording);
	s->watch_ns = clock_now_ns();
	s->until_ns = s->watch_ns +
		      (r->window_ns ? r->window_ns : all->record.window_ns);
	rc = insert_start(all, s, ret, err);
	if (rc < 0 && s->device)
		device_unobserve(s->device, recorder_observer(s->recorder));
	keyed_lock_leave(all->of.gate, &i->id);
	return rc;
}

void starts_note_asked(struct starts *all, struct image *i, int64_t begin_ns,
		       int64_t resolved_ns)
{
	struct image_asked asked = { .begin_ns = begin_ns,
				     .resolved_ns = resolved_ns,
				     .end_ns = clock_now_ns() };
	struct prefetch_stats prefetch;
	struct image_swarm_bytes bytes;

	if (!all || !all->events)
		return;
	(void)node_prefetch_stats(i, &prefetch);
	image_swarm_get_bytes(all->of.peers, i, &bytes);
	asked.hot_fetched_bytes = prefetch.hot_fetched_bytes;
	asked.peer_bytes = bytes.peers;
	asked.origin_bytes = bytes.origin;
	images_lock(i->all);
	/* A preparation that found everything on the node does not replace one that asked a
	 * registry. */
	if (!i->asked.end_ns || resolved_ns ||
	    asked.end_ns - i->asked.end_ns > ASKED_AGE_NS)
		i->asked = asked;
	images_unlock(i->all);
}

/* Take the image's last preparation: only the first start after it reports it.  A start did not
 * wait for a preparation that is old or still goes on. */
static void take_last_preparation(struct container_start *s)
{
	struct image *i = s->image;

	if (!s->all->events || !s->bundle)
		return;
	images_lock(i->all);
	if (i->asked.end_ns && s->begun_ns - i->asked.end_ns <= ASKED_AGE_NS)
		s->asked = i->asked;
	i->asked = (struct image_asked){ .end_ns = 0 };
	images_unlock(i->all);
	image_swarm_get_bytes(s->all->of.peers, i, &s->swarm_before);
	container_start_back_offs(s, &s->back_offs_before);
}

int starts_begin(struct starts *all, struct image *i,
		 const struct start_request *r, struct start_reply *ret,
		 struct error *err)
{
	AUTO(container_start) s = calloc(1, sizeof(*s));
	bool wanted = true;
	int rc;

	if (!s)
		return error_nomem(err);
	s->all = all;
	s->ready_root = -1;
	s->begun_at = time(NULL);
	s->begun_ns = clock_now_ns();
	s->image = images_get(i->all, &i->id);
	if (!s->image)
		return error_set(err, ENOENT, "image %.12s was removed",
				 i->hex);
	rc = copy_request(s, r, err);
	if (rc == 0)
		take_last_preparation(s);
	if (rc == 0)
		rc = look_up_trace(all, s, r, &wanted, err);
	if (rc < 0)
		return rc;
	/* No deadline for the call: each wait below has its own limit. */
	remote_call_no_deadline(r->call);
	/* A user has one start at a time, so the earlier container is gone. */
	starts_end(all, r->user);
	wait_for_hot(all, s, r);
	if (pace_level(&r->call->pace) == PACE_STOP)
		return error_set(err, ECANCELED, "whoever asked has left");
	rc = watch_start(all, s, r, wanted, ret, err);
	if (rc == 0)
		s = NULL; /* the table owns it now */
	return rc;
}

/* --------------------------------------------------------------------- end --- */

static void finish_run(struct work *w)
{
	struct container_start *s =
		container_of(w, struct container_start, work);

	container_start_finish(s);
	container_start_free(s);
}

/* Drop a use of the start; the last one hands it to the pool.  Lock held. */
static void start_unref(struct container_start *s)
{
	if (--s->refs > 0)
		return;
	s->work.run = finish_run;
	/* cannot happen: the queue is not limited */
	if (pool_submit(s->all->pool, &s->work) < 0)
		container_start_free(s);
}

/* Note that another workload uses the start's device since `since`. */
static void note_mixed(struct container_start *s, int64_t since)
{
	if (!s->mixed_ns || since < s->mixed_ns)
		s->mixed_ns = since;
}

/* Another workload starts on the device: from now on a read may be of either, so nothing is
 * learnt from it.  Starts of one workload read alike, so they do not matter.  Lock held. */
static void mark_mixed_starts(struct container_start *s)
{
	struct container_start *o;
	int64_t since;

	for (o = s->all->first; s->device && o; o = o->next) {
		if (o->device != s->device ||
		    strcmp(o->workload, s->workload) == 0)
			continue;
		since = o->watch_ns > s->watch_ns ? o->watch_ns : s->watch_ns;
		note_mixed(s, since);
		note_mixed(o, since);
	}
}

static bool is_over(const struct container_start *s)
{
	return s->end != START_UNDER_WAY;
}

/* End a start that is under way; only the thread that sets `end` gets here.  Lock held, and
 * released meanwhile. */
static void end_start(struct container_start *s, enum start_end how)
{
	struct starts *all = s->all;
	struct container_start **p;

	s->end = how;
	s->end_ns = clock_now_ns();
	mark_mixed_starts(s);
	all->stats.ready += how == START_READY;
	all->stats.unready += how != START_READY;
	pthread_mutex_unlock(&all->lock);
	if (s->device) {
		device_get_stats(s->device, &s->device_after);
		device_unobserve(s->device, recorder_observer(s->recorder));
	}
	pthread_mutex_lock(&all->lock);
	for (p = &all->first; *p != s; p = &(*p)->next)
		;
	*p = s->next;
	all->n--;
	*all->of.n_unready -= s->ready_file != NULL;
	start_unref(s);
	pthread_cond_broadcast(&all->changed);
}

/* ---------------------------------------------------- not ready in its window --- */

/* Drop a use of an entry of `late`.  Lock held. */
static void late_unref(struct container_start *s)
{
	if (--s->refs == 0)
		container_start_free(s);
}

/* The start is ready or gone: the rest of images need not wait for it.  Lock held. */
static void forget_late(struct starts *all, struct container_start *s)
{
	struct container_start **p;

	for (p = &all->late; *p && *p != s; p = &(*p)->next)
		;
	if (!*p)
		return;
	*p = s->next;
	all->n_late--;
	--*all->of.n_unready;
	late_unref(s);
}

/* The window ends, and the start has a ready file that is not there yet: go on waiting for it.
 * Without room for that it counts as ready.  Lock held. */
static void keep_late(struct container_start *s)
{
	struct starts *all = s->all;
	AUTO(container_start) late = NULL;

	if (!s->ready_file || all->n_late >= STARTS_MAX)
		return;
	late = calloc(1, sizeof(*late));
	if (!late)
		return;
	late->ready_root = -1;
	if (copy_text(&late->user, s->user, NULL) < 0 ||
	    copy_text(&late->container, s->container, NULL) < 0)
		return;
	log_info("starts",
		 "not ready in time user=\"%s\" action=\"the rest of images "
		 "waits for '%s'\"",
		 s->user, s->ready_file);
	late->all = all;
	late->number = s->number;
	late->begun_ns = s->begun_ns;
	late->device = s->device;
	/* The count of n_unready goes with the file. */
	late->ready_file = steal_ptr(&s->ready_file);
	late->ready_root = s->ready_root;
	s->ready_root = -1;
	late->read_bundle = steal_ptr(&s->read_bundle);
	late->refs = 1;
	late->next = all->late;
	all->late = steal_ptr(&late);
	all->n_late++;
}

/* The late start with the highest number below `below`, or NULL. */
static struct container_start *next_late(struct starts *all, uint64_t below)
{
	struct container_start *s, *best = NULL;

	for (s = all->late; s; s = s->next) {
		if (s->number < below && (!best || s->number > best->number))
			best = s;
	}
	return best;
}

/* Forget the late starts that are ready or gone.  Lock held, and released meanwhile. */
static void check_late_starts(struct starts *all)
{
	uint64_t below = UINT64_MAX;
	struct container_start *s;
	bool is_over;

	while ((s = next_late(all, below))) {
		below = s->number;
		s->refs++;
		pthread_mutex_unlock(&all->lock);
		is_over = container_start_has_ready_file(s) ||
			  container_start_has_ended(s);
		pthread_mutex_lock(&all->lock);
		if (is_over)
			forget_late(all, s);
		late_unref(s);
	}
}

static bool is_named(const struct container_start *s,
		     const struct start_name *which)
{
	if (which->number)
		return s->number == which->number;
	if (which->user)
		return strcmp(s->user, which->user) == 0;
	return which->cgroups && container_start_has_process(s, which->cgroups);
}

int starts_ready(struct starts *all, const struct start_name *which,
		 int64_t *ret_ns, struct error *err)
{
	struct container_start *s, *late;

	pthread_mutex_lock(&all->lock);
	for (s = all->first; s; s = s->next) {
		if (!is_over(s) && is_named(s, which))
			break;
	}
	if (s) {
		*ret_ns = clock_now_ns() - s->begun_ns;
		end_start(s, START_READY);
	}
	for (late = all->late; !s && late; late = late->next) {
		if (!is_named(late, which))
			continue;
		s = late;
		*ret_ns = clock_now_ns() - s->begun_ns;
		forget_late(all, s);
		break;
	}
	pthread_mutex_unlock(&all->lock);
	return s ? 0 : error_set(err, ENOENT, "no such start is under way");
}

void starts_end(struct starts *all, const char *user)
{
	struct container_start *s, *next;

	pthread_mutex_lock(&all->lock);
	for (s = all->late; s; s = next) {
		next = s->next;
		if (strcmp(s->user, user) == 0)
			forget_late(all, s);
	}
	for (s = all->first; s; s = s->next) {
		if (!is_over(s) && strcmp(s->user, user) == 0)
			break;
	}
	if (s)
		end_start(s, START_GONE);
	pthread_mutex_unlock(&all->lock);
}

void starts_detach(struct starts *all, const struct device *d)
{
	struct container_start *s, *next;

	if (!all)
		return;
	pthread_mutex_lock(&all->lock);
	for (s = all->late; s; s = next) {
		next = s->next;
		if (s->device == d)
			forget_late(all, s);
	}
	do {
		for (s = all->first; s && s->device != d; s = s->next)
			;
		if (s && !is_over(s))
			end_start(s, START_GONE);
		else if (s) /* another thread ends it: wait some microseconds */
			pthread_cond_wait(&all->changed, &all->lock);
	} while (s);
	pthread_mutex_unlock(&all->lock);
}

/* --------------------------------------------------------------- the thread --- */

/* Take the workload and owner from the bundle `b`.  Lock held. */
static void note_bundle(struct container_start *s, struct bundle *b)
{
	if (s->words == START_WORDS_PENDING) {
		log_debug("starts", "workload of start=%llu key=\"%s\"",
			  (unsigned long long)s->number, b->key);
		s->words = strcmp(s->workload, b->key) != 0 ? START_WORDS_OTHER
							    : START_WORDS_ASKED;
		free(s->workload);
		s->workload = steal_ptr(&b->key);
	}
	s->owner = b->owner;
	bundle_fini(b);
	if (s->ready_file)
		s->read_bundle = steal_ptr(&s->bundle);
	free(steal_ptr(&s->bundle));
}

/* Check the start's bundle and ready file.  Lock held, and released meanwhile. */
static void check_start_progress(struct container_start *s)
{
	struct starts *all = s->all;
	struct bundle bundle = { .key = NULL };
	bool ready = false, has_bundle = false;

	s->refs++;
	pthread_mutex_unlock(&all->lock);
	/* A bundle that is not completely written fails to parse and is read again in the next
	 * round. */
	if (s->bundle)
		has_bundle = bundle_read(s->bundle, &bundle, NULL) == 0;
	if (has_bundle && all->events)
		container_start_say_begin(s, &bundle.owner);
	if (s->ready_file)
		ready = container_start_has_ready_file(s);
	pthread_mutex_lock(&all->lock);
	if (has_bundle)
		note_bundle(s, &bundle);
	if (ready && !is_over(s))
		end_start(s, START_READY);
	start_unref(s);
}

/* The next start to check in this round, with a number below `below`: numbers decrease along
 * the list. */
static struct container_start *next_polled(struct starts *all, uint64_t below)
{
	struct container_start *s;

	for (s = all->first; s; s = s->next) {
		if (s->number < below && !is_over(s) &&
		    (s->bundle || s->ready_file))
			return s;
	}
	return NULL;
}

static struct container_start *next_over(struct starts *all, int64_t now)
{
	struct container_start *s;

	for (s = all->first; s; s = s->next) {
		if (!is_over(s) && now >= s->until_ns)
			return s;
	}
	return NULL;
}

/* Check all starts once; returns how long to sleep.  Lock held, and released meanwhile. */
static int64_t check_all_starts(struct starts *all)
{
	int64_t now = clock_now_ns(), sleep = IDLE_NS;
	uint64_t below = UINT64_MAX;
	struct container_start *s;

	while ((s = next_polled(all, below))) {
		below = s->number;
		check_start_progress(s);
		sleep = POLL_NS;
	}
	while ((s = next_over(all, now))) {
		keep_late(s);
		end_start(s, START_WINDOW);
	}
	check_late_starts(all);
	for (s = all->first; s; s = s->next) {
		if (!is_over(s) && s->until_ns - now < sleep)
			sleep = s->until_ns - now;
	}
	return sleep > NS_PER_MS ? sleep : NS_PER_MS;
}

static int64_t watch_starts(void *arg)
{
	struct starts *all = arg;
	int64_t at;

	pthread_mutex_lock(&all->lock);
	at = check_all_starts(all) + clock_now_ns();
	pthread_mutex_unlock(&all->lock);
	trace_send_due(all->of.traces);
	return at;
}

int starts_open(const struct starts_of *of, struct starts **ret,
		struct error *err)
{
	struct starts *all = calloc(1, sizeof(*all));
	const char *run = of->cfg->run;
	size_t len = strlen(run);
	AUTO_FREE char *events = NULL;
	int rc;

	while (len > 1 && run[len - 1] == '/')
		len--;
	if (!all ||
	    asprintf(&events, "%.*s" START_EVENTS_SUFFIX, (int)len, run) < 0) {
		events = NULL;
		free(all);
		return error_nomem(err);
	}
	all->of = *of;
	/* Begin at the time, so that numbers differ from those of earlier processes, whose
	 * figures are kept. */
	all->last_number = (uint64_t)time(NULL) * 1000;
	pthread_mutex_init(&all->lock, NULL);
	cond_init(&all->changed);
	/* At most STARTS_MAX starts are under way, which bounds the pool's queue. */
	rc = wait_policy_parse(of->cfg->wait, &all->wait, err);
	if (rc == 0)
		rc = recording_policy_parse(of->cfg->record, &all->record, err);
	if (rc == 0)
		rc = start_events_new(events, &all->events, err);
	if (rc == 0)
		rc = start_reports_new(of->cfg, &all->reports, err);
	if (rc == 0)
		rc = pool_new(NULL, FINISHERS, 0, &all->pool, err);
	if (rc == 0)
		rc = periodic_start(watch_starts, all, 0, &all->watcher, err);
	if (rc < 0) {
		starts_close(all);
		return rc;
	}
	*ret = all;
	return 0;
}

void starts_close(struct starts *all)
{
	struct container_start *s;

	if (!all)
		return;
	pthread_mutex_lock(&all->lock);
	all->stopping = true;
	pthread_mutex_unlock(&all->lock);
	periodic_stop(all->watcher);
	pool_free(all->pool);
	while ((s = all->first)) {
		all->first = s->next;
		if (s->device)
			device_unobserve(s->device,
					 recorder_observer(s->recorder));
		container_start_free(s);
	}
	while (all->late)
		forget_late(all, all->late);
	start_events_free(all->events);
	start_reports_free(all->reports);
	pthread_cond_destroy(&all->changed);
	pthread_mutex_destroy(&all->lock);
	free(all);
}

/* -------------------------------------------------------------------- state --- */

/* Take a use of the image's newest recorded start before number `last`, or NULL.  Lock held. */
static struct container_start *
next_watched(struct starts *all, const struct image *i, uint64_t last)
{
	struct container_start *s;

	for (s = all->first; s; s = s->next)
		if (s->number < last && s->image == i && s->recorder) {
			s->refs++;
			return s;
		}
	return NULL;
}

void starts_mark_read(struct starts *all, const struct image *i,
		      const struct blockmap *map, uint8_t *bits)
{
	uint64_t last = UINT64_MAX;
	struct container_start *s;

	pthread_mutex_lock(&all->lock);
	while ((s = next_watched(all, i, last))) {
		last = s->number;
		pthread_mutex_unlock(&all->lock);
		recorder_mark_read(s->recorder, map, bits);
		pthread_mutex_lock(&all->lock);
		start_unref(s);
	}
	pthread_mutex_unlock(&all->lock);
}

bool starts_would_record(struct starts *all, struct image *i)
{
	enum recording_mode mode = all->record.mode;
	bool is_wanted = mode == RECORDING_MODE_AUTO &&
			 !trace_lookup_has_any(all->of.traces, i);

	return recording_is_on(
		recording_begin(RECORDING_FRESH, mode, is_wanted));
}

json_t *starts_under_way(struct starts *all)
{
	int64_t now = clock_now_ns();
	json_t *list = json_array();
	const struct container_start *s;
	char id[DIGEST_STR_MAX];

	pthread_mutex_lock(&all->lock);
	for (s = all->first; list && s; s = s->next) {
		digest_format(&s->image->id, id);
		(void)json_array_append_new(
			list,
			json_pack("{s:I, s:s, s:s, s:s, s:I, s:b}", "start",
				  (json_int_t)s->number, "id", id, "user",
				  s->user, "workload", s->workload, "since_ms",
				  (json_int_t)((now - s->begun_ns) / 1000000),
				  "recording", (int)s->reply.recording));
	}
	pthread_mutex_unlock(&all->lock);
	return list;
}

void starts_get_stats(struct starts *all, struct starts_stats *ret)
{
	struct start_reports_stats reports;

	start_reports_get_stats(all->reports, &reports);
	pthread_mutex_lock(&all->lock);
	*ret = all->stats;
	ret->under_way = all->n;
	pthread_mutex_unlock(&all->lock);
	ret->reports_sent = reports.sent;
	ret->reports_waiting = reports.waiting;
	ret->reports_dropped = reports.dropped;
}
