// SPDX-License-Identifier: Apache-2.0
/* Members of a session, shared by session.c and requests.c. */
#ifndef BOOTSEER_FUSE_SESSION_PRIV_H
#define BOOTSEER_FUSE_SESSION_PRIV_H

#include <fuse3/fuse_lowlevel.h>
#include <pthread.h>
#include <stdatomic.h>

#include "common/buf.h"
#include "common/thread.h"
#include "fuse/fuse.h"

#define SESSION_THREADS_MAX SESSION_THREADS_MOST

/* libfuse derives from this the largest request that it must hold, and so the kernel the
 * largest that it may send; a page is added for the headers. */
#define REQUEST_MAX SESSION_REQUEST_DATA

struct request_thread {
	struct session *session;
	struct thread thread;
	char *data; /* the request that it read */
};

struct session {
	struct fuse_session *se;
	/* The strings, except the constants, are copies. */
	struct session_config cfg;
	/* the handler's, with the session's init */
	struct fuse_lowlevel_ops ops;
	char *name, *init_name, *run_dir, *path;
	int fd; /* owned by `se` once that has it */
	/* The mount's root, open from the first session_ensure() on: it keeps the kernel's
	 * side of the session alive after an unmount, so that it can be mounted again. */
	int root_fd;
	pthread_mutex_t mounting; /* held while one thread checks and mounts */
	/* Device number of the mount, which tells it from a mount made at its path later; 0:
	 * it was not found there. */
	dev_t dev;
	bool adopted, resend;
	bool swallow; /* drop libfuse's answer to a repeated INIT */
	struct buf init_request, init_reply;
	pthread_mutex_t
		/* protects the next four; held while a thread is started */
		serving;
	struct request_thread threads[SESSION_THREADS_MAX];
	unsigned int n_threads, n_waiting;
	bool is_stopping;
	/* held by the owner, and by requests that are answered later */
	atomic_uint refs;

	struct parking *parking;
};

/* Is the session's mount still at its path though the kernel has ended it? Takes at most 5
 * s. */
bool session_is_aborted(const struct session *s);

/* Have libfuse parse a request and call the handler's operation. */
void requests_process(void *session, void *data, size_t len);

/* Start the threads that read and process the kernel's requests. */
int requests_start(struct session *s, struct error *err) MUST_CHECK;
void requests_stop(struct session *s);

#endif
