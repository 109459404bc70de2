// SPDX-License-Identifier: Apache-2.0
/*
 * Upload slots. For each priority, the peers that wait take turns by bytes (deficit round robin,
 * Shreedhar and Varghese, 1995), so a peer that asks for large pieces gets no more bytes than a
 * peer that asks for small ones.
 */
#include <errno.h>
#include <string.h>

#include "p2p/core/slots.h"

#define PRIORITIES 3         /* enum source_priority */
#define QUANTUM (256 * 1024) /* bytes a waiting peer may send in its turn */
#define COLD_SHARE 4
/* A sample counts as this many times the usual at most. */
#define SAMPLE_MAX 4
#define SLOT_MAX_NS \
	INT64_C(30000000) /* longest retry time; see slot_retry_ns() */
#define SLOT_PART 16
#define TOOK_MAX_NS INT64_C(10000000000)
#define SLOW_TIMES 2
#define LATE_PART 16
#define LATE_MIN_NS \
	INT64_C(2000000000) /* a transfer gives up its slot only after at
	                     * least this time */
/* A transfer that is overdue goes on without a slot, but keeps its file descriptor. A peer has
 * at most six bulk transfers, so it takes more than a dozen peers to fill this number. */
#define LATE_MOST 80u
/* The old average counts 7 times, the new sample once. */
#define USUAL_WEIGHT 8

/* A transfer that is being sent. */
struct slot_sending {
	uint64_t what;
	unsigned int peer;
	int64_t begun;
	bool is_demand, is_cold;
	/* The transfer goes on without a slot; its peer gets no other transfer of this kind
	 * until it has ended. */
	bool is_late;
};

struct slot_waiter {
	struct slot_request request;
	/* Next request of the same peer, or next unused entry. */
	struct slot_waiter *next;
};

/* A peer with waiting requests; the peers of a class form a ring. */
struct line {
	unsigned int peer;
	unsigned int n;
	int64_t deficit;
	struct slot_waiter *first, *last;
};

struct slot_class {
	unsigned int waiting;
	/* Peers with waiting requests, in the order of their turns. */
	struct line *lines;
	unsigned int n_lines, at;
};

struct slots {
	struct slots_config cfg;
	struct slot_waiter *waiters, *unused;
	unsigned int demand_busy, bulk_busy;
	/* Transfers without a slot, demand and bulk; at most LATE_MOST. */
	unsigned int n_late;
	/* Transfers that have a slot, and those that lost it by being late. */
	struct slot_sending sending[2 * SLOTS_MAX + LATE_MOST];
	/* Time of the last request for a hot piece; 0: there was none. */
	int64_t hot_asked;
	/* Usual time of a transfer; the configured time until one has ended. */
	int64_t usual_ns;
	bool is_learnt;
	struct slot_class kinds[PRIORITIES];
};

/* Transfers being sent, including those that lost their slot by being late. */
static unsigned int count_sending(const struct slots *s)
{
	return s->bulk_busy + s->demand_busy + s->n_late;
}

static unsigned int count_cold_slots(const struct slots *s)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < count_sending(s); i++)
		n += s->sending[i].is_cold && !s->sending[i].is_late;
	return n;
}

/* While peers ask for hot pieces, cold transfers get few slots, because all transfers share one
 * uplink. */
static unsigned int max_cold_slots(const struct slots *s, int64_t now)
{
	if (s->hot_asked && now - s->hot_asked < 2 * s->usual_ns)
		return (s->cfg.bulk + COLD_SHARE - 1) / COLD_SHARE;
	return s->cfg.bulk;
}

/* Hot transfers may not use all slots: with many at once over one uplink, each piece would
 * reach its peer later, and so would all nodes that get the piece from that peer. */
static unsigned int max_hot_slots(const struct slots *s)
{
	return s->cfg.bulk - s->cfg.bulk / COLD_SHARE;
}

