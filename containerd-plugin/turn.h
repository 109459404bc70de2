// SPDX-License-Identifier: Apache-2.0
/*
 * Permission of a call to wait. A call begins on a thread that must not wait for a registry.
 * Where it would have to wait, it ends with -ERESTART, and its turn says for what and for which
 * host. The service runs the call again, from the beginning, on a thread of that kind, once the
 * host has a free place (net/lanes.h).
 */
#ifndef BOOTSEER_CONTAINERD_PLUGIN_TURN_H
#define BOOTSEER_CONTAINERD_PLUGIN_TURN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/registry_host.h"

/* Kinds of threads. A thread may do everything that the kinds before its own may. */
enum turn_kind {
	TURN_LOCAL,  /* contacts no registry */
	TURN_ASK,    /* may ask whether an image is lazy */
	TURN_START,  /* may wait until a container's files are on the node */
	TURN_UNPACK, /* may download a layer */
	TURN_KINDS,
};

#define TURN_LAYER_MAX (REGISTRY_HOST_MAX + 24) /* bytes, NUL included */

/* Refusals that one call can note; after these it waits for nothing more. */
#define TURN_REFUSED_MAX 8

/* A host without a free place in time, or a layer that another call downloaded for too long. */
struct turn_refusal {
	int what;                  /* used by turn.c */
	char name[TURN_LAYER_MAX]; /* copy of `host` or `layer` */
};

struct turn {
	/* kind of the present thread, or of the one to run on next */
	enum turn_kind kind;
	char host[REGISTRY_HOST_MAX];
	struct turn_refusal refused[TURN_REFUSED_MAX];
	size_t n_refused;
	/* bootseerd has reported that it lost the tree: no need to ask again */
	bool is_lost;

	/* "ID HOST": the layer that this call alone downloads from this host; without
	 * has_layer it waits for that. */
	char layer[TURN_LAYER_MAX];
	bool has_layer;
	int64_t layer_patience_ns;
	/* id of a layer that its own image's registry does not give */
	uint64_t without;
	struct error why; /* reason for `without` */

	/* the client has disconnected: nobody waits for the answer */
	atomic_bool is_gone;
	atomic_bool
		/* stop the work too: what the call waits for came in another way */
		is_cut;
};

/* Note that the host that the call waits for (or the layer, when `kind` is TURN_LOCAL) did
 * not come in time: the call goes on without it, and does not wait for it again. */
void turn_refuse(struct turn *t);

/*
 * May the call now wait for the registry of `image`? `t` NULL: it may. Returns 0; -ERESTART: see
 * above; -EHOSTDOWN: the host had no free place in time, and `err` has a text for users.
 */
int turn_need(struct turn *t, enum turn_kind kind, const char *image,
	      struct error *err) MUST_CHECK;

/*
 * May the call download the layer of snapshot `id` from the registry of `image`? Only one call
 * at a time may. Others wait for it, at most `patience_ns`, without occupying a thread or a
 * place of the host; they do not wait for a download from another host. Results as of
 * turn_need().
 */
int turn_need_layer(struct turn *t, uint64_t id, const char *image,
		    int64_t patience_ns, struct error *err) MUST_CHECK;

#endif
