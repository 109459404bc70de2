// SPDX-License-Identifier: Apache-2.0
#include "containerd-plugin/turn.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Marks a refused layer; other refusals have the kind of a thread. */
#define REFUSED_LAYER TURN_KINDS

/* Was this layer or host refused before? Also true when no more can be noted, so that
 * nothing else is waited for. */
static bool was_wait_refused(const struct turn *t, int what, const char *name)
{
	bool found = t->n_refused == TURN_REFUSED_MAX;

	for (size_t i = 0; i < t->n_refused && !found; i++)
		found = t->refused[i].what == what &&
			strcmp(t->refused[i].name, name) == 0;
	return found;
}

void turn_refuse(struct turn *t)
{
	bool is_layer = t->kind == TURN_LOCAL;
	struct turn_refusal *r = &t->refused[t->n_refused];

	if (t->n_refused < TURN_REFUSED_MAX) {
		r->what = is_layer ? REFUSED_LAYER : (int)t->kind;
		(void)snprintf(r->name, sizeof(r->name), "%s",
			       is_layer ? t->layer : t->host);
		t->n_refused++;
	}
	t->kind = TURN_LOCAL;
}

int turn_need(struct turn *t, enum turn_kind kind, const char *image,
	      struct error *err)
{
	char host[REGISTRY_HOST_MAX];

	if (!t)
		return 0;
	registry_host_name(image, host);
	/* A call may need layers from several hosts, and needs a turn for each host. */
	if (t->kind >= kind &&
	    (kind != TURN_UNPACK || strcmp(host, t->host) == 0))
		return 0;
	if (was_wait_refused(t, (int)kind, host))
		return error_set(err, EHOSTDOWN,
				 "too many calls wait for registry %.100s "
				 "already: it is slow or out of reach",
				 host);
	t->kind = kind;
	memcpy(t->host, host, sizeof(host));
	return -ERESTART;
}

int turn_need_layer(struct turn *t, uint64_t id, const char *image,
		    int64_t patience_ns, struct error *err)
{
	char host[REGISTRY_HOST_MAX], layer[TURN_LAYER_MAX];

	if (!t)
		return 0;
	registry_host_name(image, host);
	snprintf(layer, sizeof(layer), "%" PRIu64 " %s", id, host);
	if (t->has_layer && strcmp(layer, t->layer) == 0)
		return turn_need(t, TURN_UNPACK, image, err);
	if (was_wait_refused(t, REFUSED_LAYER, layer))
		return error_set(
			err, EHOSTDOWN,
			"a layer is being fetched from registry %.100s "
			"for too long",
			host);
	memcpy(t->layer, layer, sizeof(layer));
	t->has_layer = false;
	t->layer_patience_ns = patience_ns;
	return -ERESTART;
}
