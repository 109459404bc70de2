// SPDX-License-Identifier: Apache-2.0
/* The prefetch of one image: what it fetches, its progress, and its waiters. */
#include "prefetcher/prefetch.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "common/cond.h"

#define RETRY_NS (15 * NS_PER_S)
#define RETRY_DOUBLINGS 6u
#define RETRIES 2u /* failures in a row before the state is PREFETCH_FAILED */

static bool has_bit(const uint8_t *bits, size_t i)
{
	return bits[i / 8] & 1u << i % 8;
}

static void set_bit(uint8_t *bits, size_t i)
{
	bits[i / 8] |= (uint8_t)(1u << i % 8);
}

static size_t get_bit_map_bytes(const struct prefetch *p)
{
	return (p->map->n_blocks + 7) / 8;
}

const char *prefetch_phase_name(enum prefetch_phase phase)
{
	static const char *const names[] = {
		[PREFETCH_IDLE] = "idle",
		[PREFETCH_HOT] = "hot",
		[PREFETCH_COLD] = "cold",
		[PREFETCH_DONE] = "done",
		[PREFETCH_PAUSED] = "paused",
		[PREFETCH_FAILED] = "failed",
		[PREFETCH_STOPPED] = "stopped",
		[PREFETCH_RETRYING] = "retrying",
	};

	return names[phase];
}

/* -------------------------------------------------------- new and free --- */

int prefetch_new(struct prefetcher *all, const struct prefetch_config *cfg,
		 struct prefetch **ret, struct error *err)
{
	struct prefetch *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return error_nomem(err);
	p->all = all;
	p->dev = cfg->dev;
	p->map = cfg->map;
	p->fetch = cfg->fetch;
	p->fetch_arg = cfg->fetch_arg;
	p->done = cfg->done;
	p->failed = cfg->failed;
	p->mark_read = cfg->mark_read;
	p->arg = cfg->arg;
	p->label = strdup(cfg->label);
	p->is_hot = calloc(get_bit_map_bytes(p) + 1, 1);
	p->is_here = calloc(get_bit_map_bytes(p) + 1, 1);
	p->is_fetched = calloc(get_bit_map_bytes(p) + 1, 1);
	p->is_fetched_hot = calloc(get_bit_map_bytes(p) + 1, 1);
	cond_init(&p->changed);
	rc = p->label && p->is_hot && p->is_here && p->is_fetched &&
			     p->is_fetched_hot
		     ? order_by_pack(p->map, &p->rest_order, err)
		     : error_nomem(err);
	if (rc < 0) {
		prefetch_free(p);
		return rc;
	}
	*ret = p;
	return 0;
}

void prefetch_stop(struct prefetch *p)
{
	struct prefetcher *all = p->all;

	(void)pthread_mutex_lock(&all->lock);
	p->n_stopping++;
	__atomic_store_n(&p->cancel, true, __ATOMIC_RELAXED);
	if (p->queued)
		prefetcher_dequeue(all, p);
	p->state = PREFETCH_STOPPED;
	(void)pthread_cond_broadcast(&p->changed);
	while (p->running)
		(void)pthread_cond_wait(&p->changed, &all->lock);
	p->state = PREFETCH_STOPPED;
	p->n_stopping--;
	__atomic_store_n(&p->cancel, p->n_stopping > 0, __ATOMIC_RELAXED);
	(void)pthread_mutex_unlock(&all->lock);
}

void prefetch_cancel(struct prefetch *p)
{
	struct prefetcher *all = p->all;

	(void)pthread_mutex_lock(&all->lock);
	if (p->queued)
		prefetcher_dequeue(all, p);
	if (p->running)
		__atomic_store_n(&p->cancel, true, __ATOMIC_RELAXED);
	/* the start of only a hot set would keep the rest wanted */
	p->rest = false;
	p->again = p->requeue = false;
	if (p->state != PREFETCH_IDLE && p->state != PREFETCH_DONE)
		p->state = PREFETCH_STOPPED;
	(void)pthread_cond_broadcast(&p->changed);
	(void)pthread_mutex_unlock(&all->lock);
}

