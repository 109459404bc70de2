// SPDX-License-Identifier: Apache-2.0
#include "containerd-plugin/turn.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int turn_need(struct turn *t, enum turn_kind kind, const char *image,
	      struct error *err)
{
	char host[REGISTRY_HOST_MAX];

	if (!t)
		return 0;
	registry_host_name(image, host);
	/* Layers of one call may come from several hosts: each in its turn. */
	if (t->kind >= kind &&
	    (kind != TURN_UNPACK || strcmp(host, t->host) == 0))
		return 0;
	if (t->is_refused[kind])
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
	if (t->is_layer_refused)
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
