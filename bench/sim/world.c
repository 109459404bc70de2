// SPDX-License-Identifier: Apache-2.0
/* Everything between nodes: time, delays, links, the origin, and failures. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/* length of the wheel; later messages are put in again */
#define WHEEL_NS (2 * NS_PER_S)
#define MOVES_NS (50 * NS_PER_MS)
#define TICK_MAX_NS (20 * NS_PER_MS)
#define TRACKER_SWEEP_NS NS_PER_S

void *must_alloc(void *p)
{
	if (p)
		return p;
	fprintf(stderr, "p2p-sim: out of memory\n");
	exit(1);
}

uint64_t sim_random(struct sim *s)
{
	s->random ^= s->random >> 12;
	s->random ^= s->random << 25;
	s->random ^= s->random >> 27;
	return (s->random * UINT64_C(0x2545f4914f6cdd1d)) >> 16;
}

/* --------------------------------------------------------------------- messages --- */

/* Put the message into the step in which it is due, never the current one. */
static void wheel_put(struct sim *s, struct message m)
{
	int64_t steps = (m.at - s->now) / s->step + 1;
	struct bucket *b;

	if (steps >= (int64_t)s->wheel_size)
		steps = (int64_t)s->wheel_size - 1;
	b = &s->wheel[((size_t)(s->now / s->step) + (size_t)steps) %
		      s->wheel_size];
	if (b->n == b->room) {
		b->room = b->room ? 2 * b->room : 16;
		b->messages =
			must_alloc(realloc(b->messages, b->room * sizeof(m)));
	}
	b->messages[b->n++] = m;
}

void send_message(struct sim *s, struct message m, int64_t delay)
{
	m.at = s->now + delay;
	wheel_put(s, m);
}

static int64_t port_wait(const struct sim *s, uint32_t port)
{
	return (int64_t)(port_delay(&s->flows, port) * NS_PER_S);
}

int64_t delay_from(const struct sim *s, uint32_t node)
{
	return port_wait(s, 2 * node);
}

int64_t delay_to(const struct sim *s, uint32_t node)
{
	return port_wait(s, 2 * node + 1);
}

/* Delay of a message between two nodes: it waits behind earlier bytes on both links. */
int64_t delay_between(const struct sim *s, uint32_t a, uint32_t b)
{
	int64_t way = a % s->cfg.racks == b % s->cfg.racks
			      ? s->cfg.rack_rtt
			      : s->cfg.rtt + s->cfg.far_rtt;

	return way / 2 + delay_from(s, a) + delay_to(s, b);
}

static void deliver(struct sim *s)
{
	struct bucket *b =
		&s->wheel[(size_t)(s->now / s->step) % s->wheel_size];

	for (size_t i = 0; i < b->n; i++) {
		struct message m = b->messages[i];

		if (m.at > s->now)
			wheel_put(s, m);
		else
			node_handle(s, &m);
	}
	b->n = 0;
}

/* ------------------------------------------------------------------------- flows --- */

uint32_t origin_of(const struct sim *s)
{
	return s->cfg.nodes;
}

static uint32_t rack_port(const struct sim *s, uint32_t node, bool is_down)
{
	return 2 * (s->cfg.nodes + 1) + 2 * (node % s->cfg.racks) + is_down;
}

void flow_start(struct sim *s, uint32_t from, uint32_t to, uint8_t peer,
		uint32_t piece, uint8_t priority)
{
	struct flow f = {
		.ports = { 2 * from, 2 * to + 1, PORT_NONE, PORT_NONE },
		.left = s->cfg.piece_bytes,
		.size = s->cfg.piece_bytes,
		.from = from,
		.to = to,
		.piece = piece,
		.priority = priority,
		.peer = peer,
	};
	struct node *n = &s->nodes[from];
	size_t at;

	if (s->cfg.uplink > 0 && from == origin_of(s)) {
		f.ports[2] = rack_port(s, to, true);
	} else if (s->cfg.uplink > 0 &&
		   from % s->cfg.racks != to % s->cfg.racks) {
		f.ports[2] = rack_port(s, from, false);
		f.ports[3] = rack_port(s, to, true);
	}
	f.at = from == origin_of(s) ? 0 : n->n_sending;
	at = flow_add(&s->flows, &f);
	if (from != origin_of(s))
		n->sending[n->n_sending++] = (uint32_t)at;
}

