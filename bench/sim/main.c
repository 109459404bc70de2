// SPDX-License-Identifier: Apache-2.0
/* p2p-sim: options, a run, and its output. See bench/p2p-sim. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

double sim_bound(const struct sim_config *c, double share)
{
	double bytes = share * c->pieces * (double)c->piece_bytes;
	double fast = c->nodes - c->slow;
	double up = c->up * (fast + c->slow / c->slow_by);
	double t = bytes / c->origin, all;

	/* Slow nodes are not counted: their own links limit them. */
	if (bytes / c->down > t)
		t = bytes / c->down;
	all = fast * bytes / (c->origin + up);
	if (all > t)
		t = all;
	/* At least one copy must enter each rack. */
	if (c->uplink > 0 && bytes / c->uplink > t)
		t = bytes / c->uplink;
	if (bytes / c->hash > t)
		t = bytes / c->hash;
	return t;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

struct figures {
	double p50, p99, max;
	uint32_t n;
};

static struct figures figures(const struct sim *s, bool is_hot)
{
	double *t = must_alloc(calloc(s->cfg.nodes, sizeof(*t)));
	struct figures f = { 0, 0, 0, 0 };
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->cfg.nodes; i++) {
		const struct node *node = &s->nodes[i];
		int64_t at = is_hot ? node->hot_at : node->full_at;

		if (!node->is_alive || node->is_slow)
			continue;
		t[n++] = at < 0 ? INFINITY
				: (double)(at - node->joins) / NS_PER_S;
	}
	qsort(t, n, sizeof(*t), by_value);
	if (n) {
		f.p50 = t[(n - 1) / 2];
		f.p99 = t[(uint32_t)ceil(0.99 * n) - 1];
		f.max = t[n - 1];
		f.n = n;
	}
	free(t);
	return f;
}

static void print_figures(const char *what, struct figures f, double bound)
{
	printf("%s_bound_s %.4f\n%s_p50_s %.4f\n%s_p99_s %.4f\n%s_max_s %.4f\n",
	       what, bound, what, f.p50, what, f.p99, what, f.max);
	printf("%s_ratio %.4f\n%s_max_by_median %.4f\n", what, f.p99 / bound,
	       what, f.p50 > 0 ? f.max / f.p50 : 0);
}

static void report(const struct sim *s)
{
	double total = (double)s->cfg.pieces * s->cfg.piece_bytes;
	struct swarm_stats st;
	uint64_t twice = 0, stalls = 0, hedges = 0, strikes = 0, peers = 0;

	for (uint32_t i = 0; i < s->cfg.nodes; i++) {
		if (!s->nodes[i].swarm)
			continue;
		swarm_get_stats(s->nodes[i].swarm, &st);
		twice += st.bytes_twice;
		stalls += st.stalls;
		hedges += st.hedges;
		strikes += st.strikes;
		for (int d = 0; d < 3; d++)
			peers += st.bytes_peers[d];
	}
	print_figures("hot", figures(s, true), sim_bound(&s->cfg, s->cfg.hot));
	print_figures("full", figures(s, false), sim_bound(&s->cfg, 1));
	printf("nodes %u\nfull_nodes %u\npieces %u\npiece_bytes %u\n",
	       s->n_alive, s->n_full, s->cfg.pieces, s->cfg.piece_bytes);
	printf("origin_copies %.4f\ntwice_share %.5f\ncancelled_share %.5f\n",
	       (double)s->bytes_origin / total,
	       (double)twice / ((double)peers + 1),
	       (double)s->bytes_cancelled / ((double)peers + 1));
	printf("asks %llu\nrefusals %llu\nstalls %llu\nstrikes %llu\n"
	       "hedges %llu\ntracker_calls %llu\n",
	       (unsigned long long)s->asks, (unsigned long long)s->refusals,
	       (unsigned long long)stalls, (unsigned long long)strikes,
	       (unsigned long long)hedges, (unsigned long long)s->calls);
}

/* Print the times of each node, to compare them with measured ones. */
static void print_times(const struct sim *s)
{
	for (uint32_t i = 0; i < s->cfg.nodes; i++) {
		const struct node *n = &s->nodes[i];

		if (n->is_alive && !n->is_slow && n->full_at >= 0)
			printf("times %u %.4f %.4f\n", i,
			       (double)(n->hot_at - n->joins) / NS_PER_S,
			       (double)(n->full_at - n->joins) / NS_PER_S);
	}
}

/* ----------------------------------------------------------------------- options --- */

struct number_option {
	const char *name;
	void (*set)(struct sim_config *c, double v);
};

#define OPTION(name, body) \
	static void set_##name(struct sim_config *c, double v) \
	{ \
		body; \
	}
