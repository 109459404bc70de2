// SPDX-License-Identifier: Apache-2.0
/*
 * The snapshotter itself: folders for ordinary layers as containerd's overlay
 * snapshotter has them, and layers of lazy images, which bootseerd mounts.
 * docs/formats/snapshots.md.
 *
 * Every function blocks and may be called on any thread.  Errors are errno
 * values that grpc_status_of_errno() knows: -ENOENT, -EEXIST, -EINVAL, -EBUSY (a
 * condition is not met), -EPERM (an image that --scope leaves out), -EHOSTDOWN
 * (bootseerd is needed and cannot), -EINPROGRESS (it did not answer in time), -EIO.
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
	const char *containerd_state; /* folder; "": not known */
	const char *scope;            /* as in struct images_config */
};

/* Open the snapshots of `root`, for a single process at a time: -EBUSY. The strings must
 * outlive it. */
int snapshots_open(const struct snapshots_config *config,
		   struct snapshots **ret, struct error *err) MUST_CHECK;
void snapshots_close(struct snapshots *s);

/* Have bootseerd mount again what snapshots need, and release what none does; gives up
 * after `timeout_ns`, or at once when it does not run: they are mounted when they are
 * used. */
int snapshots_restore(struct snapshots *s, int64_t timeout_ns,
		      struct error *err) MUST_CHECK;

/* How a snapshot is mounted: always by one mount. */
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
 * Prepare and View.  `turn`: as for turn_need(), also of snapshots_mounts(); then
 * nothing was done, or what need not be done again.  -EEXIST also tells that the
 * layer of a lazy image that LABEL_SNAPSHOT_REF names is there now, committed.
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
 * Have bootseerd unpack a layer that containerd has.  Whatever it cannot do is -ENOSYS with
 * an empty folder: then containerd unpacks it itself.  -ECANCELED, -EINPROGRESS: the turn is
 * cut, or bootseerd did not answer in time, and may still write.
 */
int snapshots_apply(struct snapshots *s, const struct node_layer *l,
		    const struct turn *turn, struct node_layer_content *ret,
		    struct error *err) MUST_CHECK;

/* Add to the labels of Commit what has to be known later of the snapshot `key`. */
int snapshots_note_shifted(const char *key, struct labels *labels,
			   struct error *err) MUST_CHECK;

/* Delete what removed snapshots left.  What cannot be deleted now is tried again
 * the next time and logged. */
int snapshots_cleanup(struct snapshots *s, struct error *err) MUST_CHECK;

/* For what is a matter of the state alone; borrowed. */
struct store *snapshots_store(struct snapshots *s);

#endif
