// SPDX-License-Identifier: Apache-2.0
/*
 * The snapshotter: folders for ordinary layers, as in containerd's overlay snapshotter, and
 * layers of lazy images, which bootseerd mounts. docs/formats/snapshots.md.
 *
 * All functions block, and may be called on any thread. Errors are errno values that
 * grpc_status_of_errno() knows: -ENOENT, -EEXIST, -EINVAL, -EBUSY (a condition is not met),
 * -EPERM (the image is outside of --scope), -EHOSTDOWN (bootseerd is needed and cannot serve),
 * -EINPROGRESS (it did not answer in time), -EIO.
 */
#ifndef BOOTSEER_CONTAINERD_PLUGIN_SNAPSHOTS_H
#define BOOTSEER_CONTAINERD_PLUGIN_SNAPSHOTS_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "containerd-plugin/labels.h"
#include "containerd-plugin/store.h"
#include "containerd-plugin/turn.h"

struct snapshots;

struct snapshots_config {
	const char *root;
	const char *node_socket;
	int64_t node_timeout_ns;
	int64_t layer_timeout_ns;
	int64_t start_timeout_ns;
	/* containerd's state folder; "": unknown */
	const char *containerd_state;
	const char *scope; /* as in struct images_config */
};

/* Open the snapshots of `root`, which only one process may have open: -EBUSY. The strings
 * must outlive it. */
int snapshots_open(const struct snapshots_config *config,
		   struct snapshots **ret, struct error *err) MUST_CHECK;
void snapshots_close(struct snapshots *s);

/* Have bootseerd mount the trees that snapshots need, and release those that none needs.
 * Gives up after `timeout_ns`, or at once when bootseerd does not run: trees are then mounted
 * on use. */
int snapshots_restore(struct snapshots *s, int64_t timeout_ns,
		      struct error *err) MUST_CHECK;

/* The mount of a snapshot; there is always exactly one. */
struct mount {
	const char *type; /* static: "bind", "overlay" */
	char *source;
	char **options;
	size_t n_options;
};
void mount_fini(struct mount *m);

struct create_request {
	enum snapshot_kind kind; /* active or view */
	const char *key;
	const char *parent; /* "" without */
	const struct labels *labels;
};

/*
 * Prepare or View. `turn`: as for turn_need(), also in snapshots_mounts(); on -ERESTART nothing
 * was done that the repeated call would do twice. -EEXIST also says that the lazy layer named by
 * LABEL_SNAPSHOT_REF is there now, committed.
 */
int snapshots_create(struct snapshots *s, const struct create_request *req,
		     struct turn *turn, struct mount *ret,
		     struct error *err) MUST_CHECK;
int snapshots_mounts(struct snapshots *s, const char *key, struct turn *turn,
		     struct mount *ret, struct error *err) MUST_CHECK;
int snapshots_usage(struct snapshots *s, const char *key, int64_t *ret_size,
		    int64_t *ret_inodes, struct error *err) MUST_CHECK;

struct node_layer;
struct node_layer_content;

/*
 * Have bootseerd unpack a layer that containerd has pulled. If bootseerd cannot, the result is
 * -ENOSYS and the folder is empty: containerd then unpacks the layer itself. -ECANCELED: the
 * turn was cut, -EINPROGRESS: bootseerd did not answer in time; it may still write.
 */
int snapshots_apply(struct snapshots *s, const struct node_layer *l,
		    const struct turn *turn, struct node_layer_content *ret,
		    struct error *err) MUST_CHECK;

/* Add to the labels of Commit a note about the snapshot `key` that is needed later. */
int snapshots_note_shifted(const char *key, struct labels *labels,
			   struct error *err) MUST_CHECK;

/* Delete the remains of removed snapshots. Those that cannot be deleted now are logged, and
 * tried again at the next call. */
int snapshots_cleanup(struct snapshots *s, struct error *err) MUST_CHECK;

/* The store, for operations that only concern the state; borrowed. */
struct store *snapshots_store(struct snapshots *s);

#endif
