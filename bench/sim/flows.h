// SPDX-License-Identifier: Apache-2.0
/*
 * A network modelled as a fluid: flows share the ports that they pass max-min fairly (many TCP
 * connections come close to that). Time goes in steps. In each step, rates are found by a few
 * rounds of Newton's method on each port's level, starting from the last step's result. Then
 * rates above a port's capacity are cut, so a port never carries too much, at worst slightly too
 * little.
 */
#ifndef BOOTSEER_BENCH_FLOWS_H
#define BOOTSEER_BENCH_FLOWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FLOW_PORTS 4u
#define PORT_NONE UINT32_MAX

struct flow {
	uint32_t ports[FLOW_PORTS]; /* unused entries are PORT_NONE */
	double left;                /* bytes */
	double rate;                /* bytes a second */
	uint32_t from, to, piece;   /* free for the user */
	uint32_t size;
	uint8_t priority, peer;
	uint32_t at; /* index in its sender's list */
};

struct port {
	double capacity;
	double level, load, scale;
	uint32_t n, limited;
	double queue, queue_max; /* bytes waiting, and their limit */
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
/* Add a flow; returns its index, valid until a flow is removed. */
size_t flow_add(struct flows *f, const struct flow *flow);
/* Remove a flow; the last one gets its index. */
void flow_remove(struct flows *f, size_t i);
/* Compute the rates of all flows. */
void flows_share(struct flows *f);
/* Update the bytes that wait before each port after `seconds` more: TCP fills the queue of a
 * full port, up to its limit. */
void flows_wait(struct flows *f, double seconds);
/* Seconds that new bytes wait at the port. */
double port_delay(const struct flows *f, uint32_t port);

#endif