static bool slot_is_free(const struct slots *s, int priority, int64_t now)
{
	unsigned int cold = count_cold_slots(s);

	if (priority == SOURCE_DEMAND)
		return s->demand_busy < s->cfg.demand;
	if (priority == SOURCE_COLD && cold >= max_cold_slots(s, now))
		return false;
	if (priority == SOURCE_HOT && s->bulk_busy - cold >= max_hot_slots(s))
		return false;
	return s->bulk_busy < s->cfg.bulk;
}

static unsigned int *busy_count_of_priority(struct slots *s,
					    enum source_priority priority)
{
	return priority == SOURCE_DEMAND ? &s->demand_busy : &s->bulk_busy;
}

int slots_new(const struct slots_config *cfg, struct slots **ret,
	      struct error *err)
{
	AUTO(slots) s = NULL;

	if (!cfg->bulk || !cfg->demand || cfg->bulk > SLOTS_MAX ||
	    cfg->demand > SLOTS_MAX || !cfg->queued || !cfg->waiting ||
	    !cfg->copies || cfg->waiting > SLOTS_WAITING_MAX ||
	    cfg->retry_min_ns <= 0 || cfg->retry_max_ns < cfg->retry_min_ns)
		return error_set(err, EINVAL, "upload slots: out of range");
	s = calloc(1, sizeof(*s));
	if (!s)
		return error_nomem(err);
	s->cfg = *cfg;
	s->usual_ns = cfg->usual_ns;
	s->waiters =
		calloc(PRIORITIES * (size_t)cfg->waiting, sizeof(*s->waiters));
	if (!s->waiters)
		return error_nomem(err);
	for (int i = 0; i < PRIORITIES; i++) {
		s->kinds[i].lines =
			calloc(cfg->waiting, sizeof(*s->kinds[i].lines));
		if (!s->kinds[i].lines)
			return error_nomem(err);
	}
	for (unsigned int i = PRIORITIES * cfg->waiting; i > 0; i--) {
		s->waiters[i - 1].next = s->unused;
		s->unused = &s->waiters[i - 1];
	}
	*ret = steal_ptr(&s);
	return 0;
}

void slots_free(struct slots *s)
{
	if (!s)
		return;
	for (int i = 0; i < PRIORITIES; i++)
		free(s->kinds[i].lines);
	free(s->waiters);
	free(s);
}

static struct line *find_peer_line(struct slot_class *k, unsigned int peer)
{
	for (unsigned int i = 0; i < k->n_lines; i++)
		if (k->lines[i].peer == peer)
			return &k->lines[i];
	return NULL;
}

/* The peer whose turn it is stays at index `at`; a new peer waits behind all others. */
static struct line *line_add(struct slot_class *k, unsigned int peer)
{
	struct line *l = &k->lines[k->at];

	memmove(l + 1, l, (k->n_lines - k->at) * sizeof(*l));
	*l = (struct line){ .peer = peer };
	if (k->n_lines++)
		k->at++;
	return l;
}

static void line_remove(struct slot_class *k, struct line *l)
{
	unsigned int i = (unsigned int)(l - k->lines);

	memmove(l, l + 1, (--k->n_lines - i) * sizeof(*l));
	if (i < k->at)
		k->at--;
	if (k->at >= k->n_lines)
		k->at = 0;
}

/* A peer that takes much longer than usual cannot pass the piece on soon, so its copy is not
 * counted. */
static bool transfer_is_slow(const struct slots *s,
			     const struct slot_sending *a, int64_t now)
{
	return s->is_learnt && now - a->begun > SLOW_TIMES * s->usual_ns;
}

static bool peer_has_late_transfer(const struct slots *s, unsigned int peer,
				   bool is_demand)
{
	for (unsigned int i = 0; i < count_sending(s); i++)
		if (s->sending[i].peer == peer && s->sending[i].is_late &&
		    s->sending[i].is_demand == is_demand)
			return true;
	return false;
}

/* A peer that reads slowly, or not at all, must not hold a slot that others wait for. */
static bool transfer_is_overdue(const struct slots *s,
				const struct slot_sending *a, bool is_demand,
				int64_t now)
{
	int64_t most = SLOW_TIMES * s->usual_ns;

	if (most < LATE_MIN_NS)
		most = LATE_MIN_NS;
	return !a->is_late && a->is_demand == is_demand &&
	       now - a->begun >= most;
}

