// SPDX-License-Identifier: Apache-2.0
/*
 * Calls to the trackers: which other nodes take part, and which pieces may be read from the
 * origin. An image has one call under way; whatever comes up meanwhile goes with the next.
 */
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "p2p/engine/engine_peer.h"
#include "p2p/tracker/tracker_client.h"

#define INTERVAL_NS (2 * NS_PER_S)
#define BATCH_NS (2 * NS_PER_MS) /* shortest time between two calls */
/* A new node meets others before it asks for leases, because they may have all pieces. It waits
 * the first time at most, and the second after the first neighbour joined, which announces its
 * pieces at once. */
#define MEET_NS (400 * NS_PER_MS)
#define MET_NS (80 * NS_PER_MS)
#define MEET_STEP_NS (5 * NS_PER_MS)
#define RETRY_NS (200 * NS_PER_MS)
#define ENDED_NS (5 * NS_PER_MS) /* ended leases are reported after this */
/* A tracker that has no room for an image's leases still lists its members. For this long after
 * such an answer the node takes turns instead, without switching back and forth. */
#define FULL_NS (10 * NS_PER_S)

struct engine_call {
	struct work work;
	struct p2p *p;
	struct p2p_image *i; /* NULL: the image is closed */
	struct tracker_call call;
	struct leases leases;
	uint32_t want[ASKS_MAX * SWARM_LEASE_MAX];
	uint32_t want_bytes[ASKS_MAX * SWARM_LEASE_MAX];
	struct tracker_answer answer;
	int rc;
	/* Under p->lock: the call that says that the image is left; must follow this call. */
	struct engine_call *last;
	bool is_answered;
};

/* Arm the timer for a call after `delay_ns`, or leave it if due sooner. */
static void tracker_arm(struct p2p_image *i, int64_t delay_ns)
{
	int64_t at = clock_now_ns() + delay_ns;

	if (i->is_closing || (i->calls.timer_at && i->calls.timer_at <= at))
		return;
	i->calls.timer_at = at;
	engine_arm(i->p, &i->calls.timer, delay_ns);
}

static bool image_meets_peers(const struct p2p_image *i, int64_t now)
{
	int64_t met = neighbours_met(i);

	if (i->calls.is_alone || neighbours_heard(i) ||
	    now - i->opened >= MEET_NS)
		return false;
	return !met || now - met < MET_NS;
}

/* Is there a reason for a call before other nodes are met? */
static bool is_urgent(const struct p2p_image *i)
{
	const struct leases *l = &i->calls.leases;

	for (size_t k = 0; k < l->n_asks; k++)
		if (l->asks[k].is_demand)
			return true;
	return l->n_done || l->n_failed || !i->calls.called ||
	       i->calls.is_leaving;
}

/* ------------------------------------------------------------- leases --- */

void tracker_want(struct p2p_image *i, const uint32_t *pieces, size_t n,
		  enum source_priority priority)
{
	struct leases *l = &i->calls.leases;
	int64_t since = clock_now_ns() - i->calls.called;
	struct ask *a;

	/* By now the core has given up on the oldest request. */
	if (l->n_asks == ASKS_MAX)
		memmove(l->asks, l->asks + 1, --l->n_asks * sizeof(l->asks[0]));
	a = &l->asks[l->n_asks++];
	memcpy(a->pieces, pieces, n * sizeof(*pieces));
	a->n = n;
	a->is_demand = priority == SOURCE_DEMAND;
	/* By the time of the call, neighbours may have announced the piece. */
	i->calls.has_waited =
		i->calls.has_waited || image_meets_peers(i, clock_now_ns());
	tracker_arm(i, since > BATCH_NS ? 0 : BATCH_NS - since);
}

void tracker_done(struct p2p_image *i, uint32_t piece, int rc)
{
	struct leases *l = &i->calls.leases;

	if (!i->p->trackers)
		return;
	if (rc < 0 && l->n_failed < TRACKER_PIECES_MAX)
		l->failed[l->n_failed++] = piece;
	else if (rc == 0 && l->n_done < TRACKER_PIECES_MAX)
		l->done[l->n_done++] = piece;
	/* Report the ended lease, so that others may read. */
	tracker_arm(i, ENDED_NS);
}

