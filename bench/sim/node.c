// SPDX-License-Identifier: Apache-2.0
/* A simulated node: does what bootseerd's engine does around the p2p core, without data. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/* leases that ended within this time are reported together */
#define REPORT_NS (5 * NS_PER_MS)
#define MEMBERS_KEPT TRACKER_MEMBERS_MAX

/* A call to the tracker. */
struct call {
	uint32_t want[SWARM_LEASE_MAX], done[TRACKER_PIECES_MAX],
		failed[TRACKER_PIECES_MAX];
	size_t n_want, n_done, n_failed;
	bool is_demand, wants_members;
};

struct answer {
	uint32_t asked[SWARM_LEASE_MAX], granted[SWARM_LEASE_MAX],
		members[MEMBERS_KEPT];
	size_t n_asked, n_granted, n_members;
	int64_t ttl_ns, retry_ns;
	bool is_full, is_lost; /* is_lost: the tracker did not answer */
};

struct news {
	size_t n_have, n_promised;
	int64_t eta_ns;
	struct swarm_range ranges[];
};

static struct node *node_of(void *arg, struct sim **ret_sim, uint32_t *ret_node)
{
	const struct node_arg *a = arg;

	*ret_sim = a->sim;
	*ret_node = a->node;
	return &a->sim->nodes[a->node];
}

/* Does the link still belong to the node that sent the message? */
static bool is_linked(const struct node *n, const struct message *m)
{
	return n->links[m->peer].node == m->from;
}

static void to_peer(struct sim *s, uint32_t node, unsigned int peer,
		    struct message m)
{
	const struct link *l = &s->nodes[node].links[peer];

	m.node = l->node;
	m.from = node;
	m.peer = l->peer;
	send_message(s, m, delay_between(s, node, l->node));
}

/* ----------------------------------------------------------------- what it does --- */

static void host_ask(void *arg, unsigned int peer, const uint32_t *pieces,
		     size_t n, enum source_priority priority)
{
	struct message m = { .kind = MESSAGE_ASK,
			     .piece = pieces[0],
			     .n_others = (uint8_t)(n - 1),
			     .priority = (uint8_t)priority };
	struct sim *s;
	uint32_t node;

	(void)node_of(arg, &s, &node);
	s->asks++;
	memcpy(m.others, pieces + 1, (n - 1) * sizeof(*pieces));
	to_peer(s, node, peer, m);
}

static void host_cancel(void *arg, unsigned int peer, uint32_t piece)
{
	struct sim *s;
	uint32_t node;

	(void)node_of(arg, &s, &node);
	to_peer(s, node, peer,
		(struct message){ .kind = MESSAGE_CANCEL, .piece = piece });
}

static void host_origin(void *arg, const uint32_t *pieces, size_t n,
			enum source_priority priority)
{
	struct sim *s;
	uint32_t node;
	struct node *to = node_of(arg, &s, &node);

	for (size_t i = 0; i < n; i++)
		to->reads[(to->n_reads++) % READS_MAX] = pieces[i];
	node_read(s, node);
}

/* Keep a few requests to the origin running; the others wait. */
void node_read(struct sim *s, uint32_t node)
{
	struct node *n = &s->nodes[node];

	while (n->n_reading < s->cfg.streams && n->read < n->n_reads) {
		n->n_reading++;
		send_message(s,
			     (struct message){
				     .kind = MESSAGE_READ,
				     .node = node,
				     .piece = n->reads[n->read++ % READS_MAX] },
			     s->cfg.origin_rtt + delay_from(s, node));
	}
}

static void call_tracker(struct sim *s, uint32_t node, const uint32_t *want,
			 size_t n_want, bool is_demand)
{
	struct node *n = &s->nodes[node];
	struct call *c = must_alloc(calloc(1, sizeof(*c)));

	if (n_want)
		memcpy(c->want, want, n_want * sizeof(*want));
	memcpy(c->done, n->done, n->n_done * sizeof(*n->done));
	memcpy(c->failed, n->failed, n->n_failed * sizeof(*n->failed));
	c->n_want = n_want;
	c->n_done = n->n_done;
	c->n_failed = n->n_failed;
	c->is_demand = is_demand;
	c->wants_members = n->n_links < s->cfg.neighbours / 2;
	n->n_done = n->n_failed = 0;
	n->report_at = INT64_MAX;
	send_message(s,
		     (struct message){
			     .kind = MESSAGE_CALL, .node = node, .data = c },
		     s->cfg.rtt / 2 + delay_from(s, node));
}