OPTION(nodes, c->nodes = (uint32_t)v)
OPTION(racks, c->racks = (uint32_t)v)
OPTION(pieces, c->pieces = (uint32_t)v)
OPTION(piece, c->piece_bytes = (uint32_t)v)
OPTION(bytes, c->pieces = (uint32_t)((v + c->piece_bytes - 1) / c->piece_bytes))
OPTION(hot, c->hot = v)
OPTION(link, c->up = c->down = v * 125000)
OPTION(origin, c->origin = v * 125000)
OPTION(uplink, c->uplink = v * 125000)
OPTION(queue, c->queue = v * 1024)
OPTION(hash, c->hash = v * 1e6)
OPTION(rtt, c->rtt = (int64_t)(v * NS_PER_MS))
OPTION(rack_rtt, c->rack_rtt = (int64_t)(v * NS_PER_MS))
OPTION(far, c->far_rtt = (int64_t)(v * NS_PER_MS))
OPTION(origin_rtt, c->origin_rtt = (int64_t)(v * NS_PER_MS))
OPTION(slow, c->slow = (uint32_t)v)
OPTION(slow_by, c->slow_by = v)
OPTION(kill, c->kill_every = v)
OPTION(no_tracker, c->no_tracker = v != 0)
OPTION(unverified, c->is_unverified = v != 0)
OPTION(kill_tracker, c->kill_tracker = v != 0)
OPTION(kill_origin, c->kill_origin = v != 0)
OPTION(join, c->join = v)
OPTION(neighbours, c->neighbours = (uint32_t)v)
OPTION(slots, c->slots = (unsigned int)v)
OPTION(waiting, c->waiting = (unsigned int)v)
OPTION(queued, c->queued = (unsigned int)v)
OPTION(streams, c->streams = (unsigned int)v)
OPTION(copies, c->copies = (unsigned int)v)
OPTION(retry, c->retry = (int64_t)(v * NS_PER_MS))
OPTION(news, c->limits.news_ns = (int64_t)(v * NS_PER_MS))
OPTION(step, c->step = (int64_t)(v * NS_PER_MS))
OPTION(window, c->limits.window = (uint32_t)v)
OPTION(flying, c->limits.flying_max = (uint64_t)v)
OPTION(flying_pieces, c->limits.flying_pieces = (uint32_t)v)
OPTION(peer_min, c->limits.peer_min = (uint64_t)v)
OPTION(credit, c->limits.credit_ns = (int64_t)(v * NS_PER_MS))
OPTION(origin_min, c->limits.origin_min = (uint64_t)v)
OPTION(origin_ms, c->limits.origin_ns = (int64_t)(v * NS_PER_MS))
OPTION(seed, c->seed = (uint64_t)v)
OPTION(give_up, c->give_up = v)
OPTION(verbose, c->is_verbose = v != 0)
OPTION(times, c->with_times = v != 0)
#undef OPTION

#define ROW(name) \
	{ \
#name, set_##name \
	}
static const struct number_option options[] = {
	ROW(nodes),      ROW(racks),         ROW(piece),
	ROW(pieces),     ROW(bytes),         ROW(hot),
	ROW(link),       ROW(origin),        ROW(uplink),
	ROW(hash),       ROW(rtt),           ROW(rack_rtt),
	ROW(far),        ROW(origin_rtt),    ROW(slow),
	ROW(slow_by),    ROW(kill),          ROW(no_tracker),
	ROW(unverified), ROW(kill_tracker),  ROW(kill_origin),
	ROW(join),       ROW(neighbours),    ROW(slots),
	ROW(waiting),    ROW(queued),        ROW(retry),
	ROW(news),       ROW(step),          ROW(window),
	ROW(flying),     ROW(peer_min),      ROW(credit),
	ROW(origin_min), ROW(origin_ms),     ROW(seed),
	ROW(give_up),    ROW(flying_pieces), ROW(streams),
	ROW(copies),     ROW(verbose),       ROW(times),
	ROW(queue),
};
#undef ROW

static void usage(FILE *to)
{
	fprintf(to, "usage: p2p-sim [NAME=NUMBER]...\nnames:");
	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		fprintf(to, " %s", options[i].name);
	fprintf(to, "\n");
}

static bool set_option(struct sim_config *c, const char *text)
{
	const char *equals = strchr(text, '=');
	char *end;
	double v;

	if (!equals)
		return false;
	errno = 0;
	v = strtod(equals + 1, &end);
	if (errno || end == equals + 1 || *end || !isfinite(v) || v < 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		if (strlen(options[i].name) != (size_t)(equals - text) ||
		    strncmp(options[i].name, text, (size_t)(equals - text)) !=
			    0)
			continue;
		options[i].set(c, v);
		return true;
	}
	return false;
}

static bool is_possible(const struct sim_config *c)
{
	return c->nodes >= 1 && c->nodes <= 100000 && c->racks >= 1 &&
	       c->pieces >= 1 && c->pieces <= SWARM_PIECES_MAX &&
	       c->piece_bytes >= 1 && c->hot <= 1 && c->up > 0 &&
	       c->origin > 0 && c->hash > 0 && c->slow_by >= 1 &&
	       c->slow < c->nodes && c->limits.news_ns > 0 &&
	       c->neighbours >= 1;
}

int main(int argc, char **argv)
{
	struct sim_config c = {
		.nodes = 16,
		.racks = 1,
		.pieces = 700,
		.piece_bytes = 256 << 10,
		.hot = 0.1,
		.up = 50 * 125e3,
		.down = 50 * 125e3,
		.origin = 50 * 125e3,
		.hash = 2e9,
		.rtt = NS_PER_MS / 5,
		.rack_rtt = NS_PER_MS / 10,
		.origin_rtt = NS_PER_MS,
		.slow_by = 50,
		.neighbours = 32,
		.slots = 8,
		.waiting = 1,
		.queued = 4,
		.streams = 2,
		.copies = 2,
		.retry = 5 * NS_PER_MS,
		.limits = swarm_limits_default,
		.seed = 1,
		.give_up = 3600,
	};
	struct sim s;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0) {
			usage(stdout);
			return 0;
		}
		if (!set_option(&c, argv[i])) {
			fprintf(stderr, "p2p-sim: what is '%s'?\n", argv[i]);
			usage(stderr);
			return 2;
		}
	}
	if (!is_possible(&c)) {
		fprintf(stderr, "p2p-sim: that cannot be\n");
		return 2;
	}
	sim_new(&c, &s);
	sim_run(&s);
	report(&s);
	if (c.with_times)
		print_times(&s);
	sim_free(&s);
	return 0;
}
