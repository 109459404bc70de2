// SPDX-License-Identifier: Apache-2.0
/*
 * Which image gives way when there is no room for another one, or for its book.
 *
 * A node that takes part in images alone may have made them up, and so may a few that
 * take part in the same ones.  Of an image of few each of them takes a part; so much of
 * it as the one who takes least in all is what these few take together, whomever they
 * name with them.  Images give way first of those who take most: a node that is alone
 * loses nothing by it, since it is heard again with its next call, and its leases kept
 * nobody else waiting.  Images that a few share do so only when each of these takes more
 * than a fair part, and those that many share never give way to one of few.
 */
#include "p2p/tracker/tracker_priv.h"

#define FEW 8u
#define UNIT 840u     /* of what is taken: each number up to FEW divides it */
#define FAIR_PART 16u /* of all room, for a node, before it is others' */

struct room_wish {
	bool is_memory; /* bytes are counted, and not images */
	uint64_t own, fair;
};

static struct taken *taken_by(const struct tracker *t, uint32_t node)
{
	return &t->taken[node & (TRACKER_TAKEN - 1)];
}

int taken_new(struct tracker *t, struct error *err)
{
	t->taken = calloc(TRACKER_TAKEN, sizeof(*t->taken));
	return t->taken ? 0 : error_nomem(err);
}

static bool is_of_few(const struct tracker_image *i)
{
	return i->n_who >= 1 && i->n_who <= FEW;
}

void image_charge(struct tracker *t, const struct tracker_image *i)
{
	for (uint32_t k = 0; is_of_few(i) && k < i->n_who; k++) {
		struct taken *n = taken_by(t, i->who[k].node);

		n->images += UNIT / i->n_who;
		n->memory += i->book.memory * UNIT / i->n_who;
	}
}

void image_discharge(struct tracker *t, const struct tracker_image *i)
{
	for (uint32_t k = 0; is_of_few(i) && k < i->n_who; k++) {
		struct taken *n = taken_by(t, i->who[k].node);

		n->images -= UNIT / i->n_who;
		n->memory -= i->book.memory * UNIT / i->n_who;
	}
}

static uint64_t taken_of(const struct tracker *t, const struct room_wish *w,
			 uint32_t node)
{
	const struct taken *n = taken_by(t, node);

	return w->is_memory ? n->memory : n->images;
}

/* The least that one of the nodes which share the image takes in all. Below
 * `bound`: something below it. */
static uint64_t taken_together(const struct tracker *t,
			       const struct room_wish *w,
			       const struct tracker_image *i, uint64_t bound)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t k = 0; k < i->n_who && least >= bound; k++) {
		uint64_t n = taken_of(t, w, i->who[k].node);

		least = n < least ? n : least;
	}
	return least;
}

/* Count what the caller wants as its own: each node that shares an image of few
 * has a part of it. */
static void room_wish_of(const struct tracker *t,
			 const struct tracker_image *keep, uint32_t node,
			 uint64_t more, struct room_wish *ret)
{
	uint64_t all = ret->is_memory ? t->cfg.memory_max : t->cfg.images_max;

	ret->fair = all * UNIT / FAIR_PART;
	if (!keep || !keep->n_who)
		ret->own = taken_of(t, ret, node) + more * UNIT;
	else if (is_of_few(keep))
		ret->own = taken_together(t, ret, keep, 0) +
			   more * UNIT / keep->n_who;
}

/* The image of few that gives way: the longest silent one of those nodes which
 * take most, unless that is less than the caller takes himself, or those with
 * him. */
static struct tracker_image *few_victim(const struct tracker *t,
					const struct tracker_image *keep,
					uint32_t node,
					const struct room_wish *w)
{
	struct tracker_image *best = NULL;
	uint64_t most = 0;

	for (struct tracker_image *i = t->oldest; i; i = i->newer) {
		bool is_own = i->n_who == 1 && i->who[0].node == node;
		uint64_t least = most + 1, n;

		if (i == keep || !is_of_few(i) ||
		    (w->is_memory && !i->book.memory))
			continue;
		if (least < w->own)
			least = w->own;
		if (i->n_who > 1 && least <= w->fair)
			least = w->fair + 1;
		n = is_own ? w->own : taken_together(t, w, i, least);
		if (n < least)
			continue;
		most = n;
		best = i;
	}
	return best;
}

/* The oldest image with leases that no more nodes share than the caller's. */
static struct tracker_image *shared_victim(const struct tracker *t,
					   const struct tracker_image *keep)
{
	for (struct tracker_image *i = t->oldest; i; i = i->newer)
		if (i != keep && i->book.memory && i->n_who <= keep->n_who)
			return i;
	return NULL;
}

struct tracker_image *room_victim(const struct tracker *t,
				  const struct tracker_image *keep,
				  uint32_t node, uint64_t more, bool is_memory)
{
	struct room_wish w = { .is_memory = is_memory };
	struct tracker_image *best;

	room_wish_of(t, keep, node, more, &w);
	best = few_victim(t, keep, node, &w);
	if (best || !keep || keep->n_who <= 1 || w.own > w.fair)
		return best;
	return shared_victim(t, keep);
}

void book_memory(struct tracker *t, struct tracker_image *i, int64_t more)
{
	image_discharge(t, i);
	t->stats.memory += (uint64_t)more;
	i->book.memory += (uint64_t)more;
	image_charge(t, i);
}