/* Remove a flow from the lists, and free its slot. */
static void forget_flow(struct sim *s, size_t i)
{
	struct flow f = s->flows.flows[i];

	if (f.from != origin_of(s)) {
		struct node *n = &s->nodes[f.from];
		struct slot_request r = { f.peer, f.piece, f.piece, f.size,
					  (enum source_priority)f.priority };

		n->sending[f.at] = n->sending[--n->n_sending];
		s->flows.flows[n->sending[f.at]].at = f.at;
		slots_done(n->slots, &r, s->now);
	}
	flow_remove(&s->flows, i);
	if (i < s->flows.n && s->flows.flows[i].from != origin_of(s))
		s->nodes[s->flows.flows[i].from].sending[s->flows.flows[i].at] =
			(uint32_t)i;
}

void flow_cancel(struct sim *s, size_t i)
{
	const struct flow *f = &s->flows.flows[i];

	s->bytes_cancelled += f->size - (uint64_t)f->left;
	forget_flow(s, i);
}

static void note_read(struct sim *s, uint32_t piece)
{
	s->bytes_origin += s->cfg.piece_bytes;
	if (s->was_read[piece])
		return;
	s->was_read[piece] = true;
	s->n_read++;
}

/* Handle a flow that ends `took` ns after the present time. */
static void finish_flow(struct sim *s, size_t i, int64_t took)
{
	struct flow f = s->flows.flows[i];
	struct node *to = &s->nodes[f.to];
	struct message m = { .kind = MESSAGE_GOT,
			     .node = f.to,
			     .from = f.from,
			     .piece = f.piece };
	bool is_origin = f.from == origin_of(s);
	int64_t at = s->now + took + delay_between(s, f.from, f.to);

	if (is_origin) {
		note_read(s, f.piece);
		to->n_reading--;
		node_read(s, f.to);
	} else {
		m.peer = s->nodes[f.from].links[f.peer].peer;
		swarm_sent(s->nodes[f.from].swarm, f.peer, f.piece);
	}
	if (to->hashed_at < at)
		to->hashed_at = at;
	to->hashed_at += (int64_t)(f.size / s->cfg.hash * NS_PER_S);
	forget_flow(s, i);
	send_message(s, m, to->hashed_at - s->now);
	if (!is_origin)
		node_serve(s, f.from);
}

static void cut_origin(struct sim *s)
{
	s->origin_is_dead = true;
	for (size_t i = s->flows.n; i > 0; i--) {
		struct flow f = s->flows.flows[i - 1];

		if (f.from != origin_of(s))
			continue;
		forget_flow(s, i - 1);
		s->nodes[f.to].n_reading--;
		send_message(s,
			     (struct message){ .kind = MESSAGE_READ_FAILED,
					       .node = f.to,
					       .piece = f.piece },
			     0);
	}
}

static void move_bytes(struct sim *s)
{
	double seconds = (double)s->step / NS_PER_S;
	bool tells = s->now / MOVES_NS != (s->now - s->step) / MOVES_NS;

	flows_share(&s->flows);
	flows_wait(&s->flows, seconds);
	for (size_t i = s->flows.n; i > 0; i--) {
		struct flow *f = &s->flows.flows[i - 1];
		double bytes = f->rate * seconds;

		if (bytes < f->left) {
			f->left -= bytes;
			if (tells && bytes > 0)
				node_moves(s, f, (uint32_t)bytes + 1);
			continue;
		}
		finish_flow(s, i - 1, (int64_t)(f->left / f->rate * NS_PER_S));
	}
}

