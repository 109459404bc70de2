// SPDX-License-Identifier: Apache-2.0
/*
 * The book of an image: leases with holder and end, and the members that read pieces.
 * tracker_leases.c decides whether a piece may be leased.
 */

#include "p2p/tracker/tracker_book.h"

/* A member gets leases for about this time ahead; compare QUEUE_NS of tracker_window.c. */
#define SOON_NS (1000 * MS)

struct tracker_piece *book_piece(const struct tracker_image *i, uint32_t piece)
{
	struct tracker_piece *page =
		i->book.pages ? i->book.pages[piece / PAGE_PIECES] : NULL;

	return page ? &page[piece % PAGE_PIECES] : NULL;
}

/* Leases of one call end together, so searching from the back is short. */
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

/* Count only what the member reads soon: the rest waits at the member, and counting it would
 * idle the origin while a slow member holds leases. */
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

	/* A claim costs nothing, so no reader waits because of one. */
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
