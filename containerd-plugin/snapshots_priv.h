// SPDX-License-Identifier: Apache-2.0
/* What the files of the snapshotter share. */
#ifndef BOOTSEER_CONTAINERD_PLUGIN_SNAPSHOTS_PRIV_H
#define BOOTSEER_CONTAINERD_PLUGIN_SNAPSHOTS_PRIV_H

#include <pthread.h>
#include <stdbool.h>

#include "containerd-plugin/images.h"
#include "containerd-plugin/snapshots.h"

#define STARTED_MAX 1024 /* containers whose start bootseerd was told of */
#define UNPACKING_MAX 64 /* layers that are being unpacked at a time */

struct snapshots {
	struct snapshots_config config;
	int lock_fd;
	char *folder; /* ROOT/snapshots */
	struct store *store;
	struct images *images;
	bool has_index_option; /* overlayfs knows index= */

	pthread_mutex_t lock; /* protects the rest */
	pthread_cond_t changed;
	uint64_t unpacking[UNPACKING_MAX]; /* ids; 0 is free */
	uint64_t started[STARTED_MAX];     /* ids; the oldest are forgotten */
	size_t next_started;
	bool cleaning; /* a thread is in snapshots_cleanup() */
};

/* ROOT/snapshots/ID/NAME; `name` may be "".  NULL when memory is short. */
char *snapshots_path(struct snapshots *s, uint64_t id,
		     const char *name) MUST_CHECK;

/* snapshots_lazy.c: the layer becomes a committed snapshot without content if its
 * image is lazy.  1: done; 0: it is an ordinary one. */
int snapshots_create_lazy(struct snapshots *s, const struct create_request *req,
			  struct error *err) MUST_CHECK;

/* snapshots_lazy.c: have the folder of a layer that was left out, filled. */
int snapshots_unpack(struct snapshots *s, const struct snapshot *snap,
		     struct error *err) MUST_CHECK;

/* snapshots_start.c: a container is about to run on this new snapshot, whose
 * parents are `chain`.  Waits for bootseerd for at most the start's timeout,
 * and never fails. */
void snapshots_start(struct snapshots *s, const struct snapshot *snap,
		     const struct snapshot *chain, size_t n);
/* The snapshot `id` was removed. */
void snapshots_start_end(struct snapshots *s, uint64_t id);

#endif
