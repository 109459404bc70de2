// SPDX-License-Identifier: Apache-2.0
/*
 * The tracker's images, and memory for their books. tracker_room.c chooses the image that is
 * dropped when there is no room.
 */
#include <errno.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "p2p/tracker/tracker_book.h"

#define LEASES_MAX 65536u /* leases of an image, at most */
#define WINDOW_FIRST (2 * MIB)
/* assumed until measured: 4 MiB a second */
#define NS_PER_MIB_FIRST (NS_PER_S / 4)

static struct tracker_image **
image_bucket(const struct tracker *t, const struct digest *d, uint32_t n_pieces)
{
	return &t->images[image_hash(t, d, n_pieces) & (t->n_buckets_i - 1)];
}

/* Members that name another number of pieces for an image get an entry of their own, so that
 * they cannot disturb the others. */
struct tracker_image *tracker_image_find(const struct tracker *t,
					 const struct digest *d,
					 uint32_t n_pieces)
{
	struct tracker_image *i = *image_bucket(t, d, n_pieces);

	while (i && !(digest_equal(&i->digest, d) && i->n_pieces == n_pieces))
		i = i->next;
	return i;
}

/* The image's entry with most members, if it has several for different numbers of pieces.
 * Searches the whole table, because lists alone need it. */
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

/* The image was called about: move it to the newest end. */
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

/* Reserve `n` bytes for the image's book, dropping other images' books if needed. -ENOSPC. */
static int tracker_reserve(struct tracker *t, uint64_t n,
			   struct tracker_image *i, struct error *err)
{
	uint32_t node = i->n_who ? i->who[0].node : 0;

	while (t->stats.memory + n > t->cfg.memory_max) {
		struct tracker_image *gone = room_victim(t, i, node, n, true);

		if (!gone)
			return error_set(err, ENOSPC,
					 "tracker: no memory is left for an "
					 "image's leases: --swarm-memory");
		image_drop(t, gone);
	}
	book_memory(t, i, (int64_t)n);
	return 0;
}

int tracker_make_room(struct tracker *t, uint32_t node, struct error *err)
{
	struct tracker_image *gone;

	if (t->n_images < t->cfg.images_max)
		return 0;
	gone = room_victim(t, NULL, node, 1, false);
	if (!gone)
		return error_set(err, ENOSPC,
				 "tracker: %zu images are there already",
				 t->n_images);
	image_drop(t, gone);
	return 0;
}

/* ---- the book of an image ---- */

static uint32_t count_pages_of_image(const struct tracker_image *i)
{
	return (i->n_pieces + PAGE_PIECES - 1) / PAGE_PIECES;
}

/* Give back bytes that were reserved and not allocated. */
static void book_give_back(struct tracker *t, struct tracker_image *i,
			   uint64_t bytes)
{
	book_memory(t, i, -(int64_t)bytes);
}

static int add_pages_table(struct tracker *t, struct tracker_image *i,
			   struct error *err)
{
	uint64_t bytes = count_pages_of_image(i) * sizeof(*i->book.pages);
	int rc;

	if (i->book.pages)
		return 0;
	rc = tracker_reserve(t, bytes, i, err);
	if (rc < 0)
		return rc;
	i->book.pages = (struct tracker_piece **)calloc(1, bytes);
	if (!i->book.pages) {
		book_give_back(t, i, bytes);
		return error_nomem(err);
	}
	return 0;
}

/* Pieces of page `at`; the last page has fewer. */
static uint32_t count_pieces_of_page(const struct tracker_image *i, uint32_t at)
{
	uint32_t left = i->n_pieces - at * PAGE_PIECES;

	return left < PAGE_PIECES ? left : PAGE_PIECES;
}

static int add_page(struct tracker *t, struct tracker_image *i, uint32_t at,
		    struct error *err)
{
	uint32_t n = count_pieces_of_page(i, at);
	struct tracker_piece *page = malloc(n * sizeof(*page));

	if (!page) {
		book_give_back(t, i, n * sizeof(*page));
		return error_nomem(err);
	}
	for (uint32_t p = 0; p < n; p++)
		page[p] = (struct tracker_piece){ .lease = NONE };
	i->book.pages[at] = page;
	return 0;
}

/* Find the pages of these pieces that are not allocated, each once. Returns their number. */
static size_t find_missing_pages(const struct tracker_image *i,
				 const uint32_t *pieces, size_t n,
				 uint32_t ret[TRACKER_PIECES_MAX])
{
	size_t n_missing = 0;

	for (size_t k = 0; k < n; k++) {
		uint32_t at = pieces[k] / PAGE_PIECES;
		size_t m = n_missing;

		while (m > 0 && ret[m - 1] != at)
			m--;
		if (m == 0 && !i->book.pages[at])
			ret[n_missing++] = at;
	}
	return n_missing;
}

int book_touch(struct tracker *t, struct tracker_image *i,
	       const uint32_t *pieces, size_t n, struct error *err)
{
	uint32_t missing[TRACKER_PIECES_MAX];
	uint64_t bytes = 0;
	size_t n_missing;
	int rc = add_pages_table(t, i, err);

	if (rc < 0)
		return rc;
	n_missing = find_missing_pages(i, pieces, n, missing);
	for (size_t k = 0; k < n_missing; k++)
		bytes += count_pieces_of_page(i, missing[k]) *
			 sizeof(struct tracker_piece);
	rc = tracker_reserve(t, bytes, i, err);
	if (rc < 0)
		return rc;
	for (size_t k = 0; k < n_missing; k++) {
		int one = add_page(t, i, missing[k], rc < 0 ? NULL : err);

		rc = rc < 0 ? rc : one;
	}
	return rc;
}

void book_fini(struct tracker *t, struct tracker_image *i)
{
	book_memory(t, i, -(int64_t)i->book.memory);
	for (uint32_t k = 0; i->book.pages && k < count_pages_of_image(i); k++)
		free(i->book.pages[k]);
	free((void *)i->book.pages);
	free(i->book.leases);
}

int book_grow(struct tracker *t, struct tracker_image *i, struct error *err)
{
	struct book *b = &i->book;
	uint32_t cap = b->cap ? b->cap * 2 : 64;
	struct lease *l;
	int rc;

	if (cap > LEASES_MAX)
		return error_set(err, ENOSPC, "tracker: too many leases");
	rc = tracker_reserve(t, (cap - b->cap) * sizeof(*l), i, err);
	if (rc < 0)
		return rc;
	l = realloc(b->leases, cap * sizeof(*l));
	if (!l) {
		book_give_back(t, i, (cap - b->cap) * sizeof(*l));
		return error_nomem(err);
	}
	for (uint32_t k = cap; k > b->cap; k--) {
		l[k - 1] = (struct lease){ .next = b->free };
		b->free = k - 1;
	}
	b->leases = l;
	b->cap = cap;
	return 0;
}
