// SPDX-License-Identifier: Apache-2.0
/*
 * Environments (docs/environments.md) that are mounted on this node: each mount has a
 * name, which is a user of the snapshot's image, and a folder ROOT/environments/NAME
 *
 *	boot   the boot of the machine that it was made in
 *	none   an empty folder, lower layer of the probe whether an overlay is in use
 *	upper.ext4   a file system, mounted at RUN/environments/NAME, which has
 *	0/upper, 0/work, ...   of the overlay at each target; whoever mounts makes them
 *
 * Any thread.
 */
#ifndef BOOTSEER_NODE_ENVIRONMENT_H
#define BOOTSEER_NODE_ENVIRONMENT_H

#include "common/digest.h"
#include "snapshotter/node/config.h"
#include "snapshotter/node/remote_call.h"

struct disk;
struct gc;
struct image;
struct image_swarms;
struct images;
struct keyed_lock;
struct mounts;
struct origins;
struct parser;
struct prefetches;
struct starts;

/* The parts of the node that environments need; all is borrowed. */
struct environments {
	const struct node_config *cfg;
	struct disk *disk;
	const struct gc *gc;
	struct images *images;
	struct origins *origins;
	struct parser *parser;
	struct image_swarms *peers; /* NULL: no peers */
	struct keyed_lock *gate;    /* serialises work on one image */
	struct mounts *mounts;
	struct prefetches *prefetches;
	struct starts *starts;
	const atomic_bool *is_ending; /* true: the node is ending */
};

struct environment_query {
	const char *store;  /* URL, one of --env-store */
	const char *folder; /* folder of the snapshot's blobs: 32 hex digits */
	const char
		*name; /* of the mount: 32 hex digits, chosen by the caller */
	/* the environment's key, which the artifact must name */
	struct digest key;
	struct digest artifact; /* digest of the snapshot's manifest */
	/* the call that waits, as in struct mount_request; never NULL */
	struct remote_call *call;
};

struct environment_mount {
	char *path; /* where the snapshot's tree is */
	char *work; /* RUN/environments/NAME */
	bool is_complete;
};
void environment_mount_fini(struct environment_mount *m);

/* Mount the snapshot's tree for `name`, and begin a start on it, as for a container on an
 * image.  Idempotent.
 *     -EACCES      the store is none of --env-store
 *     -EINPROGRESS as mounts_mount()
 *     -EBADMSG     the snapshot is damaged, or is of another key */
int environment_mount(const struct environments *envs,
		      const struct environment_query *q,
		      struct environment_mount *ret,
		      struct error *err) MUST_CHECK;

/* Files that a client reads to unpack an environment without a mount. */
struct environment_files {
	/* metadata image and block map, which the unpacker reads */
	char *meta, *map;
	char *blocks; /* file into which environment_read() puts blocks */
};
void environment_files_fini(struct environment_files *f);

/* Fetch the snapshot's metadata, and prefetch its blocks, for `name`, until
 * environment_umount().  Fails as environment_mount(). */
int environment_open(const struct environments *envs,
		     const struct environment_query *q,
		     struct environment_files *ret,
		     struct error *err) MUST_CHECK;

/* Take a use of the image that the mount `name` has; -ENOENT: there is none. */
int environment_image(const struct environments *envs, const char *name,
		      struct image **ret, struct error *err) MUST_CHECK;

/* A range of bytes of a snapshot's virtual data device. */
struct environment_range {
	uint64_t off;
	uint64_t len;
};
#define ENVIRONMENT_READ_MAX (8u << 20)
#define ENVIRONMENT_RANGES_MAX 1024u

/* Write the bytes of all ranges, one behind the other, to the beginning of the file `blocks`;
 * blocks that are not on the node are fetched, from peers first.  ENVIRONMENT_READ_MAX bytes at
 * most.  One call for a name at a time.  -ENOENT: no environment of that name is open;
 * -EINPROGRESS as node_prefetch_read(); or as a read. */
int environment_read(const struct environments *envs, const char *name,
		     const struct environment_range *ranges, size_t n_ranges,
		     struct remote_call *call, struct error *err) MUST_CHECK;

/* Unmount the environment, and remove what was written to it.  -EBUSY: an overlay still uses
 * it; the housekeeper removes it later. */
int environment_umount(const struct environments *envs, const char *name,
		       struct remote_call *call, bool *ret_was,
		       struct error *err) MUST_CHECK;

/* Called at start, before mounts_restore(): remove mounts of an earlier boot, and make the
 * folder of environments. */
int environments_open(const struct environments *envs,
		      struct error *err) MUST_CHECK;

/* Remove mounts that no overlay uses any more because their mount namespaces are gone.  `now`
 * is in seconds since 1970. */
void environments_collect(const struct environments *envs, int64_t now);

/* Can this machine make a file system for writes into an environment?  Makes a small one and
 * removes it. */
int environments_probe(const struct environments *envs,
		       struct error *err) MUST_CHECK;
/* Size and free bytes of the file system for writes of one mounted environment. */
struct environment_room {
	const char *name;
	uint64_t all, left;
};
typedef void environment_room_fn(void *arg, const struct environment_room *r);
/* Call `fn` for each mounted environment. */
void environments_each_room(const struct environments *envs,
			    environment_room_fn *fn, void *arg);

#endif