void prefetch_free(struct prefetch *p)
{
	if (!p)
		return;
	prefetch_stop(p);
	(void)pthread_cond_destroy(&p->changed);
	order_unref(p->hot);
	order_unref(p->rest_order);
	free(p->is_hot);
	free(p->is_here);
	free(p->is_fetched);
	free(p->is_fetched_hot);
	free(p->label);
	free(p);
}

/* ------------------------------------------------------------ starting --- */

/* A hot set, and which of its blocks are on the node. */
struct hot_set {
	struct order *order;
	uint8_t *is_hot, *is_here;
	size_t n_here;
	uint64_t bytes_here;
	bool is_predicted;
};

static void hot_set_fini(struct hot_set *s)
{
	order_unref(s->order);
	free(s->is_hot);
	free(s->is_here);
}

/* Look up which blocks of a hot set are on the node. Takes a reference to `order`. */
static int look_up_hot_blocks(struct prefetch *p, struct order *order,
			      struct hot_set *ret, struct error *err)
{
	struct hot_set s = {
		.order = order,
		.is_hot = calloc(get_bit_map_bytes(p) + 1, 1),
		.is_here = calloc(get_bit_map_bytes(p) + 1, 1),
	};

	if (!s.is_hot || !s.is_here) {
		hot_set_fini(&s);
		return error_nomem(err);
	}
	for (size_t i = 0; order && i < order->n; i++) {
		uint32_t index = order->blocks[i];
		struct block b;

		set_bit(s.is_hot, index);
		if (!device_has(p->dev, index))
			continue;
		blockmap_block(p->map, index, &b);
		set_bit(s.is_here, index);
		s.n_here++;
		s.bytes_here += b.csize;
	}
	*ret = s;
	return 0;
}

/* Choose the hot set to continue with: that of `hot`, or the present one. */
static int choose_hot_set(struct prefetch *p, struct hot_list *hot,
			  struct hot_set *ret, struct error *err)
{
	struct order *order;
	bool is_predicted;
	int rc = 0;

	if (hot && hot->n > 0) {
		rc = order_of_hot(p->map, hot, &order, err);
		is_predicted = hot->is_predicted;
	} else {
		(void)pthread_mutex_lock(&p->all->lock);
		order = order_ref(p->hot);
		is_predicted = p->is_predicted;
		(void)pthread_mutex_unlock(&p->all->lock);
	}
	if (rc == 0)
		rc = look_up_hot_blocks(p, order, ret, err);
	if (rc == 0)
		ret->is_predicted = is_predicted;
	return rc;
}

/* Exchange the hot set of `p` with the one in `s`. With the lock. */
static void swap_hot_set(struct prefetch *p, struct hot_set *s)
{
	struct hot_set old = { .order = p->hot,
			       .is_hot = p->is_hot,
			       .is_here = p->is_here };

	p->is_predicted = s->is_predicted;
	p->hot = s->order;
	p->is_hot = s->is_hot;
	p->is_here = s->is_here;
	p->hot_have = s->n_here;
	p->hot_have_bytes = s->bytes_here;
	*s = old;
}

static bool is_hot_set_fetched(const struct prefetch *p)
{
	return !p->hot || p->hot_have == p->hot->n;
}

enum task prefetch_first_task(const struct prefetch *p)
{
	/* When the rest is not wanted, a complete hot set is a task too: it ends at once. */
	return is_hot_set_fetched(p) && p->rest ? TASK_COLD : TASK_HOT;
}

/* Begin or continue fetching; `is_other`: the hot set is not the one being fetched. With the
 * lock. */
