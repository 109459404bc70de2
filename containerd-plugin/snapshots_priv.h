// SPDX-License-Identifier: Apache-2.0
/* Internal functions that the snapshotter's files share. */
#ifndef BOOTSEER_CONTAINERD_PLUGIN_SNAPSHOTS_PRIV_H
#define BOOTSEER_CONTAINERD_PLUGIN_SNAPSHOTS_PRIV_H

#include <pthread.h>
#include <stdbool.h>

#include "containerd-plugin/images.h"
#include "containerd-plugin/snapshots.h"

#define STARTED_MAX 1024 /* containers whose start bootseerd was told of */

/* A download of a layer, on the stack of its thread. */
struct unpacking {
	struct unpacking *next;
	uint64_t id;       /* of the snapshot */
	uint64_t part;     /* unique number in the name of its folder */
	struct turn *turn; /* may be NULL */
};

struct snapshots {
	struct snapshots_config config;
	int lock_fd;
	char *folder; /* ROOT/snapshots */
	struct store *store;
	struct image_lookup *images;
	bool has_index_option; /* overlayfs supports index= */

	pthread_mutex_t lock; /* protects the rest */
	struct unpacking *unpacking;
	/* ids of containers whose start was announced; the oldest are overwritten */
	uint64_t started[STARTED_MAX];
	size_t next_started;
	bool cleaning; /* a thread is in snapshots_cleanup() */
};

/* snapshots_names.c: ROOT/snapshots/ID/NAME; `name` may be "".  NULL when memory is
 * short. */
char *snapshots_path(struct snapshots *s, uint64_t id,
		     const char *name) MUST_CHECK;

/* snapshots_names.c: the client's part of a snapshot's name, KEY in containerd's
 * "NAMESPACE/NUMBER/KEY". NULL: there is none. */
const char *snapshots_client_key(const char *name);

/* snapshots_names.c: is a layer unpacked into this snapshot? */
bool snapshots_is_layer(const struct snapshot *snap);

/* snapshots_names.c: is it the key of a snapshot in which a client chowns an image? */
bool snapshots_is_remap_key(const char *key);

/* snapshots_lazy.c: the chain id of a committed snapshot, CHAINID in containerd's
 * "NAMESPACE/NUMBER/CHAINID". */
const char *snapshots_chain_of(const struct snapshot *snap);

/* snapshots_lazy.c: if the layer's image is lazy, make the layer a committed snapshot
 * without content. 1: done; 0: the image is ordinary. */
int snapshots_create_lazy(struct snapshots *s, const struct create_request *req,
			  struct turn *turn, struct error *err) MUST_CHECK;

/* snapshots_lazy.c: download a layer that has no content yet into its folder. `own` is the
 * image that needs it, and is tried first; NULL: not known. `lower` as for images_apply(). */
int snapshots_unpack(struct snapshots *s, const struct snapshot *snap,
		     const struct layer_source *own, const char *lower,
		     struct turn *turn, struct error *err) MUST_CHECK;

/*
 * snapshots_strays.c: release those users of this snapshotter in bootseerd that are neither a
 * snapshot nor waiting for Cleanup. Gives up after `timeout_ns`, or at once when bootseerd does
 * not run. One call at a time.
 */
int snapshots_release_strays(struct snapshots *s, int64_t timeout_ns,
			     struct error *err) MUST_CHECK;

/* snapshots_strays.c: images_mount() for a snapshot whose tree is noted. -ENOENT: the
 * snapshot was removed meanwhile, and its mount was undone. */
int snapshots_mount_tree(struct snapshots *s, const struct digest *tree,
			 uint64_t id, char **ret_path,
			 struct error *err) MUST_CHECK;

/* The user namespace that a container runs in. */
struct id_maps {
	const char *uids, *gids; /* as in the labels, borrowed; NULL: none */
	unsigned int uid, gid;   /* the host's ids of the container's root */
	/* the mount must map the ids of the layers below */
	bool shifts_lower;
};

/* snapshots_idmap.c: read the mappings from the labels; `parent` NULL: no layer lies below.
 * -EINVAL */
int snapshots_id_maps(const struct snapshot *snap,
		      const struct snapshot *parent, struct id_maps *ret,
		      struct error *err) MUST_CHECK;

/* snapshots_idmap.c: -EKEYREJECTED, and a line in the log, if the kernel cannot map ids of
 * this mounted tree. */
int snapshots_check_mappable(const char *tree, const char *image,
			     struct error *err) MUST_CHECK;

/* snapshots_start.c: the snapshot in `chain` with the tree on which a container of `snap`
 * starts; NULL: `snap` is no container's, or there is no tree. */
const struct snapshot *snapshots_start_on(const struct snapshot *snap,
					  const struct snapshot *chain,
					  size_t n);

/* snapshots_start.c: a container is about to run on this new snapshot, with the tree of
 * `top`. Waits for bootseerd for at most the start's timeout; never fails. */
void snapshots_start(struct snapshots *s, const struct snapshot *snap,
		     const struct snapshot *top);
/* Tell bootseerd that the container of the removed snapshot `id` has ended. */
void snapshots_start_end(struct snapshots *s, uint64_t id);

#endif
