// SPDX-License-Identifier: Apache-2.0
/* The images that the tracker knows. */
#include "common/bytes.h"
#include "common/clock.h"
#include "p2p/tracker/tracker_priv.h"

#define WINDOW_FIRST (2 * MIB)
/* Before anything was measured: 4 MiB a second. */
#define NS_PER_MIB_FIRST (NS_PER_S / 4)

static struct tracker_image **
image_bucket(const struct tracker *t, const struct digest *d, uint32_t n_pieces)
{
	return &t->images[image_hash(t, d, n_pieces) & (t->n_buckets_i - 1)];
}

/* Members that claim another number of pieces for an image are kept apart from the others,
 * whom they so cannot disturb. */
struct tracker_image *tracker_image_find(const struct tracker *t,
					 const struct digest *d,
					 uint32_t n_pieces)
{
	struct tracker_image *i = *image_bucket(t, d, n_pieces);

	while (i && !(digest_equal(&i->digest, d) && i->n_pieces == n_pieces))
		i = i->next;
	return i;
}

/* The entry with most members, where an image has several by numbers of pieces.  They are
 * apart in the table, so all are looked at: only lists ask for it. */
const struct tracker_image *tracker_image_main(const struct tracker *t,
					       const struct digest *d)
{
	const struct tracker_image *best = NULL;

	for (const struct tracker_image *i = t->newest; i; i = i->older)
		if (digest_equal(&i->digest, d) &&
		    (!best || i->n_who > best->n_who))
			best = i;
	return best;
}

static void image_unlink_age(struct tracker *t, struct tracker_image *i)
{
	if (i->older)
		i->older->newer = i->newer;
	else
		t->oldest = i->newer;
	if (i->newer)
		i->newer->older = i->older;
	else
		t->newest = i->older;
	i->older = i->newer = NULL;
}

static void image_link_newest(struct tracker *t, struct tracker_image *i)
{
	i->older = t->newest;
	if (t->newest)
		t->newest->newer = i;
	else
		t->oldest = i;
	t->newest = i;
}

/* Images are kept by the age of their last call. */
void tracker_image_touch(struct tracker *t, struct tracker_image *i)
{
	image_unlink_age(t, i);
	image_link_newest(t, i);
}

struct tracker_image *
tracker_image_add(struct tracker *t, const struct digest *d, uint32_t n_pieces)
{
	struct tracker_image *i = calloc(1, sizeof(*i));
	struct tracker_image **bucket = image_bucket(t, d, n_pieces);

	if (!i)
		return NULL;
	i->digest = *d;
	i->n_pieces = n_pieces;
	i->window = t->cfg.flying_max < WINDOW_FIRST ? t->cfg.flying_max
						     : WINDOW_FIRST;
	i->ns_per_mib = NS_PER_MIB_FIRST;
	i->cut_at = INT64_MIN;
	i->cut_by = NONE;
	i->book.free = NONE;
	i->book.by_end = (struct tracker_list){ .first = NONE, .last = NONE };
	i->next = *bucket;
	*bucket = i;
	image_link_newest(t, i);
	t->n_images++;
	return i;
}

void image_drop(struct tracker *t, struct tracker_image *i)
{
	struct tracker_image **at = image_bucket(t, &i->digest, i->n_pieces);

	while (i->n_who > 0)
		member_remove(t, &t->members[i->who[i->n_who - 1].slot]);
	book_fini(t, i);
	free(i->who);
	image_unlink_age(t, i);
	while (*at != i)
		at = &(*at)->next;
	*at = i->next;
	free(i);
	t->n_images--;
}
