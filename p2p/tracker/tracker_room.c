// SPDX-License-Identifier: Apache-2.0
/*
 * Which image gives way when there is no room for another one, or for its book.
 *
 * A node that takes part in images alone may have made them up.  So those give way
 * first, of the node that takes most of the room by such, and an image where a node is
 * alone never pushes out one that others share.  A node alone loses nothing by it: it
 * is heard again with its next call, and its leases kept nobody else waiting.
 */
#include <errno.h>

#include "p2p/tracker/tracker_priv.h"

/* What one node takes by images where it is alone. */
struct taken {
	uint32_t node; /* member_node_hash(); 0: the place is free */
	uint64_t n;
};

struct shares {
	struct taken *all; /* by hash */
	size_t mask;
};

static struct taken *taken_by(const struct shares *s, uint32_t node)
{
	size_t at = node & s->mask;

	while (s->all[at].node && s->all[at].node != node)
		at = (at + 1) & s->mask;
	s->all[at].node = node;
	return &s->all[at];
}

static uint32_t node_of(const struct tracker *t, const struct tracker_image *i)
{
	return t->members[i->who[0].slot].node;
}

static uint64_t weight(const struct tracker_image *i, bool is_memory)
{
	return is_memory ? i->book.memory : 1;
}

/* Of those alone: the longest silent one of whoever takes most, unless that is less than
 * the caller himself takes. */
static struct tracker_image *lone_victim(const struct tracker *t,
					 const struct tracker_image *keep,
					 const struct shares *s, uint64_t own,
					 bool is_memory)
{
	struct tracker_image *best = NULL;
	uint64_t most = 0;

	for (struct tracker_image *i = t->oldest; i; i = i->newer) {
		uint64_t n;

		if (i == keep || i->n_who != 1 || !weight(i, is_memory))
			continue;
		n = taken_by(s, node_of(t, i))->n;
		if (n < own || n <= most)
			continue;
		most = n;
		best = i;
	}
	return best;
}

/* Of those that no more nodes share than the caller's. */
static struct tracker_image *shared_victim(const struct tracker *t,
					   const struct tracker_image *keep)
{
	for (struct tracker_image *i = t->oldest; i; i = i->newer)
		if (i != keep && i->book.memory && i->n_who <= keep->n_who)
			return i;
	return NULL;
}

/* `node` is the caller's, who wants `more`; `keep` his image, NULL: a new one. */
static struct tracker_image *victim(const struct tracker *t,
				    const struct tracker_image *keep,
				    uint32_t node, uint64_t more,
				    bool is_memory)
{
	bool is_alone = !keep || keep->n_who <= 1;
	struct tracker_image *best;
	struct shares s = { .mask = 16 };
	uint64_t own = 0;

	while (s.mask < 2 * t->n_images + 2)
		s.mask *= 2;
	s.all = calloc(s.mask, sizeof(*s.all));
	if (!s.all)
		return NULL;
	s.mask--;
	for (const struct tracker_image *i = t->oldest; i; i = i->newer)
		if (i->n_who == 1)
			taken_by(&s, node_of(t, i))->n += weight(i, is_memory);
	if (is_alone)
		own = taken_by(&s, node)->n + more;
	/* What he wants to have counts for him, too. */
	if (is_alone)
		taken_by(&s, node)->n = own;
	best = lone_victim(t, keep, &s, own, is_memory);
	free(s.all);
	return best || is_alone ? best : shared_victim(t, keep);
}

int tracker_reserve(struct tracker *t, uint64_t n, struct tracker_image *i,
		    struct error *err)
{
	uint32_t node = i->n_who ? node_of(t, i) : 0;

	while (t->stats.memory + n > t->cfg.memory_max) {
		struct tracker_image *gone = victim(t, i, node, n, true);

		if (!gone)
			return error_set(err, ENOSPC,
					 "tracker: no memory is left for an "
					 "image's leases: --swarm-memory");
		image_drop(t, gone);
	}
	t->stats.memory += n;
	i->book.memory += n;
	return 0;
}

int tracker_make_room(struct tracker *t, uint32_t node, struct error *err)
{
	struct tracker_image *gone;

	if (t->n_images < t->cfg.images_max)
		return 0;
	gone = victim(t, NULL, node, 1, false);
	if (!gone)
		return error_set(err, ENOSPC,
				 "tracker: %zu images are there already",
				 t->n_images);
	image_drop(t, gone);
	return 0;
}