/* Take the slot from transfers that are overdue; they go on without one. */
static void late_slots_release(struct slots *s, bool is_demand, int64_t now)
{
	for (unsigned int i = 0; i < count_sending(s); i++) {
		struct slot_sending *a = &s->sending[i];

		if (s->n_late == LATE_MOST)
			return;
		if (!transfer_is_overdue(s, a, is_demand, now))
			continue;
		a->is_late = true;
		(*(is_demand ? &s->demand_busy : &s->bulk_busy))--;
		s->n_late++;
	}
}

static unsigned int count_piece_copies(const struct slots *s, uint64_t what,
				       int64_t now)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < count_sending(s); i++)
		n += s->sending[i].what == what && !s->sending[i].is_demand &&
		     !transfer_is_slow(s, &s->sending[i], now);
	for (int i = SOURCE_HOT; i < PRIORITIES; i++)
		for (unsigned int j = 0; j < s->kinds[i].n_lines; j++)
			for (const struct slot_waiter *w =
				     s->kinds[i].lines[j].first;
			     w; w = w->next)
				n += w->request.what == what;
	return n;
}

static struct slot_sending *
find_sending_of_request(struct slots *s, const struct slot_request *r)
{
	struct slot_sending *last = &s->sending[count_sending(s) - 1],
			    *a = s->sending;
	bool is_demand = r->priority == SOURCE_DEMAND;

	while (a < last && (a->what != r->what || a->peer != r->peer ||
			    a->is_demand != is_demand))
		a++;
	return a;
}

/* Cut a very slow sample, so that a single one cannot change the average much. */
static void learn_usual_transfer_time(struct slots *s, int64_t took)
{
	if (took > TOOK_MAX_NS)
		took = TOOK_MAX_NS;
	if (s->is_learnt && took > SAMPLE_MAX * s->usual_ns)
		took = SAMPLE_MAX * s->usual_ns;
	if (s->is_learnt)
		s->usual_ns += (took - s->usual_ns) / USUAL_WEIGHT;
	else
		s->usual_ns = took;
	s->is_learnt = true;
}

int64_t slots_usual_ns(const struct slots *s)
{
	return s->usual_ns;
}

static int64_t bound_retry_ns(const struct slots *s, int64_t ns)
{
	if (ns < s->cfg.retry_min_ns)
		return s->cfg.retry_min_ns;
	return ns > s->cfg.retry_max_ns ? s->cfg.retry_max_ns : ns;
}

/* Time until the first peer that is being sent the piece should have it. */
static int64_t copy_retry_ns(const struct slots *s, uint64_t what, int64_t now)
{
	int64_t in = s->usual_ns;

	for (unsigned int i = 0; i < count_sending(s); i++) {
		int64_t left = s->sending[i].begun + s->usual_ns - now;

		if (s->sending[i].what == what && !s->sending[i].is_demand &&
		    left < in)
			in = left;
	}
	/* While that transfer is late, have the peer retry now and then, not all the time. */
	if (in < s->usual_ns / LATE_PART)
		in = s->usual_ns / LATE_PART;
	return bound_retry_ns(s, in);
}

/* Time until a slot should be free. Kept short: a free slot goes to whoever asks first, so a
 * peer that waited long would never get one. */
static int64_t slot_retry_ns(const struct slots *s, const struct slot_class *k)
{
	int64_t in = s->usual_ns / s->cfg.bulk * (int64_t)(1 + k->waiting);
	int64_t most = s->usual_ns / SLOT_PART;

	if (most < SLOT_MAX_NS)
		most = SLOT_MAX_NS;
	return bound_retry_ns(s, in < most ? in : most);
}

