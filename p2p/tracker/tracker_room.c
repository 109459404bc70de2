// SPDX-License-Identifier: Apache-2.0
/*
 * Chooses the image to drop when there is no room for another image, or for its book.
 *
 * A single node may make up images, and so may a few nodes together. So an image with few members
 * is charged to these members, in equal parts; what the members of an image take together is what
 * the one that takes least takes in all, so that naming uninvolved nodes does not help. Images of
 * the nodes that take most are dropped first: a lone node loses nothing, since its next call adds
 * its image again, and its leases kept no other node waiting. An image shared by a few nodes is
 * only dropped if each takes more than a fair part, and an image shared by many never gives way to
 * one of few.
 */
#include "p2p/tracker/tracker_priv.h"

#define FEW 8u
#define UNIT 840u     /* unit of shares: divisible by each number up to FEW */
#define FAIR_PART 16u /* a node's fair part is 1/FAIR_PART of all room */

struct room_wish {
	bool is_memory; /* count bytes, not images */
	uint64_t own, fair;
};

static struct taken *taken_entry_of_node(const struct tracker *t, uint32_t node)
{
	return &t->taken[node & (TRACKER_TAKEN - 1)];
}

int taken_new(struct tracker *t, struct error *err)
{
	t->taken = calloc(TRACKER_TAKEN, sizeof(*t->taken));
	return t->taken ? 0 : error_nomem(err);
}

static bool image_has_few_members(const struct tracker_image *i)
{
	return i->n_who >= 1 && i->n_who <= FEW;
}

void image_charge(struct tracker *t, const struct tracker_image *i)
{
	for (uint32_t k = 0; image_has_few_members(i) && k < i->n_who; k++) {
		struct taken *n = taken_entry_of_node(t, i->who[k].node);

		n->images += UNIT / i->n_who;
		n->memory += i->book.memory * UNIT / i->n_who;
	}
}

void image_discharge(struct tracker *t, const struct tracker_image *i)
{
	for (uint32_t k = 0; image_has_few_members(i) && k < i->n_who; k++) {
		struct taken *n = taken_entry_of_node(t, i->who[k].node);

		n->images -= UNIT / i->n_who;
		n->memory -= i->book.memory * UNIT / i->n_who;
	}
}

static uint64_t amount_taken_by_node(const struct tracker *t,
				     const struct room_wish *w, uint32_t node)
{
	const struct taken *n = taken_entry_of_node(t, node);

	return w->is_memory ? n->memory : n->images;
}

/* The least total among the nodes that share the image. If it is below `bound`, any value below
 * it. */
static uint64_t least_amount_of_members(const struct tracker *t,
					const struct room_wish *w,
					const struct tracker_image *i,
					uint64_t bound)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t k = 0; k < i->n_who && least >= bound; k++) {
		uint64_t n = amount_taken_by_node(t, w, i->who[k].node);

		least = n < least ? n : least;
	}
	return least;
}

/* Compute what the caller's node takes with its new image; each member of an image of few has a
 * part. */
static void room_wish_of(const struct tracker *t,
			 const struct tracker_image *keep, uint32_t node,
			 uint64_t more, struct room_wish *ret)
{
	uint64_t all = ret->is_memory ? t->cfg.memory_max : t->cfg.images_max;

	ret->fair = all * UNIT / FAIR_PART;
	if (!keep || !keep->n_who)
		ret->own = amount_taken_by_node(t, ret, node) + more * UNIT;
	else if (image_has_few_members(keep))
		ret->own = least_amount_of_members(t, ret, keep, 0) +
			   more * UNIT / keep->n_who;
}

/* Choose an image of few to drop: the longest silent one of the nodes that take most, unless
 * that is less than the caller's nodes take. */
static struct tracker_image *
choose_small_image_to_drop(const struct tracker *t,
			   const struct tracker_image *keep, uint32_t node,
			   const struct room_wish *w)
{
	struct tracker_image *best = NULL;
	uint64_t most = 0;

	for (struct tracker_image *i = t->oldest; i; i = i->newer) {
		bool is_own = i->n_who == 1 && i->who[0].node == node;
		uint64_t least = most + 1, n;

		if (i == keep || !image_has_few_members(i) ||
		    (w->is_memory && !i->book.memory))
			continue;
		if (least < w->own)
			least = w->own;
		if (i->n_who > 1 && least <= w->fair)
			least = w->fair + 1;
		n = is_own ? w->own : least_amount_of_members(t, w, i, least);
		if (n < least)
			continue;
		most = n;
		best = i;
	}
	return best;
}

/* The oldest image that has leases and no more members than the caller's. */
static struct tracker_image *
choose_shared_image_to_drop(const struct tracker *t,
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
	best = choose_small_image_to_drop(t, keep, node, &w);
	if (best || !keep || keep->n_who <= 1 || w.own > w.fair)
		return best;
	return choose_shared_image_to_drop(t, keep);
}

void book_memory(struct tracker *t, struct tracker_image *i, int64_t more)
{
	image_discharge(t, i);
	t->stats.memory += (uint64_t)more;
	i->book.memory += (uint64_t)more;
	image_charge(t, i);
}