/* ---------------------------------------------------------------------- the run --- */

static void set_capacities(struct sim *s)
{
	const struct sim_config *c = &s->cfg;

	for (uint32_t i = 0; i < c->nodes; i++) {
		double by = s->nodes[i].is_slow ? c->slow_by : 1;

		s->flows.ports[2 * i].capacity = c->up / by;
		s->flows.ports[2 * i + 1].capacity = c->down / by;
	}
	s->flows.ports[2 * c->nodes].capacity = c->origin;
	s->flows.ports[2 * c->nodes + 1].capacity = 1;
	for (uint32_t i = 0; i < 2 * c->racks; i++)
		s->flows.ports[2 * (c->nodes + 1) + i].capacity =
			c->uplink > 0 ? c->uplink : 1;
	for (size_t i = 0; i < s->flows.n_ports; i++)
		s->flows.ports[i].queue_max = c->queue;
}

static void new_tracker(struct sim *s)
{
	struct tracker_config cfg = tracker_config_default;
	struct error err = ERROR_INIT;

	cfg.seed = s->cfg.seed;
	s->answer = must_alloc(calloc(1, sizeof(*s->answer)));
	if (s->cfg.no_tracker)
		return;
	if (tracker_new(&cfg, &s->tracker, &err) < 0) {
		fprintf(stderr, "p2p-sim: %s\n", err.msg);
		exit(1);
	}
}

void sim_new(const struct sim_config *cfg, struct sim *ret)
{
	/* A fifth of the time that a piece takes on an idle link. */
	double usual = cfg->piece_bytes /
		       (cfg->up < cfg->down ? cfg->up : cfg->down) * NS_PER_S /
		       5;
	struct sim *s = ret;

	*s = (struct sim){ .cfg = *cfg, .random = cfg->seed + 1 };
	s->step = cfg->step ? cfg->step : (int64_t)usual;
	if (s->step > NS_PER_MS)
		s->step = NS_PER_MS;
	if (s->step < 10 * NS_PER_US)
		s->step = 10 * NS_PER_US;
	s->wheel_size = (size_t)(WHEEL_NS / s->step);
	s->wheel = must_alloc(calloc(s->wheel_size, sizeof(*s->wheel)));
	s->nodes = must_alloc(calloc(cfg->nodes + 1, sizeof(*s->nodes)));
	s->sizes = must_alloc(calloc(cfg->pieces, sizeof(*s->sizes)));
	s->was_read = must_alloc(calloc(cfg->pieces, sizeof(bool)));
	for (uint32_t i = 0; i < cfg->pieces; i++)
		s->sizes[i] = cfg->piece_bytes;
	for (uint32_t i = 0; i < cfg->nodes; i++) {
		s->nodes[i].is_slow = i < cfg->slow;
		s->nodes[i].joins =
			1 + (int64_t)(cfg->join * NS_PER_S *
				      (double)(sim_random(s) % 65536) / 65536);
	}
	flows_init(&s->flows, 2 * (cfg->nodes + 1) + 2 * cfg->racks);
	set_capacities(s);
	new_tracker(s);
	s->kill_at = cfg->kill_every > 0 ? (int64_t)(cfg->kill_every * NS_PER_S)
					 : INT64_MAX;
}

void sim_free(struct sim *s)
{
	for (size_t i = 0; i < s->wheel_size; i++) {
		for (size_t j = 0; j < s->wheel[i].n; j++)
			free(s->wheel[i].messages[j].data);
		free(s->wheel[i].messages);
	}
	for (uint32_t i = 0; i < s->cfg.nodes; i++) {
		swarm_free(s->nodes[i].swarm);
		slots_free(s->nodes[i].slots);
	}
	tracker_free(s->tracker);
	flows_fini(&s->flows);
	free(s->answer);
	free(s->wheel);
	free(s->nodes);
	free(s->sizes);
	free(s->was_read);
}