int slots_add(struct slots *s, const struct slot_request *r, int64_t now,
	      int64_t *ret_retry_ns)
{
	struct slot_class *k = &s->kinds[r->priority];
	struct line *l = find_peer_line(k, r->peer);
	struct slot_waiter *w;

	if (r->priority == SOURCE_HOT)
		s->hot_asked = now;
	if (r->priority != SOURCE_DEMAND &&
	    count_piece_copies(s, r->what, now) >= s->cfg.copies) {
		*ret_retry_ns = copy_retry_ns(s, r->what, now);
		return -EALREADY;
	}
	if (k->waiting == s->cfg.waiting || (l && l->n == s->cfg.queued) ||
	    peer_has_late_transfer(s, r->peer, r->priority == SOURCE_DEMAND)) {
		*ret_retry_ns = slot_retry_ns(s, k);
		return -EBUSY;
	}
	if (!l)
		l = line_add(k, r->peer);
	w = s->unused;
	s->unused = w->next;
	*w = (struct slot_waiter){ .request = *r };
	if (l->last)
		l->last->next = w;
	else
		l->first = w;
	l->last = w;
	l->n++;
	k->waiting++;
	return 0;
}

/* Take `w` out of its peer's list. `before` is the entry before it; NULL: `w` is the first. */
static void waiter_remove(struct slots *s, struct slot_class *k, struct line *l,
			  struct slot_waiter *before, struct slot_waiter *w)
{
	if (before)
		before->next = w->next;
	else
		l->first = w->next;
	if (l->last == w)
		l->last = before;
	w->next = s->unused;
	s->unused = w;
	k->waiting--;
	if (--l->n == 0)
		line_remove(k, l);
}

static void slot_take(struct slots *s, struct slot_class *k,
		      struct slot_request *ret)
{
	for (;;) {
		struct line *l = &k->lines[k->at];

		if (l->deficit >= 0) {
			*ret = l->first->request;
			l->deficit -= ret->bytes;
			waiter_remove(s, k, l, NULL, l->first);
			return;
		}
		l->deficit += QUANTUM;
		if (l->deficit < 0 || k->n_lines > 1)
			k->at = (k->at + 1) % k->n_lines;
	}
}

bool slots_next(struct slots *s, int64_t now, struct slot_request *ret)
{
	for (int i = 0; i < PRIORITIES; i++) {
		struct slot_class *k = &s->kinds[i];

		if (k->waiting == 0)
			continue;
		if (!slot_is_free(s, i, now))
			late_slots_release(s, i == SOURCE_DEMAND, now);
		if (!slot_is_free(s, i, now))
			continue;
		slot_take(s, k, ret);
		s->sending[count_sending(s)] = (struct slot_sending){
			.what = ret->what,
			.peer = ret->peer,
			.begun = now,
			.is_demand = ret->priority == SOURCE_DEMAND,
			.is_cold = ret->priority == SOURCE_COLD,
		};
		(*busy_count_of_priority(s, ret->priority))++;
		return true;
	}
	return false;
}

void slots_failed(struct slots *s, const struct slot_request *r)
{
	struct slot_sending *a = find_sending_of_request(s, r);
	bool was_late = a->is_late;

	*a = s->sending[count_sending(s) - 1];
	if (was_late)
		s->n_late--;
	else
		(*busy_count_of_priority(s, r->priority))--;
}

void slots_done(struct slots *s, const struct slot_request *r, int64_t now)
{
	if (r->priority != SOURCE_DEMAND)
		learn_usual_transfer_time(s, now - find_sending_of_request(s, r)
							     ->begun);
	slots_failed(s, r);
}

void slots_drop_peer(struct slots *s, unsigned int peer)
{
	for (int i = 0; i < PRIORITIES; i++) {
		struct line *l;

		while ((l = find_peer_line(&s->kinds[i], peer)))
			waiter_remove(s, &s->kinds[i], l, NULL, l->first);
	}
}

void slots_drop(struct slots *s, unsigned int peer, uint64_t tag)
{
	for (int i = 0; i < PRIORITIES; i++) {
		struct line *l = find_peer_line(&s->kinds[i], peer);
		struct slot_waiter *before = NULL;

		for (struct slot_waiter *w = l ? l->first : NULL; w;
		     before = w, w = w->next) {
			if (w->request.tag != tag)
				continue;
			waiter_remove(s, &s->kinds[i], l, before, w);
			return;
		}
	}
}
