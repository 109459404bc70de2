// SPDX-License-Identifier: Apache-2.0
/*
 * Learns about the origin and members from leases that end in time, fail or expire.
 *
 * The number of bytes leased at once follows what the origin carries: more while leases end in
 * time, half when the origin fails.
 */
#include "p2p/tracker/tracker_book.h"

/* Leased bytes should be read within this time; more leases would only make reads wait for each
 * other at the origin. */
#define QUEUE_NS (500 * MS)
#define PAUSE_NS (5000 * MS)
#define RATE_NS (250 * MS) /* interval of measuring the origin */
#define WINDOW_MIN MIB
/* Window of a lone member: it keeps no other member waiting, and its share limits it. */
#define WINDOW_ALONE (16 * MIB)
#define LATE_MAX 8u
#define NS_PER_MIB_MIN (MS / 10)
#define NS_PER_MIB_MAX (60000 * MS)
#define ORIGIN_WAIT_MAX (30000 * MS)
#define CUT_TIMES 8
#define PIECES_EACH \
	2u /* one that is read, and one that is asked for meanwhile */

/* Time per MiB that a holder needed for all that it had to read by then. */
static int64_t lease_ns_per_mib(const struct lease *l, int64_t until)
{
	return clamp_ns((int64_t)((double)(until - l->since) * MIB /
				  (double)l->queue),
			NS_PER_MIB_MIN, NS_PER_MIB_MAX);
}

/* The leases of one call expire together and count once. If all members need longer than
 * expected, none is late. */
static void note_expired_call(const struct tracker *t, struct swarm_member *m,
			      const struct lease *l, int64_t now)
{
	struct tracker_image *i = m->image;
	int64_t took = lease_ns_per_mib(l, l->ends); /* it took at least this
	                                           * long */

	if (m->late_call == l->call)
		return;
	m->late_call = l->call;
	/* Limit one sample: a small lease of minimum duration says little. */
	if (took > i->ns_per_mib)
		i->ns_per_mib += (clamp_ns(took, 0, SLOWER * i->ns_per_mib) -
				  i->ns_per_mib) /
				 8;
	if (took > m->ns_per_mib)
		m->ns_per_mib = took;
	if (took < SLOWER * i->ns_per_mib)
		return;
	m->late += m->late < LATE_MAX;
	m->late_until = now + (t->cfg.lease_min_ns << m->late);
}

void leases_expire(struct tracker *t, struct tracker_image *i, int64_t now)
{
	while (i->book.by_end.first != NONE) {
		const struct lease *l = &i->book.leases[i->book.by_end.first];

		if (l->ends > now)
			return;
		t->stats.expired_total++;
		note_expired_call(t, &t->members[l->slot], l, now);
		piece_ran_out(book_piece(i, l->piece), &t->members[l->slot]);
		book_end(t, i, i->book.by_end.first);
	}
}

/* Measure the bytes that the origin carries for all members. */
static void rate_measure(struct tracker_image *i, uint32_t bytes, int64_t now)
{
	int64_t took = now - i->rate_since;
	uint64_t rate;

	i->rate_bytes += bytes;
	if (took < RATE_NS)
		return;
	rate = (uint64_t)((double)i->rate_bytes * 1000 * MS / (double)took);
	if (took > PAUSE_NS)
		rate = 0; /* after a long pause the rate says nothing */
	/* Keep the recent maximum, decaying slowly: if members are busy with each other they
	 * read less, though the origin could carry more. */
	i->rate -= i->rate / 16;
	if (rate > i->rate)
		i->rate = rate;
	i->rate_bytes = 0;
	i->rate_since = now;
}

static uint64_t max_window_bytes(const struct tracker *t,
				 const struct tracker_image *i)
{
	uint64_t most = (uint64_t)((double)i->rate * QUEUE_NS / (1000.0 * MS));
	/* At least a share for half of the usual readers: a low rate may be due to their links,
	 * and less leasing would lower it further. */
	uint64_t least =
		i->n_who == 1 ? WINDOW_ALONE : READERS_USUAL * SHARE_MIN / 2;

	if (!i->is_steady && least < i->window_first)
		least = i->window_first;
	if (most < least)
		most = least;
	if (i->rate == 0 || most > t->cfg.flying_max)
		return t->cfg.flying_max;
	return most;
}

/* Enlarge the window, as the origin carried what was asked: doubled within the time of a read
 * until the first failure, then by a MiB. */
static void window_grow(const struct tracker *t, struct tracker_image *i,
			uint32_t bytes)
{
	uint64_t more = bytes, most = max_window_bytes(t, i);

	/* A window of few large pieces is rarely full, so half counts. */
	if (i->flying < i->window / 2 && !i->is_short)
		return; /* the window was not used up */
	if (i->is_steady)
		more = (uint64_t)bytes * MIB / i->window + 1;
	i->window += more;
	if (i->window > most)
		i->window = most;
}

