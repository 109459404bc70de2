// SPDX-License-Identifier: Apache-2.0
/* Shares fetch threads among hosts and images; docs/decisions/0006 explains the numbers. */
#include "blockstore/fetcher_share.h"

#include <string.h>

#include "common/clock.h"
#include "common/registry_host.h"

/* A transfer without a byte for so long counts as hanging, if others wait for its thread. */
#define HANG_NS (3 * NS_PER_S)
#define HANGS_FOR_NS (30 * NS_PER_S)

static struct fetch_host *find_host(const struct fetcher *f, const char *name)
{
	struct fetch_host *h;

	LIST_FOREACH(h, &f->hosts, link)
	if (strcmp(h->name, name) == 0)
		return h;
	return NULL;
}

int share_join(struct fetcher *f, struct device *dev, const char *host,
	       struct error *err)
{
	char name[REGISTRY_HOST_MAX];
	struct fetch_host *h;

	registry_host_name(host, name);
	(void)pthread_mutex_lock(&f->lock);
	h = find_host(f, name);
	if (!h) {
		h = calloc(1, sizeof(*h) + strlen(name) + 1);
		if (h) {
			memcpy(h->name, name, strlen(name) + 1);
			LIST_INSERT_HEAD(&f->hosts, h, link);
		}
	}
	if (h)
		h->n_devices++;
	dev->host = h;
	(void)pthread_mutex_unlock(&f->lock);
	return h ? 0 : error_nomem(err);
}

void share_leave(struct device *dev)
{
	struct fetch_host *h = dev->host;
	struct fetcher *f = dev->f;

	if (!h)
		return;
	(void)pthread_mutex_lock(&f->lock);
	if (--h->n_devices == 0) {
		LIST_REMOVE(h, link);
		free(h);
	}
	(void)pthread_mutex_unlock(&f->lock);
}

static bool has_one_host(const struct fetcher *f)
{
	return !LIST_NEXT(LIST_FIRST(&f->hosts), link);
}

static bool host_hangs(const struct fetch_host *h, int64_t now)
{
	return h->hangs_until > now &&
	       atomic_load(&h->moved_ns) <= h->hangs_until - HANGS_FOR_NS;
}

/* Number of threads reserved for hosts that have none. */
static unsigned int count_reserved_threads(const struct fetcher *f)
{
	return f->cfg.threads > 1;
}

/* Number of transfers awaited by readers that the host may have. */
static unsigned int count_host_room(const struct fetcher *f,
				    const struct fetch_host *h)
{
	unsigned int others = f->n_awaited - h->n_awaited;
	unsigned int left = f->cfg.threads - others, most, room;

	if (host_hangs(h, clock_now_ns()))
		return left > count_reserved_threads(f) ? 1 : 0;
	room = has_one_host(f) ? left : (left + 1) / 2;
	most = left > count_reserved_threads(f)
		       ? left - count_reserved_threads(f)
		       : left;
	return room < most ? room : most;
}

bool share_may_begin(const struct fetcher *f, const struct device *dev)
{
	const struct fetch_host *h = dev->host;
	unsigned int room = count_host_room(f, h), left;

	if (h->n_awaited >= room)
		return false;
	left = room - (h->n_awaited - dev->n_awaited);
	/* Each image of the only host gets half of what is left. With several hosts, a host
	 * has only half itself, so its images may take three quarters of that. */
	return dev->n_awaited <
	       (has_one_host(f) ? (left + 1) / 2 : left - left / 4);
}

/* May a device with `own` bulk transfers begin another? It may have three quarters of what
 * others leave, as bulk has fewer threads. */
static bool has_bulk_room(const struct fetcher *f, unsigned int own)
{
	unsigned int left = f->max_bulk - (f->n_bulk - own);

	return own < left - left / 4;
}

bool share_may_begin_bulk(const struct fetcher *f, const struct device *dev)
{
	const struct fetch_host *h = dev->host;
	int64_t now = clock_now_ns();

	if ((dev->n_bulk && dev->hangs_until > now) ||
	    (h->n_bulk && host_hangs(h, now)))
		return false;
	return has_bulk_room(f, dev->n_bulk) &&
	       (has_one_host(f) || has_bulk_room(f, h->n_bulk));
}

/* Rank of a device among those waiting for a thread: the lowest goes first. */
static uint64_t get_device_rank(const struct device *dev, int64_t now)
{
	return (uint64_t)host_hangs(dev->host, now) << 63 |
	       (uint64_t)(dev->hangs_until > now) << 62 |
	       (uint64_t)dev->host->n_awaited << 31 | dev->n_awaited;
}

