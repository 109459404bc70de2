// SPDX-License-Identifier: Apache-2.0
/* Internal functions that the snapshotter's files share. */
#ifndef BOOTSEER_CONTAINERD_PLUGIN_SNAPSHOTS_PRIV_H
#define BOOTSEER_CONTAINERD_PLUGIN_SNAPSHOTS_PRIV_H

#include <pthread.h>
#include <stdbool.h>

#include "containerd-plugin/images.h"
#include "containerd-plugin/snapshots.h"

#define STARTED_MAX 1024 /* containers whose start bootseerd was told of */

/* A layer that a thread downloads, on its stack. */
struct unpacking {
	struct unpacking *next;
	uint64_t id;       /* of the snapshot */
	uint64_t part;     /* names its folder */
	struct turn *turn; /* may be NULL */
};

struct snapshots {
	struct snapshots_config config;
	int lock_fd;
	char *folder; /* ROOT/snapshots */
	struct store *store;
	struct image_lookup *images;
	bool has_index_option; /* overlayfs knows index= */

	pthread_mutex_t lock; /* protects the rest */
	struct unpacking *unpacking;
	uint64_t started[STARTED_MAX]; /* ids; the oldest are forgotten */
	size_t next_started;
	bool cleaning; /* a thread is in snapshots_cleanup() */
};

/* snapshots_names.c: ROOT/snapshots/ID/NAME; `name` may be "".  NULL when memory is
 * short. */
char *snapshots_path(struct snapshots *s, uint64_t id,
		     const char *name) MUST_CHECK;

/* snapshots_names.c: the client's own part of a snapshot's name: containerd says
 * "NAMESPACE/NUMBER/KEY".  NULL: there is none. */
const char *snapshots_client_key(const char *name);

/* snapshots_names.c: is a layer unpacked into this snapshot? */
bool snapshots_is_layer(const struct snapshot *snap);

/* snapshots_names.c: is the key one that a client chowns an image in? */
bool snapshots_is_remap_key(const char *key);

/* snapshots_lazy.c: the chain id of a committed snapshot: containerd names its own
 * "NAMESPACE/NUMBER/CHAINID". */
const char *snapshots_chain_of(const struct snapshot *snap);

/* snapshots_lazy.c: the layer becomes a committed snapshot without content if its
 * image is lazy.  1: done; 0: it is an ordinary one. */
int snapshots_create_lazy(struct snapshots *s, const struct create_request *req,
			  struct turn *turn, struct error *err) MUST_CHECK;

/* snapshots_lazy.c: have the folder of a layer that was left out, filled.  `own` is
 * the image that needs it, which is asked first; NULL: not known.  `lower` as for
 * images_apply(). */
int snapshots_unpack(struct snapshots *s, const struct snapshot *snap,
		     const struct layer_source *own, const char *lower,
		     struct turn *turn, struct error *err) MUST_CHECK;

/*
 * snapshots_strays.c: take from bootseerd the users of ours that are neither a
 * snapshot nor waiting for Cleanup; gives up after `timeout_ns`, or at once when
 * bootseerd does not run.  One at a time.
 */
int snapshots_release_strays(struct snapshots *s, int64_t timeout_ns,
			     struct error *err) MUST_CHECK;

/* snapshots_strays.c: images_mount() for a snapshot that is noted.  -ENOENT: it was
 * removed meanwhile, and what was mounted for it is unmounted. */
int snapshots_mount_tree(struct snapshots *s, const struct digest *tree,
			 uint64_t id, char **ret_path,
			 struct error *err) MUST_CHECK;

/* The user namespace that a container runs in. */
struct id_maps {
	const char *uids, *gids; /* as in the labels, borrowed; NULL: none */
	unsigned int uid, gid;   /* the host's ids of the container's root */
	bool shifts_lower;       /* the mount is to map what lies below */
};

/* snapshots_idmap.c: what the labels say; `parent` NULL: nothing lies below.  -EINVAL */
int snapshots_id_maps(const struct snapshot *snap,
		      const struct snapshot *parent, struct id_maps *ret,
		      struct error *err) MUST_CHECK;

/* snapshots_idmap.c: -EKEYREJECTED, with a line in the log: the kernel maps no ids of
 * this mounted tree. */
int snapshots_check_mappable(const char *tree, const char *image,
			     struct error *err) MUST_CHECK;

/* snapshots_start.c: which of `chain` has the tree that a container of this snapshot
 * starts on; NULL: it is none, or has no tree. */
const struct snapshot *snapshots_start_on(const struct snapshot *snap,
					  const struct snapshot *chain,
					  size_t n);

/* snapshots_start.c: a container is about to run on this new snapshot, whose
 * tree is that of `top`.  Waits for bootseerd for at most the start's timeout,
 * and never fails. */
void snapshots_start(struct snapshots *s, const struct snapshot *snap,
		     const struct snapshot *top);
/* The snapshot `id` was removed. */
void snapshots_start_end(struct snapshots *s, uint64_t id);

#endif
