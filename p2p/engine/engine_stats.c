// SPDX-License-Identifier: Apache-2.0
/* Figures. */
#include <string.h>

#include "common/clock.h"
#include "p2p/engine/engine_peer.h"
#include "p2p/tracker/tracker_client.h"

struct stats_look {
	struct p2p *p;
	struct p2p_stats *ret;
};

static void add_image(const struct p2p_image *i, struct p2p_stats *ret)
{
	struct swarm_stats s;

	swarm_get_stats(i->swarm, &s);
	ret->images++;
	ret->images_refused += *rights_refusal(i) != '\0';
	ret->rack_bytes_total += s.bytes_peers[SWARM_SAME_RACK];
	ret->zone_bytes_total += s.bytes_peers[SWARM_SAME_ZONE];
	ret->remote_bytes_total += s.bytes_peers[SWARM_REMOTE];
	ret->twice_bytes_total += s.bytes_twice;
	ret->wrong_total += s.wrong;
	ret->strikes_total += s.strikes;
	ret->stalls_total += s.stalls;
	ret->hedges_total += s.hedges;
	ret->hedges_won_total += s.hedges_won;
}

static void get_stats(void *arg)
{
	struct stats_look *look = arg;
	struct p2p *p = look->p;
	struct p2p_stats *ret = look->ret;
	const struct p2p_image *i;
	const struct link *l;
	struct tracker_client_stats t;
	struct net_times times;
	struct net_stats n;

	net_get_stats(p->net, &n);
	net_get_times(p->net, &times);
	*ret = p->past;
	LIST_FOREACH(i, &p->images, all)
	add_image(i, ret);
	LIST_FOREACH(l, &p->links, all)
	ret->peers += l->is_up;
	ret->origin_bytes_total = p->origin_bytes;
	ret->served_bytes_total = n.sent_bytes_total;
	ret->rdma_bytes_total = n.rdma_bytes_total;
	ret->dropped_bytes_total = n.dropped_bytes_total;
	ret->refused_total = p->refused;
	ret->denied_total = p->denied;
	ret->leases_total = p->leases;
	ret->cert_not_after = (uint64_t)times.not_after;
	ret->links_unreachable_total = p->faults.links[NET_UNREACHABLE];
	ret->links_untrusted_total = p->faults.links[NET_UNTRUSTED];
	ret->links_unlike_total = p->faults.links[NET_UNLIKE];
	ret->links_namesake_total = p->faults.links[NET_NAMESAKE];
	ret->links_refused_total = p->faults.links[NET_REFUSED];
	if (p->trackers) {
		tracker_client_get_stats(p->trackers, &t);
		ret->tracker_calls_total = t.calls_total;
		ret->tracker_failures_total = t.failures_total;
		ret->trackers = t.trackers;
		ret->trackers_good = t.good;
		ret->trackers_lost = t.lost;
		ret->trackers_refusing = t.refusing;
	}
	ret->relay_bytes = p->relay ? relay_used(p->relay) : 0;
	ret->memory_bytes = atomic_load(&p->memory);
}

void p2p_get_stats(struct p2p *p, struct p2p_stats *ret)
{
	struct stats_look look = { .p = p, .ret = ret };

	engine_run(p, get_stats, &look);
}

/* --------------------------------------------------------------- lists --- */

struct peer_listing {
	struct p2p *p;
	void *all;
	size_t n;
};

/* Add the swarms' figures of a link. */
static void add_swarms(const struct link *l, struct p2p_peer_info *ret)
{
	const struct neighbour *nb;

	LIST_FOREACH(nb, &l->neighbours, by_link)
	{
		struct swarm_peer_stats s;

		if (!swarm_get_peer(nb->i->swarm, nb->peer, &s))
			continue;
		ret->received_bytes += s.bytes;
		ret->rate += s.rate;
		if (s.strikes > ret->strikes)
			ret->strikes = s.strikes;
	}
}

static void add_failures(const struct member *m, struct p2p_peer_info *ret)
{
	ret->failures = m->failures;
	memcpy(ret->why, m->why, sizeof(ret->why));
	ret->fault = m->fault;
}

static void fill_peer(const struct p2p *p, const struct link *l, int64_t now,
		      struct p2p_peer_info *ret)
{
	static const char *const distances[] = {
		[SWARM_SAME_RACK] = "rack",
		[SWARM_SAME_ZONE] = "zone",
		[SWARM_REMOTE] = "remote",
	};
	const struct net_node *n = net_peer(l->net);
	struct net_link_stats s;

	net_get_link(l->net, &s);
	memcpy(ret->node, n->name, sizeof(ret->node));
	memcpy(ret->addr, n->addr, sizeof(ret->addr));
	memcpy(ret->rack, n->rack, sizeof(ret->rack));
	memcpy(ret->zone, n->zone, sizeof(ret->zone));
	ret->distance = distances[member_distance(p, n)];
	ret->is_up = s.is_up;
	ret->is_rdma = s.is_rdma;
	ret->sent_bytes = s.sent_bytes;
	ret->rtt_ns = s.rtt_ns;
	if (l->member && l->member->quarantined_until > now)
		ret->quarantine_ns = l->member->quarantined_until - now;
	/* Report the member's failures while its link is down. */
	if (l->member && !s.is_up)
		add_failures(l->member, ret);
	add_swarms(l, ret);
}