static void begin_or_continue_fetch(struct prefetch *p, enum prefetch_rest rest,
				    bool is_other)
{
	bool active = p->state == PREFETCH_HOT;

	p->rest = rest != PREFETCH_REST_NONE ||
		  (p->rest && (p->queued || p->running));
	if (rest != PREFETCH_REST_NONE)
		p->settle = rest == PREFETCH_REST_IDLE;
	p->failures = 0;
	p->is_retrying = false;
	p->gave_up = false;
	p->proved_ns = 0;
	p->all_ns = 0;
	p->begun_ns = clock_now_ns();
	if (rest == PREFETCH_REST_IDLE) {
		p->all->start_ns = p->begun_ns;
		p->held_ns =
			/* this start may delay the rest as long as any other */
			0;
	}
	p->due_ns = 0;
	p->n_turns = 0;
	p->hot_begun_ns = 0;
	p->state = PREFETCH_HOT;
	if (p->running) {
		/* Missing blocks of a hot set do not wait until the rest is fetched. */
		if (!is_hot_set_fetched(p) &&
		    (is_other || p->task == TASK_COLD)) {
			__atomic_store_n(&p->cancel, true, __ATOMIC_RELAXED);
			p->again = true;
		}
		p->again = p->again || !active;
		return;
	}
	if (p->queued)
		prefetcher_dequeue(p->all, p);
	p->task = prefetch_first_task(p);
	prefetcher_enqueue(p->all, p);
}

int prefetch_start(struct prefetch *p, struct hot_list *hot,
		   enum prefetch_rest rest, struct error *err)
{
	AUTO_FINI(hot_set) set = { .order = NULL };
	bool is_other;
	int rc = choose_hot_set(p, hot, &set, err);

	if (hot)
		hot_list_fini(hot);
	if (rc < 0)
		return error_wrap(err, rc, "image %s", p->label);
	(void)pthread_mutex_lock(&p->all->lock);
	if (p->n_stopping) {
		rc = error_set(err, ECANCELED,
			       "image %s: prefetch is being "
			       "stopped",
			       p->label);
	} else {
		is_other = set.order &&
			   !(p->hot && order_equal(p->hot, set.order));
		if (is_other) {
			p->hot_ns = p->hot_at_ns = 0;
			p->guessed_before =
				p->fetched_bytes[TASK_HOT] - p->ahead_bytes;
			p->ahead_bytes = 0;
			p->proved_bytes = 0;
		}
		swap_hot_set(p, &set);
		begin_or_continue_fetch(p, rest, is_other);
		(void)pthread_cond_broadcast(&p->changed);
	}
	(void)pthread_mutex_unlock(&p->all->lock);
	return rc;
}

/* ------------------------------------------------------------- running --- */

/* A block is on the node now. Without the lock. */
static void note_block_here(struct prefetch *p, uint32_t index)
{
	struct block b;

	blockmap_block(p->map, index, &b);
	(void)pthread_mutex_lock(&p->all->lock);
	if (has_bit(p->is_hot, index) && !has_bit(p->is_here, index)) {
		set_bit(p->is_here, index);
		p->hot_have++;
		p->hot_have_bytes += b.csize;
		(void)pthread_cond_broadcast(&p->changed);
	}
	(void)pthread_mutex_unlock(&p->all->lock);
}

/* Callback device_list.have: on the thread that fetches the list, without the lock. */
static void on_listed_block_fetched(void *arg, uint32_t index,
				    uint32_t fetched_bytes)
{
	struct prefetch *p = arg;

	(void)pthread_mutex_lock(&p->all->lock);
	if (p->task == TASK_HOT)
		p->hot_moved_ns = clock_now_ns();
	if (fetched_bytes) {
		p->is_retrying = false;
		set_bit(p->is_fetched, index);
		if (p->task == TASK_HOT)
			set_bit(p->is_fetched_hot, index);
		p->fetched_bytes[p->task] += fetched_bytes;
		p->fetched_blocks[p->task]++;
	}
	(void)pthread_mutex_unlock(&p->all->lock);
	note_block_here(p, index);
}

