// SPDX-License-Identifier: Apache-2.0
/*
 * Decides which member may read which piece from the origin.
 *
 * A piece is leased to few members at a time, and not at all while a member that read it is
 * present, from which it spreads; a reader waits for other members for demand_done_ns at most.
 * tracker_window.c learns how many bytes may be leased at once. The duration of a lease follows
 * from the time that its holder needed before.
 */
#include <string.h>

#include "p2p/tracker/tracker_book.h"

#define LATE_MIN (500 * MS)
/* Shares are at most 1/READERS_LEAST of the window, so that new members find room, and no
 * member holds many pieces that all want. */
#define READERS_LEAST 4u
/* Bytes a node may lease at least for waiting readers. */
#define DEMAND_SHARE_MIN MIB
/* A member that let LATE_MANY leases run out may hold only LATE_LEASES at once, even for
 * readers. */
#define LATE_MANY 4u
#define LATE_LEASES 8u
#define RUN_MAX (4 * MIB)
#define RETRY_MIN (50 * MS)
#define RETRY_MAX (30000 * MS)
#define READERS_NAMED 8u
#define ROOM_TIMES_MAX 4u
/* Number of other members that are checked for being late. */
#define OTHERS_MAX 16u
#define TTL_TIMES 3 /* a lease lasts this many times its expected time */

struct wanted {
	uint32_t piece, at; /* at: index in the call */
};

/* State while the leases of one call are given. */
struct giving {
	struct tracker *t;
	struct swarm_member *m;
	const struct tracker_call *c;
	struct tracker_answer *ret;
	int64_t now;
	uint64_t share; /* bytes this member may have leased */
	uint32_t given[TRACKER_PIECES_MAX]; /* indices of the leases given */
	size_t n_given;
	/* Give pieces that are late at other members, too. */
	bool beside_late;
	/* Shortest rest of leases that the member has already. */
	int64_t held_ttl;
	/* Retry time of the first refused piece; -1: none refused. */
	int64_t retry;
};

enum lease_verdict {
	GIVEN, /* or held already */
	TAKEN, /* leased to another member, or read by one */
	FULL,  /* the origin, or this member, has enough to do */
};