void tracker_wait(struct p2p_image *i, int64_t ns)
{
	i->calls.leases.origin_wait_ns = ns;
}

/* Keep the ended leases of a call that failed: the tracker was not told of them. */
static void keep_unreported_leases(struct p2p_image *i,
				   const struct leases *old)
{
	struct leases *l = &i->calls.leases;

	for (size_t k = 0; k < old->n_done; k++)
		if (l->n_done < TRACKER_PIECES_MAX)
			l->done[l->n_done++] = old->done[k];
	for (size_t k = 0; k < old->n_failed; k++)
		if (l->n_failed < TRACKER_PIECES_MAX)
			l->failed[l->n_failed++] = old->failed[k];
}

/* --------------------------------------------------------------- calls --- */

static void announce_run(struct work *w)
{
	struct engine_call *c = container_of(w, struct engine_call, work),
			   *last;
	struct p2p *p = c->p;

	c->rc = tracker_client_call(p->trackers, &c->call, &c->answer, NULL);
	(void)pthread_mutex_lock(&p->lock);
	c->is_answered = true;
	last = c->last;
	(void)pthread_mutex_unlock(&p->lock);
	if (last)
		announce_run(&last->work);
}

/* Must the last call wait for this one? If the tracker got the leave first, the earlier call
 * would make the node a member again. */
static bool leave_call_queue(struct engine_call *last, struct engine_call *c)
{
	bool is_later;

	(void)pthread_mutex_lock(&c->p->lock);
	is_later = !c->is_answered;
	if (is_later)
		c->last = last;
	(void)pthread_mutex_unlock(&c->p->lock);
	return is_later;
}

/* Tell one swarm that the tracker answers, or all swarms that it does not. */
static void set_tracker(struct p2p_image *i, bool is_there, int64_t now)
{
	bool was_there = !swarm_takes_turns(i->swarm);

	if (!is_there)
		image_turns(i, now);
	swarm_tracker(i->swarm, is_there, now);
	if (was_there && !is_there)
		links_offer(i);
	image_settle(i);
}

/* Does the tracker answer, even if it refuses this image? Other errors, such as a bad token,
 * concern all images. */
static bool tracker_answers(int rc)
{
	return rc == 0 || rc == -EINVAL || rc == -EOPNOTSUPP || rc == -ENOMEM ||
	       rc == -EBUSY;
}

/* Does the tracker give leases for this image? */
static bool tracker_gives_leases(struct p2p_image *i, int rc, int64_t now)
{
	if (rc == -EBUSY)
		i->calls.full_until = now + FULL_NS;
	return rc == 0 && now >= i->calls.full_until;
}

static void set_trackers(struct p2p *p, bool is_there, int64_t now)
{
	struct p2p_image *i;

	if (p->tracker_is_there == is_there)
		return;
	p->tracker_is_there = is_there;
	LIST_FOREACH(i, &p->images, all)
	set_tracker(i, is_there, now);
}

static void members_learn(struct p2p_image *i, const struct tracker_answer *a,
			  int64_t now)
{
	for (size_t k = 0; k < a->n_members; k++) {
		const struct tracker_member *m = &a->members[k];
		struct net_node n = { .name = "" };
		struct member *known;

		memcpy(n.name, m->node, sizeof(n.name));
		memcpy(n.addr, m->addr, sizeof(n.addr));
		memcpy(n.rack, m->rack, sizeof(n.rack));
		memcpy(n.zone, m->zone, sizeof(n.zone));
		memcpy(n.region, m->region, sizeof(n.region));
		known = member_know(i->p, &n, false);
		if (known)
			member_takes_part(known, i, WORD_GIVEN);
	}
	members_connect(i, now);
}

static bool is_granted(const struct tracker_answer *a, uint32_t piece)
{
	for (size_t k = 0; k < a->n_granted; k++)
		if (a->granted[k] == piece)
			return true;
	return false;
}