/* The same callback for prefetch_ahead(); counts for the hot set, whatever task is running. */
static void on_hot_block_fetched(void *arg, uint32_t index,
				 uint32_t fetched_bytes)
{
	struct prefetch *p = arg;

	if (fetched_bytes) {
		(void)pthread_mutex_lock(&p->all->lock);
		set_bit(p->is_fetched, index);
		set_bit(p->is_fetched_hot, index);
		p->fetched_bytes[TASK_HOT] += fetched_bytes;
		p->fetched_blocks[TASK_HOT]++;
		p->ahead_bytes += fetched_bytes;
		(void)pthread_mutex_unlock(&p->all->lock);
	}
	note_block_here(p, index);
}

int prefetch_ahead(struct prefetch *p, const uint32_t *blocks, size_t n,
		   const volatile bool *cancel, struct error *err)
{
	const struct prefetcher_config *cfg = &p->all->cfg;
	const struct device_list list = {
		.blocks = blocks,
		.n = n,
		.priority = SOURCE_HOT,
		.streams = cfg->limits.hot_streams,
		.gap = cfg->limits.gap,
		.range_max = cfg->limits.hot_range,
		.have = on_hot_block_fetched,
		.arg = p,
		.cancel = cancel,
	};
	struct error why = ERROR_INIT;

	if (cfg->pressure && cfg->pressure(cfg->arg, &why))
		return error_set(err, EBUSY, "%s", why.msg);
	return p->fetch ? p->fetch(p->fetch_arg, &list, err)
			: device_fetch_list(p->dev, &list, err);
}

void prefetch_ahead_forget(struct prefetch *p)
{
	(void)pthread_mutex_lock(&p->all->lock);
	p->ahead_bytes = 0;
	(void)pthread_mutex_unlock(&p->all->lock);
}

/* Blocks of an order that must be fetched. */
struct want {
	uint32_t *blocks;
	size_t n;
	/* those among them whose place is pinned, since a mount reads them there */
	size_t n_placed;
	uint64_t left_out; /* unpacked bytes that do not fit */
};

/* Bytes of the room that are in use, without pinned places. */
static uint64_t count_used_room_bytes(struct prefetch *p)
{
	uint64_t sum = 0;
	struct block b;

	for (size_t i = 0; i < p->rest_order->n; i++) {
		uint32_t index = p->rest_order->blocks[i];

		if (!device_has(p->dev, index) ||
		    device_has_place(p->dev, index))
			continue;
		blockmap_block(p->map, index, &b);
		sum += round_up(b.usize, BLOCK_ALIGN);
	}
	return sum;
}

/*
 * List the missing blocks, as far as there is room on the node. More would evict the first ones,
 * so that the next start would fetch them again.
 */
static int list_missing(struct prefetch *p, const struct order *o,
			struct want *ret, struct error *err)
{
	const struct prefetcher_config *cfg = &p->all->cfg;
	struct want w = { .blocks = calloc(o->n + 1, sizeof(*w.blocks)) };
	uint64_t room = UINT64_MAX, used = 0, size;
	struct block b;

	if (!w.blocks)
		return error_nomem(err);
	if (cfg->room) {
		room = cfg->room(cfg->arg);
		used = count_used_room_bytes(p);
	}
	for (size_t i = 0; i < o->n; i++) {
		blockmap_block(p->map, o->blocks[i], &b);
		if (device_has(p->dev, o->blocks[i])) {
			on_listed_block_fetched(p, o->blocks[i], 0);
			continue;
		}
		if (device_has_place(p->dev, o->blocks[i])) {
			w.n_placed++;
			w.blocks[w.n++] = o->blocks[i];
			continue;
		}
		size = round_up(b.usize, BLOCK_ALIGN);
		if (w.left_out || size > room || used > room - size) {
			w.left_out += size;
			continue;
		}
		used += size;
		w.blocks[w.n++] = o->blocks[i];
	}
	*ret = w;
	return 0;
}

/* Wait until the prefetch may go on. False at once when nothing prevents it; true after a
 * wait. */