static void host_lease(void *arg, const uint32_t *pieces, size_t n,
		       enum source_priority priority)
{
	struct sim *s;
	uint32_t node;

	(void)node_of(arg, &s, &node);
	call_tracker(s, node, pieces, n, priority == SOURCE_DEMAND);
}

static void host_quarantine(void *arg, unsigned int peer, int64_t ns,
			    const char *why)
{
	struct sim *s;
	uint32_t node;
	struct node *n = node_of(arg, &s, &node);
	struct link *l = &n->links[peer];

	if (s->cfg.is_verbose)
		fprintf(stderr, "%.3f s: node %u leaves %u: %s\n",
			(double)s->now / NS_PER_S, node, l->node, why);
	/* Both ends of the link get the message. */
	send_message(s,
		     (struct message){ .kind = MESSAGE_GONE,
				       .node = node,
				       .from = l->node,
				       .peer = (uint8_t)peer },
		     0);
	to_peer(s, node, peer, (struct message){ .kind = MESSAGE_GONE });
}

static void host_fail(void *arg, uint32_t piece, int rc)
{
	struct sim *s;
	uint32_t node;

	(void)node_of(arg, &s, &node);
	if (s->cfg.is_verbose)
		fprintf(stderr, "%.3f s: node %u gives up piece %u: %d\n",
			(double)s->now / NS_PER_S, node, piece, rc);
}

const struct swarm_host node_host = {
	.ask = host_ask,
	.cancel = host_cancel,
	.origin = host_origin,
	.lease = host_lease,
	.quarantine = host_quarantine,
	.fail = host_fail,
};

/* --------------------------------------------------------------------- its links --- */

static unsigned int free_peer(const struct node *n)
{
	for (unsigned int i = 0; i < SWARM_PEERS_MAX; i++)
		if (n->links[i].node == SWARM_NONE)
			return i;
	return SWARM_PEERS_MAX;
}

static enum swarm_distance distance(const struct sim *s, uint32_t a, uint32_t b)
{
	return a % s->cfg.racks == b % s->cfg.racks ? SWARM_SAME_RACK
						    : SWARM_SAME_ZONE;
}

static uint64_t name_of(uint32_t node)
{
	char name[16];

	(void)snprintf(name, sizeof(name), "%u", node);
	return swarm_name(name);
}

static void add_links(const struct node *n, bool *is_known)
{
	for (unsigned int i = 0; i < SWARM_PEERS_MAX; i++)
		if (n->links[i].node != SWARM_NONE)
			is_known[n->links[i].node] = true;
}

static void members_of_before(struct sim *s, struct node *n)
{
	uint32_t n_all = s->cfg.nodes < SWARM_MEMBERS_MAX ? s->cfg.nodes
							  : SWARM_MEMBERS_MAX;
	uint64_t names[SWARM_MEMBERS_MAX];

	for (uint32_t i = 0; i < n_all; i++)
		names[i] = name_of(i);
	swarm_members(n->swarm, names, n_all);
}

/* Collect the node's neighbours, and the nodes that its neighbours named. */
void node_members(struct sim *s, uint32_t node)
{
	const struct node *n = &s->nodes[node];
	bool *is_known = must_alloc(calloc(s->cfg.nodes, sizeof(*is_known)));
	uint64_t names[SWARM_MEMBERS_MAX];
	size_t k = 0;

	add_links(n, is_known);
	for (unsigned int i = 0; i < SWARM_PEERS_MAX; i++)
		if (n->links[i].node != SWARM_NONE)
			add_links(&s->nodes[n->links[i].node], is_known);
	for (uint32_t i = 0; i < s->cfg.nodes && k < SWARM_MEMBERS_MAX; i++)
		if (is_known[i] && i != node)
			names[k++] = name_of(i);
	swarm_members(n->swarm, names, k);
	free(is_known);
}