void window_begin(const struct tracker *t, struct tracker_image *i,
		  uint32_t askers, uint32_t bytes)
{
	uint64_t first;

	/* Smaller pieces fit into the share of the window that a member has at least. */
	if (bytes <= SHARE_MIN)
		return;
	if (askers > READERS_USUAL)
		askers = READERS_USUAL;
	first = PIECES_EACH * (uint64_t)askers * (bytes < MIB ? bytes : MIB);
	if (first > t->cfg.flying_max)
		first = t->cfg.flying_max;
	if (i->window_first < first)
		i->window_first = first;
	if (!i->is_steady && i->window < i->window_first)
		i->window = i->window_first;
}

/* Halve the window after a failure.  Reads that fail at the same time count as one failure; and
 * the failures of a single member among many cut it more rarely, since the origin serves the
 * others, who would get nothing more. */
static void window_cut(const struct tracker *t, const struct swarm_member *m,
		       int64_t now)
{
	struct tracker_image *i = m->image;
	uint32_t slot = (uint32_t)(m - t->members);
	int64_t times =
		slot == i->cut_by ? clamp_ns(i->n_who, 1, CUT_TIMES) : 1;

	i->is_steady = true;
	if (i->cut_at != INT64_MIN &&
	    now - i->cut_at < times * t->cfg.lease_min_ns)
		return;
	i->cut_at = now;
	i->cut_by = slot;
	i->window /= 2;
	if (i->window < WINDOW_MIN)
		i->window = WINDOW_MIN;
}

/* A node may say that it read a piece without a lease: its lease ran out, or a tracker before
 * this one gave it; or the node lies.  So it is believed once for each piece, and never while
 * others wait for the reader that has the lease. */
static bool claim_is_believed(const struct tracker *t,
			      const struct tracker_piece *p, int64_t now)
{
	const struct swarm_member *reader = piece_reader(t, p);

	if (p->was_claimed)
		return false;
	return !reader || piece_believed(t, p, reader, false, now) <= 0;
}

static void note_piece_was_read(struct tracker *t, struct swarm_member *m,
				uint32_t piece, int64_t now)
{
	struct tracker_image *i = m->image;
	struct tracker_piece *p = book_piece(i, piece);
	uint32_t slot = (uint32_t)(m - t->members);
	uint32_t at = book_find(i, piece, slot);

	t->stats.done_total++;
	if (at == NONE && !claim_is_believed(t, p, now))
		return;
	if (at != NONE) {
		const struct lease *l = &i->book.leases[at];
		int64_t took = lease_ns_per_mib(l, now);

		i->ns_per_mib += (took - i->ns_per_mib) / 8;
		m->ns_per_mib =
			m->ns_per_mib ? (3 * m->ns_per_mib + took) / 4 : took;
		m->late -= m->late > 0;
		if (l->since > i->read_since)
			i->read_since = l->since;
		rate_measure(i, l->bytes, now);
		window_grow(t, i, l->bytes);
		book_end(t, i, at);
	}
	piece_forget(t, i, p);
	p->done_by = slot & (TRACKER_SLOTS_MAX - 1);
	p->is_claim = at == NONE;
	p->was_claimed |= p->is_claim;
	p->done_serial = m->serial;
	p->done_ms = (uint32_t)(now / MS);
	m->n_done++;
	i->n_done++;
}

void leases_report(struct tracker *t, struct swarm_member *m,
		   const struct tracker_call *c, int64_t now)
{
	struct tracker_image *i = m->image;
	uint32_t slot = (uint32_t)(m - t->members);
	bool failed = false;

	if (c->n_done > 0 && book_touch(t, i, c->done, c->n_done, NULL) == 0)
		for (size_t k = 0; k < c->n_done; k++)
			note_piece_was_read(t, m, c->done[k], now);
	for (size_t k = 0; k < c->n_failed; k++) {
		uint32_t at = book_find(i, c->failed[k], slot);

		if (at == NONE)
			continue;
		t->stats.failed_total++;
		book_end(t, i, at);
		failed = true;
	}
	/* Only a member that read there knows the origin's state. */
	if (failed || (c->origin_wait_ns > 0 && m->has_leased))
		window_cut(t, m, now);
	if (c->origin_wait_ns > 0 && m->has_leased) {
		int64_t until =
			now + clamp_ns(c->origin_wait_ns, 0, ORIGIN_WAIT_MAX);

		if (until > m->wait_until)
			m->wait_until = until;
	}
}