static bool wait_until_prefetch_may_go_on(struct prefetch *p)
{
	bool cancelled = false, had_to = false;
	int64_t wait, until;

	while (!cancelled && (wait = prefetcher_pause(p, 0)) > 0) {
		had_to = true;
		until = clock_now_ns() + wait;
		(void)pthread_mutex_lock(&p->all->lock);
		if (!p->cancel)
			(void)cond_wait_until(&p->changed, &p->all->lock,
					      until);
		cancelled = p->cancel;
		(void)pthread_mutex_unlock(&p->all->lock);
	}
	return had_to && !cancelled;
}

/* List the missing blocks, once the node is not under pressure. */
static int list_missing_without_pressure(struct prefetch *p,
					 const struct order *o,
					 struct want *ret, struct error *err)
{
	int rc;

	while ((rc = list_missing(p, o, ret, err)) == 0) {
		(void)pthread_mutex_lock(&p->all->lock);
		p->needs_room = ret->n > ret->n_placed || ret->left_out;
		(void)pthread_mutex_unlock(&p->all->lock);
		if ((ret->n == 0 && ret->left_out == 0) ||
		    !wait_until_prefetch_may_go_on(p))
			return 0;
		free(ret->blocks);
	}
	return rc;
}

static int fetch_order(struct prefetch *p, enum task task,
		       const struct order *o, struct error *err)
{
	const struct prefetch_limits *l = &p->all->cfg.limits;
	bool is_hot = task == TASK_HOT;
	struct device_list list = {
		.priority = is_hot ? SOURCE_HOT : SOURCE_COLD,
		.streams = is_hot ? l->hot_streams : l->cold_streams,
		.gap = is_hot ? l->gap : 0,
		.range_max = is_hot ? l->hot_range : l->cold_range,
		.range_grown = is_hot ? l->hot_grown : 0,
		.have = on_listed_block_fetched,
		.arg = p,
		.pause = prefetcher_pause,
		.cancel = &p->cancel,
	};
	struct want w = { .n = 0 };
	int rc = list_missing_without_pressure(p, o, &w, err);

	if (rc < 0)
		return rc;
	list.blocks = w.blocks;
	list.n = w.n;
	if (w.n > 0)
		rc = p->fetch ? p->fetch(p->fetch_arg, &list, err)
			      : device_fetch_list(p->dev, &list, err);
	if (rc == 0 && w.left_out)
		rc = error_set(err, ENOSPC,
			       "the node has no room for %" PRIu64
			       " MiB of it: give the cache more "
			       "(--cache-quota), or the disk",
			       w.left_out / MIB + 1);
	free(w.blocks);
	return rc;
}

int prefetch_run(struct prefetch *p, enum task task, struct error *err)
{
	struct order *o;
	int rc = 0;

	(void)pthread_mutex_lock(&p->all->lock);
	o = order_ref(task == TASK_HOT ? p->hot : p->rest_order);
	(void)pthread_mutex_unlock(&p->all->lock);
	if (o)
		rc = fetch_order(p, task, o, err);
	order_unref(o);
	return rc;
}

/* Is the failure a silent or overloaded registry, rather than a refusal? */
static bool is_temporary_failure(int rc)
{
	return rc == -ETIMEDOUT || rc == -EIO || rc == -ECONNREFUSED ||
	       rc == -EBUSY;
}

/* Pause after a failure, with a random part, so that nodes which failed together do not
 * retry together. */
static int64_t retry_ns(const struct prefetch *p)
{
	unsigned int doublings =
		p->failures < RETRY_DOUBLINGS ? p->failures : RETRY_DOUBLINGS;
	int64_t first = p->all->cfg.limits.retry_ns;
	int64_t ns = (first ? first : RETRY_NS) << doublings;
	uint64_t chance = 0;

	(void)!getrandom(&chance, sizeof(chance), GRND_NONBLOCK);
	return ns + (int64_t)(chance % (uint64_t)(ns / 4 + 1));
}