static void link_nodes(struct sim *s, uint32_t a, uint32_t b)
{
	struct node *x = &s->nodes[a], *y = &s->nodes[b];
	unsigned int i = free_peer(x), j = free_peer(y);

	if (a == b || !y->is_alive || i == SWARM_PEERS_MAX ||
	    j == SWARM_PEERS_MAX)
		return;
	for (unsigned int k = 0; k < SWARM_PEERS_MAX; k++)
		if (x->links[k].node == b)
			return;
	x->links[i] = (struct link){ b, (uint8_t)j };
	y->links[j] = (struct link){ a, (uint8_t)i };
	x->n_links++;
	y->n_links++;
	swarm_peer_join(x->swarm, i, distance(s, a, b), 0, s->now);
	swarm_peer_join(y->swarm, j, distance(s, a, b), 0, s->now);
}

static void handle_gone(struct sim *s, struct node *n, const struct message *m)
{
	if (!is_linked(n, m))
		return;
	slots_drop_peer(n->slots, m->peer);
	n->links[m->peer].node = SWARM_NONE;
	n->n_links--;
	swarm_peer_leave(n->swarm, m->peer, s->now);
}

/* -------------------------------------------------------------------- its tracker --- */

/* The names "node N" and its rack, in the tracker's form. */
static void names(const struct sim *s, uint32_t node, char name[16],
		  char rack[16])
{
	(void)snprintf(name, 16, "%u", node);
	(void)snprintf(rack, 16, "r%u", node % s->cfg.racks);
}

static void hear(struct sim *s, const struct message *m, const struct call *c,
		 struct answer *a)
{
	const struct node *n = &s->nodes[m->node];
	struct tracker_answer *ret = s->answer;
	struct error err = ERROR_INIT;
	struct swarm_stats st;
	uint32_t bytes[SWARM_LEASE_MAX];
	char name[16], rack[16];
	struct tracker_call call = {
		.node = name,
		.addr = "10.0.0.1:1",
		.rack = rack,
		.zone = "z",
		.region = "",
		.n_pieces = s->cfg.pieces,
		.wants_members = c->wants_members,
		.want = c->want,
		.want_bytes = bytes,
		.n_want = c->n_want,
		.n_demand = c->is_demand ? c->n_want : 0,
		.done = c->done,
		.n_done = c->n_done,
		.failed = c->failed,
		.n_failed = c->n_failed,
	};

	names(s, m->node, name, rack);
	swarm_get_stats(n->swarm, &st);
	call.have = st.have;
	for (size_t i = 0; i < c->n_want; i++)
		bytes[i] = s->cfg.piece_bytes;
	if (tracker_hear(s->tracker, &call, s->now, ret, &err) < 0) {
		fprintf(stderr, "p2p-sim: tracker: %s\n", err.msg);
		exit(1);
	}
	a->n_granted = ret->n_granted;
	memcpy(a->granted, ret->granted, ret->n_granted * sizeof(uint32_t));
	a->n_members = ret->n_members;
	for (size_t i = 0; i < ret->n_members; i++)
		a->members[i] =
			(uint32_t)strtoul(ret->members[i].node, NULL, 10);
	a->is_full = ret->is_full;
	a->ttl_ns = ret->ttl_ns;
	a->retry_ns = ret->retry_ns;
}

static void handle_call(struct sim *s, struct node *n, const struct message *m)
{
	struct call *c = m->data;
	struct answer *a = must_alloc(calloc(1, sizeof(*a)));

	s->calls++;
	memcpy(a->asked, c->want, sizeof(c->want));
	a->n_asked = c->n_want;
	if (s->tracker)
		hear(s, m, c, a);
	else
		a->is_lost = a->is_full = true;
	free(c);
	send_message(s,
		     (struct message){ .kind = MESSAGE_ANSWER,
				       .node = m->node,
				       .data = a },
		     s->cfg.rtt / 2 + delay_to(s, m->node));
}

static void lease(struct sim *s, struct node *n, const struct answer *a)
{
	struct swarm_grant g = { .asked = a->asked,
				 .n_asked = a->n_asked,
				 .granted = a->granted,
				 .n_granted = a->n_granted,
				 .is_full = a->is_full,
				 .ttl_ns = a->ttl_ns,
				 .retry_ns = a->retry_ns };

	swarm_leases(n->swarm, &g, s->now);
}

static void handle_answer(struct sim *s, struct node *n,
			  const struct message *m)
{
	struct answer *a = m->data;
	uint32_t most = s->cfg.neighbours / 2;

	if (n->is_alive) {
		for (size_t i = 0; i < a->n_members && n->n_links < most; i++)
			link_nodes(s, m->node, a->members[i]);
		swarm_tracker(n->swarm, !a->is_lost, s->now);
		if (a->n_asked)
			lease(s, n, a);
	}
	free(a);
}

