// SPDX-License-Identifier: Apache-2.0
/*
 * Decides which running transfers give way to which; the order of the queues only decides which
 * transfer begins first.
 *
 * Bulk goes on while a reader's request is on its way to the registry, so that the link is not
 * idle, and pauses as soon as the answer comes, until the reader has its block. The rest of a
 * reader's window counts as bulk once no reader waits for it.
 *
 * Also decides how many bulk requests a device has at once. When many nodes share a registry's
 * link, each additional connection takes from the others, until none has enough packets on their
 * way to recover from losses, and waits for seconds. So the number grows only while blocks come
 * fast, and falls when they come slowly.
 */
#include "blockstore/fetcher_pace.h"
#include "blockstore/fetcher_share.h"
#include "common/clock.h"
#include "common/cond.h"

/* After so long without a byte, more urgent transfers are not using the link. */
#define MOMENT_NS (50 * NS_PER_MS)
#define WAIT_NS NS_PER_S
/* Bytes a second of a transfer. A request that begins at this speed allows one more request
 * for each block ... */
#define SWIFT (256u << 10)
/* ... and one that continues at this speed one more each WIDEN_NS; a slower one halves their
 * number. As the number grows slowly and falls fast, nodes approach equal numbers. */
#define FAIR (64u << 10)
#define JUDGE_NS NS_PER_S
#define WIDEN_NS NS_PER_S
#define NARROW_NS (4 * NS_PER_S)
/* Fewer bytes say nothing about speed: they may all have lain in a buffer. */
#define RATE_BYTES (512u << 10)

static void fetcher_pace_note(atomic_int_fast64_t *until)
{
	atomic_store_explicit(until, clock_now_ns() + MOMENT_NS,
			      memory_order_relaxed);
}

static bool is_before_deadline(const atomic_int_fast64_t *until)
{
	return atomic_load_explicit(until, memory_order_relaxed) >
	       clock_now_ns();
}

static bool must_transfer_wait(struct transfer *t)
{
	const struct fetcher *f = t->f;

	if (atomic_load_explicit(&t->is_awaited, memory_order_relaxed))
		return false;
	if (atomic_load_explicit(&f->n_moving, memory_order_relaxed) &&
	    is_before_deadline(&f->moving_until))
		return true;
	return t->priority == SOURCE_COLD && is_before_deadline(&f->hot_until);
}

static enum pace_level fetcher_pace_level(struct pace *p)
{
	struct transfer *t = container_of(p, struct transfer, pace);

	if (atomic_load_explicit(&t->stop, memory_order_relaxed))
		return PACE_STOP;
	return must_transfer_wait(t) ? PACE_WAIT : PACE_GO;
}

static void fetcher_pace_moves(struct pace *p)
{
	struct transfer *t = container_of(p, struct transfer, pace);
	struct fetcher *f = t->f;
	int64_t now = clock_now_ns();

	atomic_store_explicit(&t->moved_ns, now, memory_order_relaxed);
	atomic_store_explicit(&t->dev->host->moved_ns, now,
			      memory_order_relaxed);
	if (!t->first_ns)
		t->first_ns = now;
	if (atomic_load_explicit(&t->is_awaited, memory_order_relaxed)) {
		fetcher_pace_note(&f->moving_until);
		if (!atomic_exchange(&t->is_moving, true))
			atomic_fetch_add(&f->n_moving, 1);
	} else if (t->priority == SOURCE_HOT) {
		fetcher_pace_note(&f->hot_until);
	}
}

static void fetcher_pace_wait(struct pace *p)
{
	struct transfer *t = container_of(p, struct transfer, pace);
	int64_t begin = clock_now_ns(), now = begin, end = begin + WAIT_NS;
	struct fetcher *f = t->f;

	(void)pthread_mutex_lock(&f->lock);
	for (; now < end && fetcher_pace_level(p) == PACE_WAIT;
	     now = clock_now_ns())
		(void)cond_wait_until(&f->way, &f->lock, now + MOMENT_NS);
	(void)pthread_mutex_unlock(&f->lock);
	t->waited_ns += now - begin;
	/* Time spent giving way must not count as hanging. */
	atomic_store(&t->moved_ns, now);
}

/* Set the flag; false when it had this value already. */
static bool set_transfer_awaited(struct transfer *t, bool is_awaited)
{
	if (atomic_exchange(&t->is_awaited, is_awaited) == is_awaited)
		return false;
	t->f->n_awaited += is_awaited ? 1 : -1u;
	t->dev->n_awaited += is_awaited ? 1 : -1u;
	t->dev->host->n_awaited += is_awaited ? 1 : -1u;
	return true;
}