/* Pass one answer to the core, and give back the leases that it does not use now. */
static void leases_grant(struct p2p_image *i, const struct swarm_grant *g,
			 int64_t now)
{
	bool is_read[SWARM_LEASE_MAX] = { false };

	i->calls.granted = g;
	i->calls.is_read = is_read;
	swarm_leases(i->swarm, g, now);
	i->calls.granted = NULL;
	i->calls.is_read = NULL;
	for (size_t k = 0; k < g->n_granted; k++)
		if (!is_read[k])
			tracker_done(i, g->granted[k], -ECANCELED);
}

void tracker_reads(struct p2p_image *i, uint32_t piece)
{
	for (size_t k = 0; i->calls.granted && k < i->calls.granted->n_granted;
	     k++)
		if (i->calls.granted->granted[k] == piece)
			i->calls.is_read[k] = true;
}

static void tell_leases(struct p2p_image *i, const struct engine_call *c,
			int64_t now)
{
	uint32_t granted[SWARM_LEASE_MAX];

	for (size_t k = 0; k < c->leases.n_asks; k++) {
		const struct ask *a = &c->leases.asks[k];
		struct swarm_grant g = {
			.asked = a->pieces,
			.n_asked = a->n,
			.granted = granted,
			.is_full = c->rc < 0 || c->answer.is_full,
			.ttl_ns = c->answer.ttl_ns,
			.retry_ns = c->rc < 0 ? RETRY_NS : c->answer.retry_ns,
		};

		for (size_t j = 0; c->rc == 0 && j < a->n; j++)
			if (is_granted(&c->answer, a->pieces[j]))
				granted[g.n_granted++] = a->pieces[j];
		i->p->leases += g.n_granted;
		leases_grant(i, &g, now);
	}
}

/* Bound the interval: a faulty tracker must not make this node call without pause. */
static int64_t bound_call_interval(int64_t ns)
{
	if (ns < INTERVAL_NS / 10)
		return INTERVAL_NS / 10;
	return ns < INTERVAL_NS * 60 ? ns : INTERVAL_NS * 60;
}

/* Time until the next call: soon if leases ended meanwhile, because they keep a share of the
 * origin from other nodes. */
static int64_t get_next_call_delay_ns(const struct p2p_image *i)
{
	const struct leases *l = &i->calls.leases;
	uint64_t chance =
		engine_random(i->p) % (uint64_t)(i->calls.interval / 2 + 1);

	if (l->n_asks)
		return BATCH_NS;
	if (l->n_done || l->n_failed)
		return ENDED_NS;
	return i->calls.interval / 4 * 3 + (int64_t)chance;
}

static void announce_done(struct work *w)
{
	struct engine_call *c = container_of(w, struct engine_call, work);
	struct p2p_image *i = c->i;
	struct p2p *p = c->p;
	int64_t now = clock_now_ns();

	set_trackers(p, tracker_answers(c->rc), now);
	if (i) {
		i->calls.call = NULL;
		set_tracker(i, tracker_gives_leases(i, c->rc, now), now);
		if (c->rc == 0) {
			members_learn(i, &c->answer, now);
			fault_namesake(p, c->answer.namesake);
			i->calls.is_alone = c->answer.swarm <= 1;
			if (!i->calls.is_alone)
				atomic_store(&i->told_ns, now);
			i->calls.interval =
				bound_call_interval(c->answer.interval_ns);
		}
		tell_leases(i, c, now);
		tracker_arm(i, get_next_call_delay_ns(i));
		/* Keep ended leases for the next call, but do not call sooner for them: the
		 * trackers may be away for long. */
		if (c->rc < 0)
			keep_unreported_leases(i, &c->leases);
		image_settle(i);
	}
	free(c->last);
	free(c);
}

/* Keep requests without waiting readers for a later call. */
static void keep_bulk_lease_asks(struct p2p_image *i, struct leases *l)
{
	size_t n = 0;

	for (size_t k = 0; k < l->n_asks; k++) {
		if (l->asks[k].is_demand)
			l->asks[n++] = l->asks[k];
		else
			i->calls.leases.asks[i->calls.leases.n_asks++] =
				l->asks[k];
	}
	l->n_asks = n;
	i->calls.has_waited = i->calls.leases.n_asks > 0;
}