struct flight *share_next_demand(struct fetcher *f)
{
	struct flight *fl, *best = NULL;
	int64_t now = clock_now_ns();

	TAILQ_FOREACH(fl, &f->queue[SOURCE_DEMAND], queue)
	{
		if (best && (fl->dev == best->dev ||
			     get_device_rank(fl->dev, now) >=
				     get_device_rank(best->dev, now)))
			continue;
		if (!share_may_begin(f, fl->dev) &&
		    !detour_queued(f, fl, share_may_begin))
			continue;
		/* detour_queued() may have moved the flight to another
		 * device. */
		if (!best || get_device_rank(fl->dev, now) <
				     get_device_rank(best->dev, now))
			best = fl;
		if (get_device_rank(best->dev, now) == 0)
			break;
	}
	return best;
}

/* Number of running transfers, not yet stopped, of the device, or with NULL of the host. */
static unsigned int fetcher_share_count(const struct fetcher *f,
					const struct fetch_host *h,
					const struct device *dev,
					bool is_awaited)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < f->n_threads; i++) {
		const struct transfer *t = &f->threads[i].transfer;

		if (!t->dev || atomic_load(&t->stop) || t->dev->host != h ||
		    (dev && t->dev != dev))
			continue;
		n += is_awaited ? atomic_load(&t->is_awaited)
				: t->priority != SOURCE_DEMAND;
	}
	return n;
}

static bool is_silent(const struct transfer *t, int64_t now)
{
	return t->dev && !atomic_load(&t->stop) &&
	       now - atomic_load(&t->moved_ns) >= HANG_NS;
}

static bool host_is_silent(const struct fetch_host *h, int64_t now)
{
	return now - atomic_load(&h->moved_ns) >= HANG_NS;
}

/* Do readers of another device wait for a thread? `*ret_host`: also of another host? */
static bool keeps_waiting(const struct fetcher *f, const struct device *dev,
			  bool *ret_host)
{
	const struct flight *fl;
	bool is_other = false;

	*ret_host = false;
	TAILQ_FOREACH(fl, &f->queue[SOURCE_DEMAND], queue)
	{
		is_other |= fl->dev != dev;
		if (fl->dev->host == dev->host)
			continue;
		*ret_host = true;
		break;
	}
	return is_other;
}

void share_look(struct fetcher *f, int64_t now)
{
	/* When a thread is free, readers wait for nothing but their own share. */
	for (unsigned int i = 0; f->n_idle == 0 && i < f->n_threads; i++) {
		struct transfer *t = &f->threads[i].transfer;
		struct fetch_host *h;
		bool other_host;

		if (!is_silent(t, now) || !atomic_load(&t->is_awaited) ||
		    !keeps_waiting(f, t->dev, &other_host))
			continue;
		t->dev->hangs_until = now + HANGS_FOR_NS;
		h = t->dev->host;
		/* An image of a host may be slow while its other images are not. */
		if (!other_host || !host_is_silent(h, now))
			continue;
		h->hangs_until = now + HANGS_FOR_NS;
		/* A single transfer stays, to notice when the host answers again; blocks of
		 * the stopped ones are queued again. */
		if (fetcher_share_count(f, h, NULL, true) > 1)
			atomic_store(&t->stop, true);
	}
	f->look_ns = TAILQ_EMPTY(&f->queue[SOURCE_DEMAND]) ? 0 : now + NS_PER_S;
	/* Devices that hung before may work now: wake an idle thread to try. */
	if (f->look_ns && f->n_idle)
		(void)pthread_cond_signal(&f->work);
}

void share_look_bulk(struct fetcher *f, int64_t now)
{
	for (unsigned int i = 0; i < f->n_threads; i++) {
		struct transfer *t = &f->threads[i].transfer;
		struct fetch_host *h;

		if (!is_silent(t, now) || t->priority == SOURCE_DEMAND ||
		    atomic_load(&t->is_awaited))
			continue;
		h = t->dev->host;
		if (fetcher_share_count(f, h, t->dev, false) > 1) {
			t->dev->hangs_until = now + HANGS_FOR_NS;
			atomic_store(&t->stop, true);
		} else if (!has_one_host(f) && host_is_silent(h, now) &&
			   fetcher_share_count(f, h, NULL, false) > 1) {
			h->hangs_until = now + HANGS_FOR_NS;
			atomic_store(&t->stop, true);
		}
	}
}