/* Note that a lease ended, for the next report. */
static void report(struct sim *s, struct node *n, uint32_t piece, bool is_done)
{
	if (is_done && n->n_done < TRACKER_PIECES_MAX)
		n->done[n->n_done++] = piece;
	if (!is_done && n->n_failed < TRACKER_PIECES_MAX)
		n->failed[n->n_failed++] = piece;
	if (n->report_at > s->now + REPORT_NS)
		n->report_at = s->now + REPORT_NS;
}

void node_announce(struct sim *s, uint32_t node)
{
	s->nodes[node].announce_at = s->now + 2 * NS_PER_S;
	call_tracker(s, node, NULL, 0, false);
}

/* ------------------------------------------------------------------ what it serves --- */

void node_serve(struct sim *s, uint32_t node)
{
	struct node *n = &s->nodes[node];
	struct slot_request r;

	while (slots_next(n->slots, s->now, &r)) {
		uint32_t to = n->links[r.peer].node;

		if (to == SWARM_NONE) {
			slots_done(n->slots, &r, s->now);
			continue;
		}
		flow_start(s, node, to, (uint8_t)r.peer, (uint32_t)r.tag,
			   (uint8_t)r.priority);
		to_peer(s, node, r.peer,
			(struct message){ .kind = MESSAGE_BEGINS,
					  .piece = (uint32_t)r.tag });
	}
}

/* Send the first of the pieces that the node has and is not sending to another node. */
static int serve_one_of(struct sim *s, struct node *n, const struct message *m,
			int64_t *ret_retry_ns)
{
	int64_t retry_ns = 0;
	int rc = -ENOENT;

	*ret_retry_ns = INT64_MAX;
	for (unsigned int i = 0; i <= m->n_others; i++) {
		uint32_t piece = i ? m->others[i - 1] : m->piece;
		struct slot_request r = { m->peer, piece, piece,
					  s->cfg.piece_bytes,
					  (enum source_priority)m->priority };

		if (!swarm_has(n->swarm, piece))
			continue;
		rc = slots_add(n->slots, &r, s->now, &retry_ns);
		if (retry_ns < *ret_retry_ns)
			*ret_retry_ns = retry_ns;
		if (rc != -EALREADY)
			return rc;
	}
	return rc;
}

static void handle_ask(struct sim *s, struct node *n, const struct message *m)
{
	struct message no = { .kind = MESSAGE_REFUSED, .piece = m->piece };
	int rc;

	if (!is_linked(n, m))
		return;
	rc = serve_one_of(s, n, m, &no.retry);
	if (rc == 0) {
		node_serve(s, m->node);
		return;
	}
	no.priority = rc == -EALREADY ? SWARM_SENDING : SWARM_BUSY;
	if (rc == -ENOENT)
		no.priority = SWARM_GONE;
	s->refusals++;
	to_peer(s, m->node, m->peer, no);
}

static void handle_cancel(struct sim *s, struct node *n,
			  const struct message *m)
{
	if (!is_linked(n, m))
		return;
	slots_drop(n->slots, m->peer, m->piece);
	for (unsigned int i = 0; i < n->n_sending; i++) {
		const struct flow *f = &s->flows.flows[n->sending[i]];

		if (f->to == m->from && f->piece == m->piece) {
			flow_cancel(s, n->sending[i]);
			break;
		}
	}
	node_serve(s, m->node);
}

/* ------------------------------------------------------------------- what it gets --- */

static void note_progress(struct sim *s, struct node *n)
{
	struct swarm_stats st;

	swarm_get_stats(n->swarm, &st);
	if (n->hot_at < 0 && st.hot_have == st.hot)
		n->hot_at = s->now;
	if (n->full_at < 0 && st.have == st.pieces) {
		n->full_at = s->now;
		s->n_full++;
	}
}

static void handle_got(struct sim *s, struct node *n, const struct message *m)
{
	bool is_origin = m->from == origin_of(s);

	if (is_origin)
		report(s, n, m->piece, true);
	else if (!is_linked(n, m))
		return;
	swarm_got(n->swarm, is_origin ? SWARM_NONE : m->peer, m->piece, s->now);
	note_progress(s, n);
}

