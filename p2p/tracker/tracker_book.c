// SPDX-License-Identifier: Apache-2.0
/*
 * The book of an image: which pieces are leased to whom until when, and who read
 * them.  Whether one may be leased is in tracker_leases.c.
 */
#include <errno.h>

#include "p2p/tracker/tracker_book.h"

#define LEASES_MAX 65536u /* of an image */
/* A member has leases for so long ahead, as QUEUE_NS of tracker_window.c. */
#define SOON_NS (1000 * MS)

static uint32_t n_pages(const struct tracker_image *i)
{
	return (i->n_pieces + PAGE_PIECES - 1) / PAGE_PIECES;
}

struct tracker_piece *book_piece(const struct tracker_image *i, uint32_t piece)
{
	struct tracker_piece *page =
		i->book.pages ? i->book.pages[piece / PAGE_PIECES] : NULL;

	return page ? &page[piece % PAGE_PIECES] : NULL;
}

/* Bytes that were reserved and not allocated. */
static void give_back(struct tracker *t, struct tracker_image *i,
		      uint64_t bytes)
{
	book_memory(t, i, -(int64_t)bytes);
}

static int add_pages_table(struct tracker *t, struct tracker_image *i,
			   struct error *err)
{
	uint64_t bytes = n_pages(i) * sizeof(*i->book.pages);
	int rc;

	if (i->book.pages)
		return 0;
	rc = tracker_reserve(t, bytes, i, err);
	if (rc < 0)
		return rc;
	i->book.pages = (struct tracker_piece **)calloc(1, bytes);
	if (!i->book.pages) {
		give_back(t, i, bytes);
		return error_nomem(err);
	}
	return 0;
}

/* The last one has what is left. */
static uint32_t page_pieces(const struct tracker_image *i, uint32_t at)
{
	uint32_t left = i->n_pieces - at * PAGE_PIECES;

	return left < PAGE_PIECES ? left : PAGE_PIECES;
}

static int add_page(struct tracker *t, struct tracker_image *i, uint32_t at,
		    struct error *err)
{
	uint32_t n = page_pieces(i, at);
	struct tracker_piece *page = malloc(n * sizeof(*page));

	if (!page) {
		give_back(t, i, n * sizeof(*page));
		return error_nomem(err);
	}
	for (uint32_t p = 0; p < n; p++)
		page[p] = (struct tracker_piece){ .lease = NONE };
	i->book.pages[at] = page;
	return 0;
}

/* The pages of these pieces that are not there, each once.  Returns how many. */
static size_t missing_pages(const struct tracker_image *i,
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
	n_missing = missing_pages(i, pieces, n, missing);
	for (size_t k = 0; k < n_missing; k++)
		bytes += page_pieces(i, missing[k]) *
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
	for (uint32_t k = 0; i->book.pages && k < n_pages(i); k++)
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
		give_back(t, i, (cap - b->cap) * sizeof(*l));
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

/* Leases of one call end together, so from the back it is a short way. */
void book_sort(struct book *b, uint32_t at)
{
	struct lease *l = &b->leases[at];
	uint32_t prev = b->by_end.last;

	while (prev != NONE && b->leases[prev].ends > l->ends)
		prev = b->leases[prev].by_end.prev;
	l->by_end.prev = prev;
	l->by_end.next =
		prev == NONE ? b->by_end.first : b->leases[prev].by_end.next;
	if (prev == NONE)
		b->by_end.first = at;
	else
		b->leases[prev].by_end.next = at;
	if (l->by_end.next == NONE)
		b->by_end.last = at;
	else
		b->leases[l->by_end.next].by_end.prev = at;
}

static void unlink_end(struct book *b, const struct lease *l)
{
	if (l->by_end.prev == NONE)
		b->by_end.first = l->by_end.next;
	else
		b->leases[l->by_end.prev].by_end.next = l->by_end.next;
	if (l->by_end.next == NONE)
		b->by_end.last = l->by_end.prev;
	else
		b->leases[l->by_end.next].by_end.prev = l->by_end.prev;
}

uint64_t member_reads_soon(const struct swarm_member *m)
{
	if (!m->ns_per_mib)
		return SHARE_MIN;
	return (uint64_t)((double)MIB * SOON_NS / (double)m->ns_per_mib);
}

/* The rest waits at the member: if that were counted, the origin would idle while a
 * slow one has its leases. */
uint64_t member_keeps_busy(const struct swarm_member *m, uint64_t leased)
{
	uint64_t soon = member_reads_soon(m);

	return leased < soon ? leased : soon;
}

void book_count(struct tracker_image *i, struct swarm_member *m)
{
	uint64_t busy = member_keeps_busy(m, m->flying);

	i->flying = i->flying - m->counted + busy;
	m->counted = busy;
}

uint32_t book_find(const struct tracker_image *i, uint32_t piece, uint32_t slot)
{
	const struct tracker_piece *p = book_piece(i, piece);
	uint32_t at = p ? p->lease : NONE;

	while (at != NONE && i->book.leases[at].slot != slot)
		at = i->book.leases[at].next;
	return at;
}

void book_end(struct tracker *t, struct tracker_image *i, uint32_t at)
{
	struct book *b = &i->book;
	struct lease *l = &b->leases[at];
	struct swarm_member *m = &t->members[l->slot];
	uint32_t *p = &book_piece(i, l->piece)->lease;

	while (*p != at)
		p = &b->leases[*p].next;
	*p = l->next;
	unlink_end(b, l);
	m->flying -= l->bytes;
	book_count(i, m);
	m->n_leases--;
	b->n_leases--;
	t->stats.leases--;
	l->next = b->free;
	b->free = at;
}

void leases_drop(struct tracker *t, struct tracker_image *i, uint32_t slot)
{
	uint32_t at = i->book.by_end.first;

	while (t->members[slot].n_leases > 0) {
		uint32_t next = i->book.leases[at].by_end.next;

		if (i->book.leases[at].slot == slot)
			book_end(t, i, at);
		at = next;
	}
}

struct swarm_member *piece_reader(const struct tracker *t,
				  const struct tracker_piece *p)
{
	struct swarm_member *m;

	if (p->done_serial == 0)
		return NULL;
	m = &t->members[p->done_by];
	return m->image && m->serial == p->done_serial ? m : NULL;
}

int64_t piece_believed(const struct tracker *t, const struct tracker_piece *p,
		       const struct swarm_member *reader, bool demand,
		       int64_t now)
{
	int64_t age = (int64_t)((uint32_t)(now / MS) - p->done_ms) * MS;
	bool is_short = demand || p->is_claim || reader->late;

	/* A claim costs nothing to make, so no reader waits for one. */
	if (demand && p->is_claim)
		return 0;
	return (is_short ? t->cfg.demand_done_ns : t->cfg.done_ns) - age;
}

void piece_forget(const struct tracker *t, struct tracker_image *i,
		  struct tracker_piece *p)
{
	struct swarm_member *m = piece_reader(t, p);

	if (m) {
		m->n_done--;
		i->n_done--;
	}
	p->done_serial = 0;
}
