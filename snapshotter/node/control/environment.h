// SPDX-License-Identifier: Apache-2.0
/*
 * Environments (docs/environments.md) that are mounted on this node: each mount has a
 * name, which is a user of the snapshot's image, and a folder ROOT/environments/NAME
 *
 *	boot   the boot of the machine that it was made in
 *	none   an empty folder, for looking whether an overlay has the others
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
	struct image_swarms *peers; /* or NULL */
	struct keyed_lock *gate;    /* of work on one image */
	struct mounts *mounts;
	struct prefetches *prefetches;
	struct starts *starts;
	const atomic_bool *is_ending; /* the node ends */
};

struct environment_query {
	const char *store;  /* URL, one of --env-store */
	const char *folder; /* of the snapshot's blobs: 32 hex digits */
	const char *
		name; /* of the mount: 32 hex digits, whoever asks chose them */
	struct digest key;      /* what it is of */
	struct digest artifact; /* its bytes: digest of the manifest */
	struct remote_call
		*call; /* as of struct mount_request, but never NULL */
};

struct environment_mount {
	char *path; /* where the snapshot's tree is */
	char *work; /* RUN/environments/NAME */
	bool is_complete;
};
void environment_mount_fini(struct environment_mount *m);

/* Mount the snapshot's tree, for `name`, and begin a start of it, as a container's on an
 * image.  Idempotent.
 *   -EACCES      the store is none of --env-store
 *   -EINPROGRESS as mounts_mount()
 *   -EBADMSG     the snapshot is damaged, or of another key */
int environment_mount(const struct environments *envs,
		      const struct environment_query *q,
		      struct environment_mount *ret,
		      struct error *err) MUST_CHECK;

/* Files from which an environment is unpacked without a mount. */
struct environment_files {
	char *meta, *map; /* metadata image and block map, as they unpack to */
	char *blocks;     /* takes what environment_read() reads */
};
void environment_files_fini(struct environment_files *f);

/* Have the snapshot's metadata on the node, and its blocks on their way, for `name`, until
 * environment_umount().  Fails as environment_mount(). */
int environment_open(const struct environments *envs,
		     const struct environment_query *q,
		     struct environment_files *ret,
		     struct error *err) MUST_CHECK;

/* A use of the image that the name has; -ENOENT: none. */
int environment_image(const struct environments *envs, const char *name,
		      struct image **ret, struct error *err) MUST_CHECK;

/* Bytes of a snapshot's virtual device. */
struct environment_range {
	uint64_t off;
	uint64_t len;
};
#define ENVIRONMENT_READ_MAX (8u << 20)
#define ENVIRONMENT_RANGES_MAX 1024u

/* Put what all of these have, one behind the other, to the beginning of the blocks' file:
 * what is not on the node comes from peers first.  ENVIRONMENT_READ_MAX bytes at most.  One
 * call for a name at a time.  -ENOENT: nothing of that name is open; -EINPROGRESS as
 * node_prefetch_read(); or as a read. */
int environment_read(const struct environments *envs, const char *name,
		     const struct environment_range *ranges, size_t n_ranges,
		     struct remote_call *call, struct error *err) MUST_CHECK;

/* Forget the mount, and remove what was written to it.  -EBUSY: an overlay has it
 * still; the housekeeper ends it later. */
int environment_umount(const struct environments *envs, const char *name,
		       struct remote_call *call, bool *ret_was,
		       struct error *err) MUST_CHECK;

/* At start, before mounts_restore(): forget mounts of an earlier boot, and make the
 * folder. */
int environments_open(const struct environments *envs,
		      struct error *err) MUST_CHECK;

/* End mounts that no overlay has any more: their namespaces are gone.  `now` is in
 * seconds since 1970. */
void environments_collect(const struct environments *envs, int64_t now);

/* Can there be a file system for what is written into one?  Makes a small one and
 * removes it. */
int environments_probe(const struct environments *envs,
		       struct error *err) MUST_CHECK;
/* Room of one that is mounted, in bytes. */
struct environment_room {
	const char *name;
	uint64_t all, left;
};
typedef void environment_room_fn(void *arg, const struct environment_room *r);
/* Call `fn` with that of each. */
void environments_each_room(const struct environments *envs,
			    environment_room_fn *fn, void *arg);

#endif
