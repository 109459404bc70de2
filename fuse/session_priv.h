// SPDX-License-Identifier: Apache-2.0
/* The session's members, shared by session.c and requests.c. */
#ifndef BOOTSEER_FUSE_SESSION_PRIV_H
#define BOOTSEER_FUSE_SESSION_PRIV_H

#include <fuse3/fuse_lowlevel.h>
#include <pthread.h>
#include <stdatomic.h>

#include "common/buf.h"
#include "common/thread.h"
#include "fuse/fuse.h"

#define SESSION_THREADS_MAX SESSION_THREADS_MOST

/* libfuse takes the largest request it must hold from this, and so the kernel
 * the largest it may send; the page is for the headers of a request. */
#define REQUEST_MAX SESSION_REQUEST_DATA

struct request_thread {
	struct session *session;
	struct thread thread;
	char *data; /* the request that it read */
};

struct session {
	struct fuse_session *se;
	/* Its strings, but the constants, are the session's copies. */
	struct session_config cfg;
	struct fuse_lowlevel_ops ops; /* the handler's, with our init */
	char *name, *init_name, *run_dir, *path;
	int fd; /* of `se` once that has it, which closes it */
	/* The mount's root, from the first session_ensure() on.  It keeps the
	 * kernel's side of the session alive when somebody takes the mount away,
	 * so that it can be mounted again. */
	int root_fd;
	pthread_mutex_t mounting; /* one looks and mounts at a time */
	/* Device number of the mount, which tells it from another mount that is
	 * made at its path later; 0: it was not found there. */
	dev_t dev;
	bool adopted, resend;
	bool swallow; /* drop what libfuse answers: INIT fed again */
	struct buf init_request, init_reply;
	pthread_mutex_t
		serving; /* the next four; held while a thread is begun */
	struct request_thread threads[SESSION_THREADS_MAX];
	unsigned int n_threads, n_waiting;
	bool is_stopping;
	atomic_uint refs; /* the owner, and requests that are answered later */

	struct parking *parking;
};

/* Is its mount at its path still, though the kernel has ended it?  At most 5 s. */
bool session_is_aborted(const struct session *s);

/* Have libfuse take a request apart, and the handler's operation called. */
void requests_process(void *session, void *data, size_t len);

/* The threads that do so with what the kernel sends. */
int requests_start(struct session *s, struct error *err) MUST_CHECK;
void requests_stop(struct session *s);

#endif