/* Try again later. With the lock. */
static void retry_prefetch_later(struct prefetch *p, int rc,
				 const struct error *err)
{
	uint64_t blocks =
		p->fetched_blocks[TASK_HOT] + p->fetched_blocks[TASK_COLD];
	bool no_room = rc == -ENOSPC;

	/* A registry that has sent blocks is only slow, so failures are counted from 0. */
	if (!no_room && blocks != p->blocks_before)
		p->failures = 0;
	p->blocks_before = blocks;
	p->is_retrying = is_temporary_failure(rc) && p->failures < RETRIES;
	p->state = no_room          ? PREFETCH_PAUSED
		   : p->is_retrying ? PREFETCH_RETRYING
				    : PREFETCH_FAILED;
	/* Repeated lack of room counts as one pause. */
	p->n_pauses += no_room && p->failures == 0;
	p->n_failures += !no_room;
	p->error = *err;
	p->due_ns = clock_now_ns() + retry_ns(p);
	p->failures++;
	p->requeue = true;
}

bool prefetch_conclude(struct prefetch *p, enum task task, int rc,
		       const struct error *err)
{
	bool yields = p->yields;

	p->yields = false;
	p->starved = false;
	if (p->n_stopping)
		return false;
	if (p->gave_up && rc == -ECANCELED && !p->again)
		rc = 0;
	__atomic_store_n(&p->cancel, false, __ATOMIC_RELAXED);
	if (p->again || p->state == PREFETCH_STOPPED)
		return false;
	if (yields && rc == -ECANCELED) {
		p->n_turns++;
		p->requeue = true;
		return false;
	}
	if (rc < 0) {
		retry_prefetch_later(p, rc, err);
		return false;
	}
	p->failures = 0;
	p->is_retrying = false;
	if (task == TASK_HOT && p->hot && !p->gave_up) {
		p->hot_at_ns = clock_now_ns();
		p->hot_ns = p->hot_at_ns - p->begun_ns;
		p->hot_have = p->hot->n;
		p->hot_have_bytes = p->hot->bytes;
	}
	if (task == TASK_HOT && p->rest) {
		p->task = TASK_COLD;
		p->requeue = true;
		return false;
	}
	p->state = PREFETCH_DONE;
	p->all_ns = clock_now_ns() - p->begun_ns;
	return true;
}

/* ------------------------------------------------------------- waiting --- */

/* The phase to report. With the lock. */
static enum prefetch_phase get_phase_to_report(const struct prefetch *p)
{
	if (p->state != PREFETCH_HOT)
		return p->state;
	if (p->starved)
		return PREFETCH_PAUSED;
	if (p->is_retrying)
		return PREFETCH_RETRYING;
	return p->task == TASK_HOT ? PREFETCH_HOT : PREFETCH_COLD;
}

static bool is_wait_policy_met(const struct prefetch *p,
			       const struct wait_policy *w)
{
	uint64_t all = p->hot ? p->hot->bytes : 0;

	if (w->kind == WAIT_NONE || is_hot_set_fetched(p))
		return true;
	return w->kind == WAIT_SHARE &&
	       p->hot_have_bytes >= all / 1000 * w->permille +
					    all % 1000 * w->permille / 1000;
}

/* Is something wrong, so that its end cannot be predicted? */
static bool is_in_trouble(enum prefetch_phase phase)
{
	return phase == PREFETCH_FAILED || phase == PREFETCH_PAUSED ||
	       phase == PREFETCH_RETRYING;
}

/* Decide a wait: 1: go on waiting; else its result. With the lock. */
static int decide_wait_result(const struct prefetch *p,
			      const struct wait_policy *w, struct error *err)
{
	enum prefetch_phase phase = get_phase_to_report(p);

	if (is_wait_policy_met(p, w))
		return 0;
	if (phase == PREFETCH_STOPPED)
		return error_set(err, ECANCELED, "image %s: prefetch stopped",
				 p->label);
	if (!is_in_trouble(phase))
		return 1;
	if (err)
		*err = p->error;
	return error_wrap(err, p->error.code ? -p->error.code : -EAGAIN,
			  "image %s: prefetch %s", p->label,
			  prefetch_phase_name(phase));
}

