// SPDX-License-Identifier: Apache-2.0
/*
 * Permission of a call to wait. A call begins on a thread that waits for no registry.
 * Where it would have to, it ends with -ERESTART instead, and says in its turn for what
 * and for which host. The service runs it again, from its beginning, on a thread of that
 * kind once the host has a place there (net/lanes.h).
 */
#ifndef BOOTSEER_CONTAINERD_PLUGIN_TURN_H
#define BOOTSEER_CONTAINERD_PLUGIN_TURN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/registry_host.h"

/* A thread of one kind may do what those before it may. */
enum turn_kind {
	TURN_LOCAL,  /* asks no registry */
	TURN_ASK,    /* whether an image is lazy */
	TURN_START,  /* waits until a container's files are here */
	TURN_UNPACK, /* downloads a layer */
	TURN_KINDS,
};

#define TURN_LAYER_MAX (REGISTRY_HOST_MAX + 24) /* bytes, NUL included */

/* Most hosts that one call asks; more are left out. */
#define TURN_REFUSED_MAX 8

/* A host that had no place in time, or a layer that others had for too long. */
struct turn_refusal {
	int what;                  /* turn.c's */
	char name[TURN_LAYER_MAX]; /* as `host` or `layer` */
};

struct turn {
	enum turn_kind kind; /* what the thread is for, or should be */
	char host[REGISTRY_HOST_MAX];
	struct turn_refusal refused[TURN_REFUSED_MAX];
	size_t n_refused;
	bool is_lost; /* bootseerd said that it lost the tree: no need to ask */

	/* "ID HOST": the layer that this call alone fetches from this host; while
	 * !has_layer, it waits for that. */
	char layer[TURN_LAYER_MAX];
	bool has_layer;
	int64_t layer_patience_ns;
	uint64_t without; /* a layer that its own image does not give */
	struct error why; /* of `without` */

	atomic_bool is_gone; /* nobody waits for the answer any more */
	atomic_bool
		is_cut; /* nor for what it waits for: that came another way */
};

/* Note that the layer (`kind` is TURN_LOCAL) or else the host that the call waits for did
 * not come in time: the call goes on without it, and waits for that layer or host, no
 * other, not again. */
void turn_refuse(struct turn *t);

/*
 * May the call go on to wait for the registry of `image`?  NULL for `t`: it may do
 * anything.  0; -ERESTART as above; -EHOSTDOWN: it had no place in time, `err` tells
 * people.
 */
int turn_need(struct turn *t, enum turn_kind kind, const char *image,
	      struct error *err) MUST_CHECK;

/*
 * May it download the layer of snapshot `id` from the registry of `image`?  One call at
 * a time does, and those that wait for it, `patience_ns` at most, have neither a thread
 * nor a place of the host; another host's download is not waited for.  As turn_need().
 */
int turn_need_layer(struct turn *t, uint64_t id, const char *image,
		    int64_t patience_ns, struct error *err) MUST_CHECK;

#endif
