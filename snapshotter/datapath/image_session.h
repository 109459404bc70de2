// SPDX-License-Identifier: Apache-2.0
/*
 * A FUSE session (fuse/fuse.h) that serves images: which they are, and the buffers
 * that their bytes are answered from.
 */
#ifndef BOOTSEER_DATAPATH_IMAGE_SESSION_H
#define BOOTSEER_DATAPATH_IMAGE_SESSION_H

#include "fuse/fuse.h"
#include "snapshotter/datapath/images.h"

struct read_pool;

/* All names of sessions; image_session_drop_others() has a list of them. */
#define IMAGE_SESSION_CARRIER "carrier"
#define IMAGE_SESSION_CARRIER_LOOP "carrier-loop"
#define IMAGE_SESSION_PLAIN "fuse"
#define IMAGE_SESSION_NO_XATTR "fuse-noxattr"

/* As mountinfo has them.  The session without xattrs has a type of its own, so that
 * a bootseerd which knows nothing of it does not take its mounts for the other's. */
#define IMAGE_SESSION_FSTYPE "fuse.bootseer"
#define IMAGE_SESSION_FSTYPE_NO_XATTR "fuse.bootseer-noxattr"

/* session_config.owner of each handler here.  Valid until image_session_stop(), and
 * for a request until it was answered. */
struct image_session {
	struct session *session; /* not for requests: they have session_of() */
	struct image_table *images;
	struct read_pool *pool;
	void *priv; /* of the handler; outlives the session's threads */
};

struct image_session_config {
	const char
		*name; /* IMAGE_SESSION_*, also of the mount's folder in RUN */
	const char *fstype;        /* IMAGE_SESSION_FSTYPE* */
	unsigned long mount_flags; /* of mount(2), beside those that all have */
	const struct datapath_config *datapath; /* borrowed until start returns,
						 * its keeper until stop */
	const struct session_handler *handler;
	struct read_pool *pool; /* shared with another session, or NULL */
	void *priv;
};

int image_session_start(const struct image_session_config *cfg,
			struct image_session **ret,
			struct error *err) MUST_CHECK;
/* session_stop() */
void image_session_stop(struct image_session *s, bool keep);

/* session_ensure(), and say so in the log when it was mounted again. */
int image_session_ensure(struct image_session *s, struct error *err) MUST_CHECK;

/*
 * A predecessor that went another way left sessions that nobody will serve again.
 * `mine` are the names of the present way's sessions, the last one NULL.
 */
void image_session_drop_others(const struct datapath_config *cfg,
			       const char *const mine[]);

/* The image whose session a request came by. */
struct image_session *image_session_of(struct fuse_req *req);

/* session_handler.is_early: images come one by one after a restart. */
bool image_session_is_early(void *owner, uint64_t node, const char *name);
/* session_handler.free */
void image_session_free(void *owner);

#endif