int prefetch_wait(struct prefetch *p, const struct wait_policy *policy,
		  int64_t deadline_ns, struct error *err)
{
	int64_t until = INT64_MAX;
	int rc;

	if (policy->kind == WAIT_DEADLINE)
		until = clock_now_ns() + policy->ns;
	if (deadline_ns && deadline_ns < until)
		until = deadline_ns;
	(void)pthread_mutex_lock(&p->all->lock);
	while ((rc = decide_wait_result(p, policy, err)) > 0) {
		if (clock_now_ns() >= until) {
			rc = error_set(err, ETIMEDOUT,
				       "image %s: %zu of %zu blocks of the hot "
				       "set came in time",
				       p->label, p->hot_have,
				       p->hot ? p->hot->n : 0);
			break;
		}
		(void)cond_wait_until(&p->changed, &p->all->lock, until);
	}
	(void)pthread_mutex_unlock(&p->all->lock);
	return rc;
}

void prefetch_wait_end(struct prefetch *p, int64_t deadline_ns)
{
	bool is_early = true;

	(void)pthread_mutex_lock(&p->all->lock);
	while (is_early &&
	       (p->state == PREFETCH_HOT || p->state == PREFETCH_PAUSED ||
		p->state == PREFETCH_RETRYING))
		is_early = cond_wait_until(&p->changed, &p->all->lock,
					   deadline_ns);
	(void)pthread_mutex_unlock(&p->all->lock);
}

/* ------------------------------------------------------------- figures --- */

enum prefetch_phase prefetch_get_phase(struct prefetch *p)
{
	enum prefetch_phase phase;

	(void)pthread_mutex_lock(&p->all->lock);
	phase = get_phase_to_report(p);
	(void)pthread_mutex_unlock(&p->all->lock);
	return phase;
}

void prefetch_get_stats(struct prefetch *p, struct prefetch_stats *ret)
{
	const struct order *all = p->rest_order;
	struct prefetch_stats s = { .all_blocks = all->n,
				    .all_bytes = all->bytes };
	struct block b;

	for (size_t i = 0; i < all->n; i++) {
		if (!device_has(p->dev, all->blocks[i]))
			continue;
		blockmap_block(p->map, all->blocks[i], &b);
		s.all_have++;
		s.all_have_bytes += b.csize;
	}
	(void)pthread_mutex_lock(&p->all->lock);
	s.phase = get_phase_to_report(p);
	if (is_in_trouble(s.phase))
		s.error = p->error;
	if (p->hot) {
		s.hot_blocks = p->hot->n;
		s.hot_bytes = p->hot->bytes;
	}
	s.hot_have = p->hot_have;
	s.hot_have_bytes = p->hot_have_bytes;
	s.hot_fetched_bytes = p->fetched_bytes[TASK_HOT];
	s.cold_fetched_bytes = p->fetched_bytes[TASK_COLD];
	s.hot_fetched_blocks = p->fetched_blocks[TASK_HOT];
	s.cold_fetched_blocks = p->fetched_blocks[TASK_COLD];
	s.pauses = p->n_pauses;
	s.failures = p->n_failures;
	s.is_predicted = p->is_predicted;
	s.has_given_up = p->gave_up;
	s.hot_ns = p->hot_ns;
	s.hot_at_ns = p->hot_at_ns;
	s.all_ns = p->all_ns;
	(void)pthread_mutex_unlock(&p->all->lock);
	*ret = s;
}

int prefetch_fetched(struct prefetch *p, bool hot_only, uint8_t **ret_bits,
		     struct error *err)
{
	uint8_t *bits = calloc(get_bit_map_bytes(p) + 1, 1);

	if (!bits)
		return error_nomem(err);
	(void)pthread_mutex_lock(&p->all->lock);
	memcpy(bits, hot_only ? p->is_fetched_hot : p->is_fetched,
	       get_bit_map_bytes(p));
	(void)pthread_mutex_unlock(&p->all->lock);
	*ret_bits = bits;
	return 0;
}
