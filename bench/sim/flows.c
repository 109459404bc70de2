// SPDX-License-Identifier: Apache-2.0
#include "flows.h"

#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define ROUNDS 10
#define FULL 0.97 /* share of its capacity above which a port counts as full */
/* the queue of a full port grows by this share of its capacity */
#define FILLS 0.25

void flows_init(struct flows *f, size_t n_ports)
{
	*f = (struct flows){ .n_ports = n_ports };
	f->ports = must_alloc(calloc(n_ports, sizeof(*f->ports)));
}

void flows_fini(struct flows *f)
{
	free(f->ports);
	free(f->flows);
}

size_t flow_add(struct flows *f, const struct flow *flow)
{
	if (f->n == f->room) {
		f->room = f->room ? 2 * f->room : 1024;
		f->flows = must_alloc(
			realloc(f->flows, f->room * sizeof(*f->flows)));
	}
	f->flows[f->n] = *flow;
	for (unsigned int i = 0; i < FLOW_PORTS; i++)
		if (flow->ports[i] != PORT_NONE)
			f->ports[flow->ports[i]].n++;
	f->is_changed = true;
	return f->n++;
}

void flow_remove(struct flows *f, size_t i)
{
	for (unsigned int j = 0; j < FLOW_PORTS; j++)
		if (f->flows[i].ports[j] != PORT_NONE)
			f->ports[f->flows[i].ports[j]].n--;
	f->flows[i] = f->flows[--f->n];
	f->is_changed = true;
}

static double level_of(const struct flows *f, const struct flow *flow)
{
	double level = f->ports[flow->ports[0]].level;

	for (unsigned int i = 1; i < FLOW_PORTS && flow->ports[i] != PORT_NONE;
	     i++)
		if (f->ports[flow->ports[i]].level < level)
			level = f->ports[flow->ports[i]].level;
	return level;
}

static void load(struct flows *f)
{
	for (size_t i = 0; i < f->n_ports; i++) {
		f->ports[i].load = 0;
		f->ports[i].limited = 0;
	}
	for (size_t i = 0; i < f->n; i++) {
		struct flow *flow = &f->flows[i];

		flow->rate = level_of(f, flow);
		for (unsigned int j = 0;
		     j < FLOW_PORTS && flow->ports[j] != PORT_NONE; j++) {
			struct port *p = &f->ports[flow->ports[j]];

			p->load += flow->rate;
			p->limited += flow->rate >= p->level;
		}
	}
}

static void adjust(struct port *p)
{
	double least = p->n ? p->capacity / p->n : p->capacity;

	if (p->limited)
		p->level += (p->capacity - p->load) / p->limited;
	else if (p->load < p->capacity)
		p->level = p->capacity;
	if (p->level < least)
		p->level = least;
	if (p->level > p->capacity)
		p->level = p->capacity;
}

void flows_share(struct flows *f)
{
	if (!f->is_changed)
		return;
	f->is_changed = false;
	for (size_t i = 0; i < f->n_ports; i++)
		if (f->ports[i].level <= 0)
			f->ports[i].level = f->ports[i].capacity;
	for (int round = 0; round < ROUNDS; round++) {
		load(f);
		for (size_t i = 0; i < f->n_ports; i++)
			adjust(&f->ports[i]);
	}
	load(f);
	for (size_t i = 0; i < f->n_ports; i++) {
		struct port *p = &f->ports[i];

		p->scale = p->load > p->capacity ? p->capacity / p->load : 1;
	}
	for (size_t i = 0; i < f->n; i++) {
		struct flow *flow = &f->flows[i];
		double scale = 1;

		for (unsigned int j = 0;
		     j < FLOW_PORTS && flow->ports[j] != PORT_NONE; j++)
			if (f->ports[flow->ports[j]].scale < scale)
				scale = f->ports[flow->ports[j]].scale;
		flow->rate *= scale;
	}
}

void flows_wait(struct flows *f, double seconds)
{
	for (size_t i = 0; i < f->n_ports; i++) {
		struct port *p = &f->ports[i];
		double more = p->n && p->load >= FULL * p->capacity
				      ? FILLS * p->capacity
				      : (p->n ? p->load : 0) - p->capacity;

		p->queue += more * seconds;
		if (p->queue < 0)
			p->queue = 0;
		if (p->queue > p->queue_max)
			p->queue = p->queue_max;
	}
}

double port_delay(const struct flows *f, uint32_t port)
{
	return f->ports[port].queue / f->ports[port].capacity;
}
