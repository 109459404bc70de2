// SPDX-License-Identifier: Apache-2.0
/*
 * A network as fluid: flows share the ports that they pass max-min fairly (what
 * many TCP connections come near to).  Time goes in steps; rates are found anew in
 * each step by a few rounds of Newton's method on each port's level, begun where
 * the last step ended.  After them whatever still is above a port's capacity is
 * cut, so what a port carries is never too much and at worst a little too few.
 */
#ifndef BOOTSEER_BENCH_FLOWS_H
#define BOOTSEER_BENCH_FLOWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FLOW_PORTS 4u
#define PORT_NONE UINT32_MAX

struct flow {
	uint32_t ports[FLOW_PORTS]; /* PORT_NONE: fewer */
	double left;                /* bytes */
	double rate;                /* bytes a second */
	uint32_t from, to, piece;   /* the user's */
	uint32_t size;
	uint8_t priority, peer;
	uint32_t at; /* place in the list of its sender */
};

struct port {
	double capacity;
	double level, load, scale;
	uint32_t n, limited;
	double queue, queue_max; /* bytes that wait, and may */
};

struct flows {
	struct port *ports;
	size_t n_ports;
	struct flow *flows;
	size_t n, room;
	bool is_changed;
};

void flows_init(struct flows *f, size_t n_ports);
void flows_fini(struct flows *f);
/* Returns its index, good until a flow is removed. */
size_t flow_add(struct flows *f, const struct flow *flow);
/* The last one takes its place. */
void flow_remove(struct flows *f, size_t i);
/* Find the rates as they are now. */
void flows_share(struct flows *f);
/* What waits before each port after so many seconds more of that: what TCP puts
 * there of a port that is full, up to what there is room for. */
void flows_wait(struct flows *f, double seconds);
/* Seconds that who comes now waits there. */
double port_delay(const struct flows *f, uint32_t port);

#endif