static void handle_begins(struct sim *s, struct node *n,
			  const struct message *m)
{
	if (is_linked(n, m))
		swarm_begins(n->swarm, m->peer, m->piece);
}

static void handle_refused(struct sim *s, struct node *n,
			   const struct message *m)
{
	if (is_linked(n, m))
		swarm_refused(n->swarm, m->peer, m->piece,
			      (enum swarm_refusal)m->priority, m->retry,
			      s->now);
}

static void handle_read(struct sim *s, struct node *n, const struct message *m)
{
	struct message no = *m;

	if (!s->origin_is_dead) {
		flow_start(s, origin_of(s), m->node, 0, m->piece, m->priority);
		return;
	}
	no.kind = MESSAGE_READ_FAILED;
	n->n_reading--;
	send_message(s, no, 0);
}

static void handle_read_failed(struct sim *s, struct node *n,
			       const struct message *m)
{
	report(s, n, m->piece, false);
	swarm_lost(n->swarm, SWARM_NONE, m->piece, -ECONNREFUSED, s->now);
}

void node_moves(struct sim *s, const struct flow *f, uint32_t bytes)
{
	struct node *n = &s->nodes[f->to];
	uint8_t peer;

	if (f->from == origin_of(s) || !n->is_alive)
		return;
	peer = s->nodes[f->from].links[f->peer].peer;
	if (n->links[peer].node == f->from)
		swarm_moves(n->swarm, peer, f->piece, bytes, s->now);
}

/* ------------------------------------------------------------------- what it tells --- */

static void tell(struct sim *s, uint32_t node, unsigned int peer,
		 const struct swarm_news *n)
{
	size_t size = (n->n_have + n->n_promised) * sizeof(struct swarm_range);
	struct news *news = must_alloc(malloc(sizeof(*news) + size));

	news->n_have = n->n_have;
	news->n_promised = n->n_promised;
	news->eta_ns = n->eta_ns;
	memcpy(news->ranges, n->have, n->n_have * sizeof(*n->have));
	memcpy(news->ranges + n->n_have, n->promised,
	       n->n_promised * sizeof(*n->promised));
	to_peer(s, node, peer,
		(struct message){ .kind = MESSAGE_NEWS, .data = news });
}

void node_news(struct sim *s, uint32_t node)
{
	struct node *n = &s->nodes[node];
	struct swarm_news news;

	for (unsigned int i = 0; i < SWARM_PEERS_MAX; i++) {
		if (n->links[i].node == SWARM_NONE)
			continue;
		(void)swarm_news(n->swarm, i, &news);
		if (news.n_have + news.n_promised)
			tell(s, node, i, &news);
	}
}

static void handle_news(struct sim *s, struct node *n, const struct message *m)
{
	struct news *news = m->data;
	int rc = 0;

	if (n->is_alive && is_linked(n, m)) {
		for (size_t i = 0; i < news->n_have; i++)
			rc |= swarm_peer_has(n->swarm, m->peer, news->ranges[i],
					     s->now);
		for (size_t i = 0; i < news->n_promised; i++)
			rc |= swarm_peer_promises(n->swarm, m->peer,
						  news->ranges[news->n_have +
							       i],
						  news->eta_ns, s->now);
	}
	free(news);
	if (rc < 0) {
		fprintf(stderr, "p2p-sim: a peer's news were refused\n");
		exit(1);
	}
}

/* ---------------------------------------------------------------------- life --- */

static void want(struct sim *s, struct node *n)
{
	uint32_t n_hot = (uint32_t)(s->cfg.hot * s->cfg.pieces + 0.5);
	uint32_t *order = must_alloc(calloc(s->cfg.pieces, sizeof(*order)));
	/* The simulated trace reads runs of pieces, spread over the image. */
	uint32_t run = 16, stride = s->cfg.pieces / run, at = 0, n_order = 0;
	bool *in = must_alloc(calloc(s->cfg.pieces, sizeof(*in)));
	int rc;

	for (uint32_t i = 0; stride && i < stride && n_order < n_hot; i++) {
		at = (uint32_t)((uint64_t)i * 7919 % stride) * run;
		for (uint32_t j = 0; j < run && n_order < n_hot; j++)
			if (!in[at + j]) {
				in[at + j] = true;
				order[n_order++] = at + j;
			}
	}
	for (uint32_t i = 0; i < s->cfg.pieces && n_order < n_hot; i++)
		if (!in[i]) {
			in[i] = true;
			order[n_order++] = i;
		}
	for (uint32_t i = 0; i < s->cfg.pieces; i++)
		if (!in[i])
			order[n_order++] = i;
	rc = swarm_want(n->swarm, SOURCE_HOT, order, n_hot, s->now);
	rc |= swarm_want(n->swarm, SOURCE_COLD, order + n_hot,
			 s->cfg.pieces - n_hot, s->now);
	free(order);
	free(in);
	if (rc < 0)
		exit(1);
}