static int compare_wanted_by_piece(const void *a, const void *b)
{
	const struct wanted *x = a, *y = b;

	if (x->piece != y->piece)
		return x->piece < y->piece ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

static void lease_refuse(struct giving *g, int64_t retry)
{
	if (g->retry < 0)
		g->retry = retry;
}

/* Expected time of this holder for so many bytes; at most a multiple of the usual time. */
static int64_t lease_expected(const struct swarm_member *m, uint64_t bytes)
{
	int64_t usual = m->image->ns_per_mib, own = m->ns_per_mib;

	if (own < usual)
		own = usual;
	if (own > SLOWER * usual)
		own = SLOWER * usual;
	return (int64_t)((double)bytes / MIB * (double)own);
}

static void count_asker(const struct tracker *t, struct swarm_member *m,
			int64_t now)
{
	struct tracker_image *i = m->image;
	int64_t passed = now - i->asked_since;

	if (!i->asked_round || passed >= t->cfg.interval_ns) {
		i->n_asked_before =
			passed < 2 * t->cfg.interval_ns ? i->n_asked : 0;
		i->n_asked = 0;
		i->asked_since = now;
		i->asked_round++;
	}
	i->n_asked += m->asked_round != i->asked_round;
	m->asked_round = i->asked_round;
}

/* Members that asked lately. Other members may have nothing to ask for: no
 * trace, or only readers. */
static uint32_t count_askers(const struct tracker_image *i)
{
	return i->n_asked > i->n_asked_before ? i->n_asked : i->n_asked_before;
}

/* Time until a quarter of the leased bytes should be read by all members. Longer if more
 * members ask than usual, because most of their calls would be in vain. */
static int64_t wait_for_room_ns(const struct giving *g)
{
	const struct tracker_image *i = g->m->image;
	int64_t all = i->rate ? (int64_t)((double)i->flying * 1000 * MS /
					  (double)i->rate)
			      : lease_expected(g->m, i->flying);
	uint32_t times = count_askers(i) / READERS_USUAL;

	if (times < 1)
		times = 1;
	return all / 4 * (times < ROOM_TIMES_MAX ? times : ROOM_TIMES_MAX);
}

/* Name a member that has the piece in the answer; it may not be a neighbour of the caller yet. */
static void add_reader_to_answer(struct giving *g, const struct swarm_member *m)
{
	if (!g->c->wants_members || m == g->m ||
	    g->ret->n_members >= READERS_NAMED)
		return;
	for (size_t k = 0; k < g->ret->n_members; k++)
		if (strcmp(g->ret->members[k].node, m->text) == 0)
			return;
	member_describe(m, &g->ret->members[g->ret->n_members++]);
}

/* When a lease counts as late: after several times the usual time, not the holder's own,
 * because the holder's link may be slow. */
static int64_t lease_late_at(const struct giving *g, const struct lease *l)
{
	const struct tracker_image *i = g->m->image;
	int64_t usual =
		(int64_t)((double)l->queue / MIB * (double)i->ns_per_mib);

	return l->since +
	       clamp_ns(SLOWER * usual, LATE_MIN, g->t->cfg.lease_max_ns);
}

/* A lease is late when later ones have been read: not all members read so
 * slowly. */
static bool lease_is_late(const struct giving *g, const struct lease *l)
{
	return g->now > lease_late_at(g, l) &&
	       l->since < g->m->image->read_since;
}

static void refuse_until(struct giving *g, int64_t until)
{
	lease_refuse(g, clamp_ns(until - g->now, 0, g->t->cfg.interval_ns));
}

/* When to ask again for a leased piece: when the lease is late, or at `free`, from when it may
 * be leased to the caller too. */
static int64_t leased_piece_retry_time(const struct giving *g,
				       const struct lease *l, int64_t free)
{
	int64_t late = lease_late_at(g, l);

	if (g->now >= late)
		return l->since + (l->ends - l->since) / 2;
	return late < free ? late : free;
}

/* Until when other members read or have the piece, so that it may not be leased; 0: it may. */
static int64_t piece_taken_until(struct giving *g, uint32_t piece, bool demand)
{
	struct tracker *t = g->t;
	struct tracker_image *i = g->m->image;
	struct tracker_piece *p = book_piece(i, piece);
	const struct swarm_member *reader = piece_reader(t, p);
	uint32_t zone = i->who[g->m->at].zone, copies = 0;

	if (reader) {
		int64_t left = piece_believed(t, p, reader, demand, g->now);

		if (left > 0) {
			add_reader_to_answer(g, reader);
			return g->now + left;
		}
	}
	for (uint32_t at = p->lease; at != NONE; at = i->book.leases[at].next) {
		const struct lease *l = &i->book.leases[at];
		int64_t half = l->since + (l->ends - l->since) / 2;

		if ((demand || g->beside_late) && lease_is_late(g, l))
			continue;
		copies += l->zone == zone;
		/* A lease in another zone suffices while no reader waits and it is not late. */
		if (copies >= t->cfg.copies ||
		    (!demand && l->zone != zone && g->now < half)) {
			add_reader_to_answer(g, &t->members[l->slot]);
			return leased_piece_retry_time(g, l,
						       l->zone == zone ? l->ends
								       : half);
		}
	}
	return piece_kept_until(t, p, g->m, g->now);
}

static bool piece_is_taken(struct giving *g, uint32_t piece, bool demand)
{
	struct tracker *t = g->t;
	struct tracker_piece *p = book_piece(g->m->image, piece);
	int64_t until, over;

	/* The member had read the piece and asks again, so it has lost it. */
	if (piece_reader(t, p) == g->m)
		piece_forget(t, g->m->image, p);
	if (demand && wait_is_over(t, g->m, piece, g->now))
		return false;
	until = piece_taken_until(g, piece, demand);
	if (!until)
		return false;
	if (demand) {
		piece_awaited(p, g->m, g->now);
		over = wait_refused(t, g->m, piece, g->now);
		until = until < over ? until : over;
	}
	refuse_until(g, until);
	return true;
}

static bool has_room(const struct giving *g, uint32_t bytes, bool demand)
{
	struct tracker_image *i = g->m->image;
	uint64_t max = i->window, share = g->share;
	uint64_t after = g->m->flying + bytes;

	/* Sizes of pieces are only claims, so limit late members by number. */
	if (g->m->late >= LATE_MANY && g->m->n_leases >= LATE_LEASES)
		return false;
	if (i->flying == 0)
		return true;
	/* An eighth is reserved for pieces that a reader waits for. */
	if (!demand)
		max -= max / 8;
	i->is_short =
		i->flying - g->m->counted + member_keeps_busy(g->m, after) >
		max;
	if (i->is_short)
		return false;
	/* Limit leases for readers, too: other members wait for them. */
	if (demand && share < DEMAND_SHARE_MIN)
		share = DEMAND_SHARE_MIN;
	if (g->m->flying == 0 || after <= share)
		return true;
	i->is_short = g->m->late == 0; /* a larger window would have given
	                                * it more */
	return false;
}

static enum lease_verdict try_give(struct giving *g, size_t k, bool demand)
{
	struct tracker *t = g->t;
	struct tracker_image *i = g->m->image;
	struct book *b = &i->book;
	uint32_t piece = g->c->want[k], bytes = g->c->want_bytes[k];
	uint32_t slot = (uint32_t)(g->m - t->members);
	uint32_t at = book_find(i, piece, slot);
	struct lease *l;

	if (at != NONE) {
		l = &b->leases[at];
		if (l->call == t->n_calls)
			return GIVEN; /* the call names the piece twice */
		/* An earlier answer was lost: the lease goes on, but not longer. */
		l->call = t->n_calls;
		g->ret->granted[g->ret->n_granted++] = piece;
		if (l->ends - g->now < g->held_ttl)
			g->held_ttl = l->ends - g->now;
		return GIVEN;
	}
	if (piece_is_taken(g, piece, demand))
		return TAKEN;
	if (!has_room(g, bytes, demand) || b->free == NONE) {
		lease_refuse(g, wait_for_room_ns(g));
		return FULL;
	}
	at = b->free;
	l = &b->leases[at];
	b->free = l->next;
	*l = (struct lease){ .piece = piece,
			     .bytes = bytes,
			     .slot = slot,
			     .zone = i->who[g->m->at].zone,
			     .next = book_piece(i, piece)->lease,
			     .call = t->n_calls,
			     .since = g->now };
	book_piece(i, piece)->lease = at;
	piece_leased(book_piece(i, piece), g->m);
	wait_end(g->m, piece);
	g->m->flying += bytes;
	book_count(i, g->m);
	g->m->n_leases++;
	g->given[g->n_given++] = at;
	g->ret->granted[g->ret->n_granted++] = piece;
	return GIVEN;
}

/* Give leases of the most wanted piece and its neighbours, because one request reads adjacent
 * pieces. */
static void give_bulk(struct giving *g)
{
	const struct tracker_call *c = g->c;
	struct wanted sorted[TRACKER_PIECES_MAX];
	uint32_t place[TRACKER_PIECES_MAX];
	bool tried[TRACKER_PIECES_MAX] = { false };

	for (size_t k = 0; k < c->n_want; k++)
		sorted[k] = (struct wanted){ c->want[k], (uint32_t)k };
	qsort(sorted, c->n_want, sizeof(*sorted), compare_wanted_by_piece);
	for (size_t k = 0; k < c->n_want; k++)
		place[sorted[k].at] = (uint32_t)k;
	for (size_t k = c->n_demand; k < c->n_want; k++) {
		uint64_t run = 0;

		for (size_t s = place[k]; s < c->n_want && run < RUN_MAX; s++) {
			size_t at = sorted[s].at;

			if (at < c->n_demand || tried[at] ||
			    (s > place[k] &&
			     sorted[s].piece > sorted[s - 1].piece + 1))
				break;
			tried[at] = true;
			switch (try_give(g, at, false)) {
			case GIVEN:
				run += c->want_bytes[at];
				continue;
			case TAKEN:
				break;
			case FULL:
				g->ret->is_full = true;
				return;
			}
			break;
		}
	}
}

/* Set the end of the new leases: TTL_TIMES their expected time from now. */
static void set_ends_of_new_leases(struct giving *g)
{
	struct tracker_image *i = g->m->image;
	int64_t ttl = clamp_ns(TTL_TIMES * lease_expected(g->m, g->m->flying),
			       g->t->cfg.lease_min_ns, g->t->cfg.lease_max_ns);

	for (size_t k = 0; k < g->n_given; k++) {
		struct lease *l = &i->book.leases[g->given[k]];

		l->queue = g->m->flying;
		l->ends = g->now + ttl;
		book_sort(&i->book, g->given[k]);
	}
	i->book.n_leases += (uint32_t)g->n_given;
	g->t->stats.leases += g->n_given;
	g->t->stats.granted_total += g->n_given;
	g->m->has_leased |= g->n_given > 0;
	if (g->ret->n_granted > 0)
		g->ret->ttl_ns = g->n_given == 0 || g->held_ttl < ttl
					 ? g->held_ttl
					 : ttl;
}

static int64_t get_retry_delay_ns(struct giving *g)
{
	int64_t least = (int64_t)g->m->image->n_who * RETRY_PER_MEMBER;
	int64_t retry = g->retry;

	if (least < RETRY_MIN)
		least = RETRY_MIN;
	retry = clamp_ns(retry, least, RETRY_MAX);
	/* Add up to a quarter at random, so that members do not all call at once. */
	return retry +
	       (int64_t)(tracker_random(g->t) % (uint64_t)(retry / 4 + 1));
}

/* Are more than half of the other members (of OTHERS_MAX at most) not late? */
static bool most_other_members_are_in_time(const struct giving *g)
{
	const struct tracker_image *i = g->m->image;
	uint32_t n = i->n_who < OTHERS_MAX ? i->n_who : OTHERS_MAX, late = 0,
		 others = 0;
	uint32_t at = (uint32_t)(tracker_random(g->t) % i->n_who);

	for (; n > 0; n--, at = at + 1 < i->n_who ? at + 1 : 0) {
		const struct swarm_member *m = &g->t->members[i->who[at].slot];

		others += m != g->m;
		late += m != g->m && g->now < m->late_until;
	}
	return 2 * late < others;
}

/* Bytes that the caller may have leased. A few members that read much are better than many that
 * wait for each other while the origin idles. A member gets no more than it reads soon, and
 * little before it has read anything: otherwise the first callers would get everything, and
 * other nodes would get those pieces at the speed of the callers' links. */
static uint64_t fair_share_of_member(const struct giving *g)
{
	const struct tracker_image *i = g->m->image;
	/* Keep no room for members that do not exist: a lone member with a quarter of a small
	 * window would read one piece after the other. */
	uint32_t least = i->n_who < READERS_LEAST ? i->n_who : READERS_LEAST;
	uint32_t askers = count_askers(i);
	uint64_t share, soon;

	if (askers > READERS_USUAL)
		askers = READERS_USUAL;
	if (askers < least)
		askers = least;
	share = i->window / askers;
	soon = member_reads_soon(g->m);
	/* Several connections may carry more than one slow one, which is only known after
	 * trying. */
	if (i->n_who == 1 && g->m->ns_per_mib)
		soon += soon * 3 / 4;
	if (share > soon)
		share = soon;
	if (share < SHARE_MIN)
		share = SHARE_MIN;
	/* A member that lets leases run out gets fewer of them. */
	return share >> g->m->late;
}

int leases_give(struct tracker *t, struct swarm_member *m,
		const struct tracker_call *c, int64_t now,
		struct tracker_answer *ret, struct error *err)
{
	struct giving g = { .t = t,
			    .m = m,
			    .c = c,
			    .ret = ret,
			    .now = now,
			    .held_ttl = INT64_MAX,
			    .retry = -1 };
	struct tracker_image *i = m->image;
	int rc;

	if (c->n_want == 0)
		return 0;
	rc = book_touch(t, i, c->want, c->n_want, err);
	while (rc == 0 && i->book.cap - i->book.n_leases < c->n_want)
		if (book_grow(t, i, NULL) < 0)
			break; /* fewer leases are given */
	if (rc < 0)
		return rc;
	count_asker(t, m, now);
	window_begin(t, i, count_askers(i), c->want_bytes[0]);
	g.share = fair_share_of_member(&g);
	if (now < m->wait_until && !c->n_demand) {
		/* The origin asked this member to wait; others learn it themselves. */
		lease_refuse(&g, m->wait_until - now);
		ret->is_full = true;
	} else if (now < m->late_until && !c->n_demand &&
		   most_other_members_are_in_time(&g)) {
		/* Others are faster, and its pieces would come late to all. */
		lease_refuse(&g, m->late_until - now);
		ret->is_full = true;
	} else {
		for (size_t k = 0; k < c->n_demand; k++)
			if (try_give(&g, k, true) == FULL) {
				ret->is_full = true;
				break;
			}
		if (now < m->wait_until) {
			lease_refuse(&g, m->wait_until - now);
			ret->is_full = true;
		} else {
			give_bulk(&g);
		}
		/* Give late pieces a second lease: they may wait for one slow node. */
		if (ret->n_granted == 0 && !ret->is_full) {
			g.beside_late = true;
			give_bulk(&g);
		}
		set_ends_of_new_leases(&g);
	}
	t->stats.refused_total += c->n_want - ret->n_granted;
	if (g.retry >= 0)
		ret->retry_ns = get_retry_delay_ns(&g);
	return 0;
}