static void go_wrong(struct sim *s)
{
	if (s->now >= s->kill_at) {
		uint32_t victim = (uint32_t)(sim_random(s) % s->cfg.nodes);

		s->kill_at += (int64_t)(s->cfg.kill_every * NS_PER_S);
		if (s->nodes[victim].is_alive && s->n_alive > 2)
			node_kill(s, victim);
	}
	if (s->cfg.kill_tracker && s->tracker &&
	    s->now >= (int64_t)(sim_bound(&s->cfg, 1) / 2 * NS_PER_S)) {
		tracker_free(s->tracker);
		s->tracker = NULL;
	}
	if (s->cfg.kill_origin && !s->origin_is_dead &&
	    s->n_read == s->cfg.pieces)
		cut_origin(s);
}

/* Print progress from time to time. */
static void trace(struct sim *s)
{
	int64_t every = (int64_t)(sim_bound(&s->cfg, 1) / 25 * NS_PER_S);
	double origin = 0, peers = 0, have = 0, hot = 0;
	struct swarm_stats st;
	uint64_t flying = 0;

	if (s->now / every == (s->now - s->step) / every)
		return;
	for (size_t i = 0; i < s->flows.n; i++) {
		const struct flow *f = &s->flows.flows[i];

		if (f->from == origin_of(s))
			origin += f->rate;
		else
			peers += f->rate;
	}
	for (uint32_t i = 0; i < s->cfg.nodes; i++) {
		if (!s->nodes[i].is_alive)
			continue;
		swarm_get_stats(s->nodes[i].swarm, &st);
		have += st.have;
		flying += st.flying_bytes;
		hot += st.hot ? (double)st.hot_have / st.hot : 1;
	}
	fprintf(stderr,
		"%7.3f s: read %4.1f %%, here %4.1f %%, hot %4.1f %%, origin %3.0f %% busy, "
		"uplinks %3.0f %%, %zu flows, %.1f pieces asked for\n",
		(double)s->now / NS_PER_S, 100.0 * s->n_read / s->cfg.pieces,
		100 * have / s->cfg.pieces / s->n_alive, 100 * hot / s->n_alive,
		100 * origin / s->cfg.origin,
		100 * peers / s->cfg.up / s->n_alive, s->flows.n,
		(double)flying / s->cfg.piece_bytes / s->n_alive);
}

static void node_round(struct sim *s, uint32_t i)
{
	struct node *n = &s->nodes[i];

	if (!n->is_alive) {
		if (!n->swarm && n->joins <= s->now)
			node_join(s, i);
		return;
	}
	if (!s->tracker && n->members_at <= s->now) {
		n->members_at = s->now + NS_PER_S;
		node_members(s, i);
	}
	if (n->news_at <= s->now) {
		n->news_at = s->now + swarm_news_ns(n->swarm);
		node_news(s, i);
	}
	if (n->tick_at <= s->now) {
		n->tick_at = swarm_tick(n->swarm, s->now);
		if (n->tick_at > s->now + TICK_MAX_NS)
			n->tick_at = s->now + TICK_MAX_NS;
	}
	if (n->announce_at <= s->now || n->report_at <= s->now)
		node_announce(s, i);
}

void sim_run(struct sim *s)
{
	int64_t end = (int64_t)(s->cfg.give_up * NS_PER_S);

	for (; s->now < end; s->now += s->step) {
		deliver(s);
		go_wrong(s);
		for (uint32_t i = 0; i < s->cfg.nodes; i++)
			node_round(s, i);
		move_bytes(s);
		if (s->cfg.is_verbose)
			trace(s);
		if (s->tracker && s->now / TRACKER_SWEEP_NS !=
					  (s->now - s->step) / TRACKER_SWEEP_NS)
			tracker_sweep(s->tracker, s->now);
		if (s->n_full == s->n_alive && s->n_alive &&
		    (s->cfg.join <= 0 ||
		     s->now > (int64_t)(s->cfg.join * NS_PER_S)))
			return;
	}
}