static void announce_fill(struct p2p_image *i, struct engine_call *c)
{
	const struct net_node *self = &i->p->self;
	struct swarm_stats s;
	size_t n = 0;

	swarm_get_stats(i->swarm, &s);
	c->leases = i->calls.leases;
	memset(&i->calls.leases, 0, sizeof(i->calls.leases));
	if (image_meets_peers(i, clock_now_ns()))
		keep_bulk_lease_asks(i, &c->leases);
	c->call = (struct tracker_call){
		.image = i->digest,
		.node = self->name,
		.addr = self->addr,
		.rack = self->rack,
		.zone = self->zone,
		.region = self->region,
		.n_pieces = i->n,
		.have = s.have,
		.leaving = i->calls.is_leaving,
		.run = i->p->run,
		.opening = i->id,
		.wants_members = neighbours_count(i) < neighbours_wanted(i),
		.want = c->want,
		.want_bytes = c->want_bytes,
		.done = c->leases.done,
		.failed = c->leases.failed,
		.n_done = c->leases.n_done,
		.n_failed = c->leases.n_failed,
		.origin_wait_ns = c->leases.origin_wait_ns,
	};
	/* First pass: pieces that readers wait for. */
	for (int turn = 0; turn < 2; turn++) {
		for (size_t k = 0; k < c->leases.n_asks; k++) {
			const struct ask *a = &c->leases.asks[k];

			for (size_t j = 0; a->is_demand == !turn && j < a->n;
			     j++) {
				c->want_bytes[n] = i->sizes[a->pieces[j]];
				c->want[n++] = a->pieces[j];
			}
		}
		if (turn == 0)
			c->call.n_demand = n;
	}
	c->call.n_want = n;
}

/* Neighbours that joined meanwhile may have the pieces that leases were asked for: let the core
 * decide again. */
static void return_lease_asks(struct p2p_image *i, int64_t now)
{
	struct leases old = i->calls.leases;

	i->calls.has_waited = false;
	i->calls.leases.n_asks = 0;
	for (size_t k = 0; k < old.n_asks; k++) {
		const struct ask *a = &old.asks[k];
		struct swarm_grant none = { .asked = a->pieces,
					    .n_asked = a->n,
					    .is_full = true };

		swarm_leases(i->swarm, &none, now);
	}
}

static void announce_make(struct p2p_image *i)
{
	struct engine_call *before = i->calls.call, *c;

	i->calls.timer_at = 0;
	if (!i->p->trackers)
		return;
	if (image_meets_peers(i, clock_now_ns()) && !is_urgent(i)) {
		tracker_arm(i, MEET_STEP_NS);
		i->calls.has_waited = true;
		return;
	}
	if (i->calls.has_waited && !image_meets_peers(i, clock_now_ns()))
		return_lease_asks(i, clock_now_ns());
	if (before && !i->calls.is_leaving)
		return; /* when that call ends, it begins the next */
	if (before)
		before->i = NULL; /* its answer is not needed any more */
	c = calloc(1, sizeof(*c));
	if (!c) {
		tracker_arm(i, INTERVAL_NS);
		return;
	}
	c->p = i->p;
	c->i = i->calls.is_leaving ? NULL : i;
	c->work.run = announce_run;
	c->work.done = announce_done;
	announce_fill(i, c);
	i->calls.call = c->i ? c : NULL;
	i->calls.called = clock_now_ns();
	if (!i->calls.interval)
		i->calls.interval = INTERVAL_NS;
	if (!i->calls.is_leaving)
		rights_renew(i);
	if (before && leave_call_queue(c, before))
		return;
	/* Cannot fail: the queue has no limit. */
	(void)!pool_submit(i->p->calls, &c->work);
}

static void tracker_on_timer(struct loop_timer *t)
{
	announce_make(container_of(t, struct p2p_image, calls.timer));
}

int tracker_start(struct p2p_image *i, struct error *err)
{
	i->calls.timer.fn = tracker_on_timer;
	return loop_timer_start(i->p->loop, &i->calls.timer, 0, err);
}

void tracker_stop(struct p2p_image *i)
{
	loop_timer_stop(&i->calls.timer);
}

void tracker_leave(struct p2p_image *i)
{
	i->calls.is_leaving = true;
	announce_make(i);
}