void pace_begin(struct transfer *t)
{
	t->pace = (struct pace){ .level = fetcher_pace_level,
				 .moves = fetcher_pace_moves,
				 .wait = fetcher_pace_wait,
				 .is_urgent = t->priority == SOURCE_DEMAND };
	atomic_store(&t->moved_ns, clock_now_ns());
	atomic_store(&t->is_moving, false);
	atomic_store(&t->stop, false);
	t->first_ns = t->waited_ns = 0;
	t->bytes = 0;
	t->is_judged = false;
	(void)set_transfer_awaited(t, t->priority == SOURCE_DEMAND);
}

void pace_await(struct transfer *t, bool is_awaited)
{
	struct fetcher *f = t->f;

	if (!set_transfer_awaited(t, is_awaited))
		return;
	if (is_awaited) {
		/* The transfer may be giving way right now: wake it. */
		(void)pthread_cond_broadcast(&f->way);
		return;
	}
	if (atomic_exchange(&t->is_moving, false) &&
	    atomic_fetch_sub(&f->n_moving, 1) == 1)
		(void)pthread_cond_broadcast(&f->way);
	/* A demand flight that waited for its device's share of threads may begin now. */
	if (!TAILQ_EMPTY(&f->queue[SOURCE_DEMAND]))
		(void)pthread_cond_signal(&f->work);
}

/* Allow one more request, if all allowed ones are in use: else it would have no effect. */
static void fetcher_pace_widen(struct device *dev)
{
	unsigned int width = atomic_load(&dev->width);

	if (dev->n_bulk >= width)
		atomic_store(&dev->width, width + 1);
}

/* Halve the number of requests. Those begun before still run, so it is not halved again for
 * a while. */
static void fetcher_pace_narrow(struct device *dev, int64_t now)
{
	unsigned int width = atomic_load(&dev->width);

	atomic_store(&dev->is_slow, true);
	if (now < dev->narrow_ns)
		return;
	if (dev->n_bulk && dev->n_bulk < width)
		width = dev->n_bulk;
	atomic_store(&dev->width, width > 1 ? width / 2 : 1);
	dev->narrow_ns = now + NARROW_NS;
}

static bool is_transfer_rate_at_least(const struct transfer *t, int64_t ns,
				      uint64_t rate)
{
	return t->bytes * (uint64_t)NS_PER_S >= (uint64_t)ns * rate;
}

/* Update the device's rate. A transfer that readers wait for is left out, since it only gets
 * what the others leave. */
static void update_device_rate(const struct transfer *t, int64_t ns)
{
	uint64_t rate, was = atomic_load(&t->dev->rate);

	if (t->bytes < RATE_BYTES || ns <= 0 || atomic_load(&t->is_awaited))
		return;
	rate = t->bytes * (uint64_t)NS_PER_S / (uint64_t)ns;
	atomic_store(&t->dev->rate, was ? was - was / 4 + rate / 4 : rate);
}

uint64_t pace_bytes(const struct device *dev, int64_t ns)
{
	uint64_t rate = atomic_load(&dev->rate);

	return rate ? rate / 1000 * (uint64_t)(ns / NS_PER_MS) : UINT64_MAX;
}

void pace_brought(struct transfer *t, uint32_t bytes)
{
	int64_t now = clock_now_ns(), ns = 0;
	struct device *dev = t->dev;

	t->bytes += bytes;
	if (t->priority == SOURCE_DEMAND)
		return;
	/* Count time from the first byte on: before that, the registry may be preparing the
	 * answer. */
	if (t->first_ns)
		ns = now - t->first_ns - t->waited_ns;
	update_device_rate(t, ns);
	if (ns < JUDGE_NS) {
		/* When everything is fast again, short transfers end before they are judged. */
		if (t->bytes >= SWIFT)
			atomic_store(&dev->is_slow, false);
		if (!t->is_judged && is_transfer_rate_at_least(t, ns, SWIFT))
			fetcher_pace_widen(dev);
		return;
	}
	if (is_transfer_rate_at_least(t, ns, SWIFT))
		atomic_store(&dev->is_slow, false);
	if (!is_transfer_rate_at_least(t, ns, FAIR)) {
		fetcher_pace_narrow(dev, now);
	} else if (now >= dev->widen_ns) {
		fetcher_pace_widen(dev);
		dev->widen_ns = now + WIDEN_NS;
	}
	t->is_judged = true;
	t->first_ns = now;
	t->waited_ns = 0;
	t->bytes = 0;
}