/* Has the member no link because of a quarantine, or because it cannot be reached? */
static bool member_is_unlinked(const struct member *m, int64_t now)
{
	return !m->link &&
	       (m->quarantined_until > now || member_is_missed(m, now));
}

static void fill_member(const struct p2p *p, const struct member *m,
			int64_t now, struct p2p_peer_info *ret)
{
	memcpy(ret->node, m->node.name, sizeof(ret->node));
	memcpy(ret->addr, m->node.addr, sizeof(ret->addr));
	memcpy(ret->rack, m->node.rack, sizeof(ret->rack));
	memcpy(ret->zone, m->node.zone, sizeof(ret->zone));
	ret->distance = "";
	if (m->quarantined_until > now)
		ret->quarantine_ns = m->quarantined_until - now;
	add_failures(m, ret);
}

static void list_peers(void *arg)
{
	struct peer_listing *s = arg;
	struct p2p *p = s->p;
	struct p2p_peer_info *all;
	const struct member *m;
	const struct link *l;
	int64_t now = clock_now_ns();
	size_t room = 1;

	LIST_FOREACH(l, &p->links, all)
	room++;
	TAILQ_FOREACH(m, &p->members, by_age)
	room += member_is_unlinked(m, now);
	s->all = all = calloc(room, sizeof(*all));
	if (!all)
		return;
	LIST_FOREACH(l, &p->links, all)
	fill_peer(p, l, now, &all[s->n++]);
	TAILQ_FOREACH(m, &p->members, by_age)
	if (member_is_unlinked(m, now))
		fill_member(p, m, now, &all[s->n++]);
}

int p2p_each_peer(struct p2p *p,
		  void (*each)(void *arg, const struct p2p_peer_info *i),
		  void *arg, struct error *err)
{
	struct peer_listing s = { .p = p };
	AUTO_FREE struct p2p_peer_info *all = NULL;

	engine_run(p, list_peers, &s);
	all = s.all;
	if (!all)
		return error_nomem(err);
	for (size_t k = 0; k < s.n; k++)
		each(arg, &all[k]);
	return 0;
}

struct asking {
	struct p2p *p;
	struct p2p_failure_info *ret;
	bool is_there;
};

static void get_failure(void *arg)
{
	struct asking *a = arg;

	a->is_there = a->p->faults.last_at != 0;
	*a->ret = a->p->faults.last;
	a->ret->ago_ns = clock_now_ns() - a->p->faults.last_at;
}

bool p2p_last_failure(struct p2p *p, struct p2p_failure_info *ret)
{
	struct asking a = { .p = p, .ret = ret };

	engine_run(p, get_failure, &a);
	return a.is_there;
}

static void list_images(void *arg)
{
	struct peer_listing *s = arg;
	struct p2p *p = s->p;
	struct p2p_image_info *all;
	const struct p2p_image *i;
	size_t room = 1;

	LIST_FOREACH(i, &p->images, all)
	room++;
	s->all = all = calloc(room, sizeof(*all));
	if (!all)
		return;
	LIST_FOREACH(i, &p->images, all)
	{
		struct p2p_image_info *to = &all[s->n++];
		struct swarm_stats st;

		swarm_get_stats(i->swarm, &st);
		to->image = i->image;
		to->is_metadata = i->is_metadata;
		(void)snprintf(to->label, sizeof(to->label), "%s", i->label);
		to->pieces = st.pieces;
		to->have = st.have;
		to->peers = st.peers;
		for (size_t k = 0; k < ARRAY_SIZE(st.bytes_peers); k++)
			to->from_peers += st.bytes_peers[k];
		to->from_origin = st.bytes_origin;
		(void)snprintf(to->refusal, sizeof(to->refusal), "%s",
			       rights_refusal(i));
	}
}

void p2p_each_tracker(struct p2p *p,
		      void (*each)(void *arg, const struct p2p_tracker_info *i),
		      void *arg)
{
	static const char *const states[] = {
		[TRACKER_NEW] = "new",
		[TRACKER_GOOD] = "good",
		[TRACKER_LOST] = "lost",
		[TRACKER_REFUSES] = "refuses",
	};
	struct tracker_place all[TRACKER_URLS_MAX];
	size_t n = p->trackers ? tracker_client_places(p->trackers, all) : 0;

	for (size_t k = 0; k < n; k++) {
		const struct p2p_tracker_info info = {
			.url = all[k].url,
			.state = states[all[k].state],
			.why = all[k].why,
		};

		each(arg, &info);
	}
}

int p2p_each_image(struct p2p *p,
		   void (*each)(void *arg, const struct p2p_image_info *i),
		   void *arg, struct error *err)
{
	struct peer_listing s = { .p = p };
	AUTO_FREE struct p2p_image_info *all = NULL;

	engine_run(p, list_images, &s);
	all = s.all;
	if (!all)
		return error_nomem(err);
	for (size_t k = 0; k < s.n; k++)
		each(arg, &all[k]);
	return 0;
}
