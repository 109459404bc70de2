// SPDX-License-Identifier: Apache-2.0
/*
 * One FUSE mount that outlives the process which serves it.
 *
 * Its /dev/fuse descriptor is kept by the fd keeper, together with the kernel's
 * INIT request.  A successor takes both, feeds INIT to its own libfuse session
 * (which refuses to work without) and drops the answer, and asks the kernel to
 * send again what the predecessor had read and not answered.
 *
 * docs/formats/datapath.md says what is kept and under which names.
 */
#ifndef BOOTSEER_DATAPATH_SESSION_H
#define BOOTSEER_DATAPATH_SESSION_H

#include "snapshotter/datapath/serve.h"

struct session;
struct fuse_conn_info;
struct fuse_lowlevel_ops;

/* All names of sessions. */
#define SESSION_CARRIER "carrier"
#define SESSION_CARRIER_LOOP "carrier-loop"
#define SESSION_PLAIN "fuse"

struct session_config {
	const char *name;          /* of the kept descriptors and the mount's
	                         * folder in the run directory */
	const char *mount_data;    /* options beside fd= and the root's mode */
	unsigned long mount_flags; /* of mount(2), beside read-only */
	const struct datapath_config *datapath; /* borrowed until start returns,
						 * its keeper until stop */
	const struct fuse_lowlevel_ops *ops;    /* userdata: the session */
	/* What to change of libfuse's choices at INIT; may be NULL. */
	void (*init)(struct fuse_conn_info *conn);
	void *owner; /* for session_owner() */
};

/* Take over the kept mount, or make a new one.  Threads serve it from here. */
int session_start(const struct session_config *cfg, struct session **ret,
		  struct error *err) MUST_CHECK;

/* Was the mount there, kept, when we came? */
bool session_is_adopted(const struct session *s);
/* Will it survive us?  Needs a keeper and a kernel that can send again. */
bool session_is_durable(const struct session *s);

/*
 * Requests about images that are not in the table wait while a restarted
 * daemon adopts its images.  Call after each image was added; `all`, when no
 * more will be: then they are answered whatever they are about.
 */
void session_admit(struct session *s, bool all);

/* Stop the threads; `keep` the mount for a successor, or take it down.  Reads
 * under way are answered when their bytes are there; the last one frees `s`. */
void session_stop(struct session *s, bool keep);

/* .init of every table of operations. */
void session_init(void *userdata, struct fuse_conn_info *conn);

/* Of a request's userdata. */
void *session_owner(void *userdata);
struct image_table *session_images(struct session *s);
struct read_pool *session_pool(struct session *s);
struct fuse_session *session_fuse(struct session *s);
const char *session_path(const struct session *s); /* the mount point */
/* Before each serve_read(); the pool gives it back. */
void session_hold(struct session *s);

#endif
