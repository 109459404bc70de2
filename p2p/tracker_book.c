// SPDX-License-Identifier: Apache-2.0
/*
 * The book of an image: which pieces are leased to whom until when, and who read
 * them.  Whether one may be leased is in tracker_leases.c.
 */
#include <errno.h>

#include "p2p/tracker_book.h"

#define LEASES_MAX 65536u /* of an image */

int book_init(struct tracker *t, struct image *i, struct error *err)
{
	uint64_t bytes = i->n_pieces * sizeof(struct piece);
	int rc;

	if (i->book.pieces)
		return 0;
	rc = tracker_reserve(t, bytes, i, err);
	if (rc < 0)
		return rc;
	i->book.pieces = malloc(bytes);
	if (!i->book.pieces) {
		t->stats.memory -= bytes;
		return error_nomem(err);
	}
	for (uint32_t p = 0; p < i->n_pieces; p++)
		i->book.pieces[p] = (struct piece){ .lease = NONE };
	return 0;
}

void book_fini(struct tracker *t, struct image *i)
{
	if (i->book.pieces)
		t->stats.memory -= i->n_pieces * sizeof(struct piece);
	t->stats.memory -= i->book.cap * sizeof(struct lease);
	free(i->book.pieces);
	free(i->book.leases);
}

int book_grow(struct tracker *t, struct image *i, struct error *err)
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
		t->stats.memory -= (cap - b->cap) * sizeof(*l);
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

uint32_t book_find(const struct image *i, uint32_t piece, uint32_t slot)
{
	uint32_t at = i->book.pieces ? i->book.pieces[piece].lease : NONE;

	while (at != NONE && i->book.leases[at].slot != slot)
		at = i->book.leases[at].next;
	return at;
}

void book_end(struct tracker *t, struct image *i, uint32_t at)
{
	struct book *b = &i->book;
	struct lease *l = &b->leases[at];
	struct member *m = &t->members[l->slot];
	uint32_t *p = &b->pieces[l->piece].lease;

	while (*p != at)
		p = &b->leases[*p].next;
	*p = l->next;
	unlink_end(b, l);
	m->flying -= l->bytes;
	window_count(i, m);
	m->n_leases--;
	b->n_leases--;
	t->stats.leases--;
	l->next = b->free;
	b->free = at;
}

void leases_drop(struct tracker *t, struct image *i, uint32_t slot)
{
	uint32_t at = i->book.by_end.first;

	while (t->members[slot].n_leases > 0) {
		uint32_t next = i->book.leases[at].by_end.next;

		if (i->book.leases[at].slot == slot)
			book_end(t, i, at);
		at = next;
	}
}

struct member *piece_reader(const struct tracker *t, const struct piece *p)
{
	struct member *m;

	if (p->done_serial == 0)
		return NULL;
	m = &t->members[p->done_by];
	return m->image && m->serial == p->done_serial ? m : NULL;
}

void piece_forget(const struct tracker *t, struct image *i, struct piece *p)
{
	struct member *m = piece_reader(t, p);

	if (m) {
		m->n_done--;
		i->n_done--;
	}
	p->done_serial = 0;
}