void node_join(struct sim *s, uint32_t node)
{
	struct node *n = &s->nodes[node];
	struct swarm_config cfg = { .n_pieces = s->cfg.pieces,
				    .sizes = s->sizes,
				    .seed = s->cfg.seed * 1000003 + node,
				    .self = name_of(node),
				    .limits = s->cfg.limits,
				    .host = &node_host,
				    .arg = &n->arg,
				    .is_unverified = s->cfg.is_unverified };
	struct slots_config slots = { .bulk = s->cfg.slots,
				      .demand = 4,
				      .queued = s->cfg.queued,
				      .waiting = s->cfg.waiting,
				      .copies = s->cfg.is_unverified
							? SLOTS_MAX
							: s->cfg.copies,
				      .usual_ns = 40 * NS_PER_MS,
				      .retry_min_ns = s->cfg.retry,
				      .retry_max_ns = NS_PER_S };
	struct error err = ERROR_INIT;

	n->arg = (struct node_arg){ s, node };
	if (swarm_new(&cfg, s->now, &n->swarm, &err) < 0 ||
	    slots_new(&slots, &n->slots, &err) < 0) {
		fprintf(stderr, "p2p-sim: %s\n", err.msg);
		exit(1);
	}
	for (unsigned int i = 0; i < SWARM_PEERS_MAX; i++)
		n->links[i].node = SWARM_NONE;
	n->is_alive = true;
	n->hot_at = n->full_at = -1;
	n->report_at = INT64_MAX;
	n->news_at = s->now +
		     (int64_t)(sim_random(s) % (uint64_t)s->cfg.limits.news_ns);
	s->n_alive++;
	if (s->cfg.no_tracker) {
		/* Members are known from before; which of them take part is learned later. */
		n->members_at = s->now + NS_PER_S;
		members_of_before(s, n);
		for (uint32_t i = 0; i < s->cfg.neighbours / 2 && node; i++)
			link_nodes(s, node, (uint32_t)(sim_random(s) % node));
		swarm_tracker(n->swarm, false, s->now);
	}
	node_announce(s, node);
	want(s, n);
}

void node_kill(struct sim *s, uint32_t node)
{
	struct node *n = &s->nodes[node];

	n->is_alive = false;
	s->n_alive--;
	s->n_full -= n->full_at >= 0;
	while (n->n_sending)
		flow_cancel(s, n->sending[0]);
	for (unsigned int i = 0; i < SWARM_PEERS_MAX; i++)
		if (n->links[i].node != SWARM_NONE)
			to_peer(s, node, i,
				(struct message){ .kind = MESSAGE_GONE });
}

void node_handle(struct sim *s, const struct message *m)
{
	static void (*const handlers[MESSAGE_KINDS])(struct sim *,
						     struct node *,
						     const struct message *) = {
		[MESSAGE_ASK] = handle_ask,
		[MESSAGE_CANCEL] = handle_cancel,
		[MESSAGE_REFUSED] = handle_refused,
		[MESSAGE_BEGINS] = handle_begins,
		[MESSAGE_GOT] = handle_got,
		[MESSAGE_NEWS] = handle_news,
		[MESSAGE_CALL] = handle_call,
		[MESSAGE_ANSWER] = handle_answer,
		[MESSAGE_READ] = handle_read,
		[MESSAGE_READ_FAILED] = handle_read_failed,
		[MESSAGE_GONE] = handle_gone,
	};
	struct node *n = &s->nodes[m->node];

	/* These messages own memory, or concern other nodes too, so they are handled even
	 * for a dead node. */
	if (!n->is_alive && m->kind != MESSAGE_NEWS &&
	    m->kind != MESSAGE_CALL && m->kind != MESSAGE_ANSWER)
		return;
	handlers[m->kind](s, n, m);
}
