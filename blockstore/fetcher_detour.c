// SPDX-License-Identifier: Apache-2.0
/*
 * Two images that share a block share its flight, which goes to the registry of the image that
 * requested it first. When that registry hangs or has no free place, the pieces of the other
 * image (*guests* of the transfer) are fetched from that image's own registry. So no image can
 * keep another from its blocks.
 */
#include "blockstore/fetcher.h"
#include "common/clock.h"

/* Move the piece from the flight `from` to one of its own device. False when memory is
 * short: it goes on waiting. */
static bool move_guest_to_own_device(struct fetcher *f, struct flight *from,
				     struct block_wait *p)
{
	struct device *dev = p->owner->dev;
	struct flight *fl = *flight_bucket(f, &from->b);
	struct block b;

	while (fl && !(fl->dev == dev && flight_is_of(fl, &from->b)))
		fl = fl->hnext;
	if (!fl) {
		blockmap_block(dev->map, p->index, &b);
		fl = flight_new(f, dev, p->index, &b);
		if (!fl)
			return false;
		fl->priority = from->priority;
		flight_enqueue(f, fl, true);
	}
	TAILQ_REMOVE(&from->pieces, p, link);
	p->flight = fl;
	TAILQ_INSERT_TAIL(&fl->pieces, p, link);
	return true;
}

/* Move the flight's guests to their own devices; true when some are left. */
static bool move_guests_to_own_devices(struct fetcher *f, struct transfer *t,
				       struct flight *fl)
{
	struct block_wait *p = TAILQ_FIRST(&fl->pieces), *next;
	bool is_left = false;

	for (; p; p = next) {
		next = TAILQ_NEXT(p, link);
		if (p->owner->dev == t->dev)
			continue;
		/* When the data is here already, the wait is nearly over. */
		if (!transfer_hangs(t) || fl->data ||
		    !move_guest_to_own_device(f, fl, p))
			is_left = true;
	}
	return is_left;
}

bool detour_begin(struct fetcher *f)
{
	f->has_guests = false;
	for (unsigned int i = 0; i < f->n_threads; i++) {
		struct transfer *t = &f->threads[i].transfer;

		for (size_t j = t->next; t->dev && j < t->n; j++)
			f->has_guests |=
				move_guests_to_own_devices(f, t, t->flights[j]);
	}
	return f->has_guests;
}

void detour_failed(struct flight *fl, const struct device *than)
{
	const struct block_wait *p;

	TAILQ_FOREACH(p, &fl->pieces, link)
	if (p->owner->dev != than) {
		flight_move(fl, p);
		fl->range = 0;
		return;
	}
}

bool detour_queued(const struct fetcher *f, struct flight *fl,
		   bool (*may)(const struct fetcher *f,
			       const struct device *dev))
{
	const struct block_wait *p;

	TAILQ_FOREACH(p, &fl->pieces, link)
	if (p->owner->dev != fl->dev && may(f, p->owner->dev)) {
		flight_move(fl, p);
		fl->range = 0;
		return true;
	}
	return false;
}
