// SPDX-License-Identifier: Apache-2.0
/*
 * A FUSE session (fuse/fuse.h) that serves images, with its table of images and the buffers for
 * their bytes.
 */
#ifndef BOOTSEER_DATAPATH_IMAGE_SESSION_H
#define BOOTSEER_DATAPATH_IMAGE_SESSION_H

#include "fuse/fuse.h"
#include "snapshotter/datapath/images.h"

struct read_pool;

/* The names of all sessions; image_session_drop_others() lists them too. */
#define IMAGE_SESSION_CARRIER "carrier"
#define IMAGE_SESSION_CARRIER_LOOP "carrier-loop"
#define IMAGE_SESSION_PLAIN "fuse"
#define IMAGE_SESSION_NO_XATTR "fuse-noxattr"

/* File system types in mountinfo.  The session without xattrs has another type, so that an
 * older bootseerd does not mistake its mounts for those of the ordinary session. */
#define IMAGE_SESSION_FSTYPE "fuse.bootseer"
#define IMAGE_SESSION_FSTYPE_NO_XATTR "fuse.bootseer-noxattr"

/* The owner (session_config.owner) of each handler in this folder.  Valid until
 * image_session_stop(), and for a request until it was answered. */
struct image_session {
	/* requests must not use it: they have session_of() */
	struct session *session;
	struct image_table *images;
	struct read_pool *pool;
	/* of the handler; stays valid until the session's threads have ended */
	void *priv;
};

struct image_session_config {
	const char
		*name; /* IMAGE_SESSION_*, also of the mount's folder in RUN */
	const char *fstype;        /* IMAGE_SESSION_FSTYPE* */
	unsigned long mount_flags; /* further flags of mount(2) */
	/* borrowed until start returns, but `keeper` until stop */
	const struct datapath_config *datapath;
	const struct session_handler *handler;
	struct read_pool *pool; /* shared with another session, or NULL */
	void *priv;
};

int image_session_start(const struct image_session_config *cfg,
			struct image_session **ret,
			struct error *err) MUST_CHECK;
/* Stop the session as session_stop(). */
void image_session_stop(struct image_session *s, bool keep);

/* Mount the session again as session_ensure(), and log that if necessary. */
int image_session_ensure(struct image_session *s, struct error *err) MUST_CHECK;

/*
 * Drop the sessions that an earlier bootseerd with another data path left, since nobody will
 * serve them.  `mine` are the session names of the present data path, the last one NULL.
 */
void image_session_drop_others(const struct datapath_config *cfg,
			       const char *const mine[]);

/* The image session that a request belongs to. */
struct image_session *image_session_of(struct fuse_req *req);

/* May the request be for an image that is not adopted yet after a restart?  For
 * session_handler.is_early. */
bool image_session_is_early(void *owner, uint64_t node, const char *name);
/* Free the owner, for session_handler.free. */
void image_session_free(void *owner);

#endif
