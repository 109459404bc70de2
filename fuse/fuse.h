// SPDX-License-Identifier: Apache-2.0
/*
 * FUSE mounts that outlive the process which serves them.
 *
 * The /dev/fuse descriptor of a mount is kept by the fd keeper, together with the
 * kernel's INIT request.  A successor takes both, feeds INIT to its own libfuse
 * session (which refuses to work without) and drops the answer, and asks the kernel
 * to send again what the predecessor had read and not answered.  What the mount
 * shows is its handler's business.
 *
 * docs/formats/datapath.md says what is kept, and how a successor takes over.
 */
#ifndef BOOTSEER_FUSE_H
#define BOOTSEER_FUSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/error.h"

struct fuse_conn_info;
struct fuse_lowlevel_ops;
struct fuse_req;

/* ------------------------------------------------------------ keeper, holder --- */

/* Keeps descriptors over a crash: systemd's descriptor store or our holder
 * (sd_notify(3), FDSTORE=1; sd_listen_fds_with_names(3)).  One thread at a time. */
struct fd_keeper;

/* Take the descriptors we were started with.  Where nobody offers to keep any
 * this still succeeds, and keeps nothing. */
int fd_keeper_open(struct fd_keeper **ret, struct error *err) MUST_CHECK;
void fd_keeper_close(struct fd_keeper *k); /* what is kept stays kept */
/* Is there somebody who keeps them? */
bool fd_keeper_is_durable(const struct fd_keeper *k);
/* A descriptor kept under `name` before the last start, or -1.  Caller owns. */
int fd_keeper_take(struct fd_keeper *k, const char *name);
/* The same, and it stays there: borrowed. */
int fd_keeper_look(const struct fd_keeper *k, const char *name);
/* Keep (a duplicate of) `fd` under `name`, instead of what was kept under it.
 * When this returns 0 it is kept.  Names: letters, digits, '-', '_', '.'. */
int fd_keeper_put(struct fd_keeper *k, const char *name, int fd,
		  struct error *err) MUST_CHECK;
int fd_keeper_drop(struct fd_keeper *k, const char *name,
		   struct error *err) MUST_CHECK;

/*
 * Be the holder: run argv as a child, keep the descriptors it hands over,
 * start it again with them when it crashes, at once or (when it crashes
 * again and again) up to 2 s later, and after a minute of that up to 30 s.
 * SIGTERM, SIGINT and SIGHUP are passed on.
 * Returns the exit code when the child has ended by itself or was told to, or
 * -errno.  Call first thing in main(): it wants no other threads.
 */
int hold_run(char *const argv[], struct error *err) MUST_CHECK;

/* ----------------------------------------------------------------- the handler --- */

#define SESSION_DATA_MAX (1u << 20) /* bytes of one READ or WRITE */

/* session_handler.request_max: a request with names at most, or with all the bytes
 * of a WRITE. */
#define SESSION_REQUEST_NAMES 8192u
#define SESSION_REQUEST_DATA (SESSION_DATA_MAX + 4096u)

/*
 * Handlers of a mount's requests; one `static const` table for each kind of
 * mount.
 *
 * The process may be killed at any moment, and its successor goes on.  So a handler
 *  - gives out node ids and file handles that mean the same to the successor, which
 *    is asked about nodes that it never gave out;
 *  - bears to be asked twice: the predecessor may have done a request, and died
 *    before the answer was sent.
 */
struct session_handler {
	/*
	 * libfuse's operations, but `init`, which is the session's own: see
	 * below.  Called on the session's threads, several at once, with a
	 * session as userdata: session_of().  One may answer later, on any
	 * thread, and holds the session until then: session_ref().
	 */
	const struct fuse_lowlevel_ops *ops;
	/*
	 * Change what is asked of the kernel at INIT; may be NULL.  Off are, of
	 * what libfuse asks for by itself, AUTO_INVAL_DATA, HANDLE_KILLPRIV and
	 * ATOMIC_O_TRUNC.  The kernel hears what the mount's first process asks
	 * for; what a successor would have otherwise holds from the next mount.
	 */
	void (*init)(struct fuse_conn_info *conn);
	/*
	 * Is a request too early: about a node that this process does not know
	 * yet, or about the `name` in it (of a LOOKUP; else NULL)?  Asked in a
	 * mount that was taken over, until session_admit() with `all`; the
	 * request then waits.  Under the lock of the list of those that wait,
	 * so memory only.  NULL: none ever is.
	 */
	bool (*is_early)(void *owner, uint64_t node, const char *name);
	/* Free session_config.owner; called once, when the last request was
	 * answered, on the thread that did so.  May be NULL. */
	void (*free)(void *owner);
	/*
	 * Bytes of the longest request that `ops` take: SESSION_REQUEST_*.  So
	 * much memory is locked for each thread: the kernel cannot fill a page
	 * that is not there for a process that was just killed, and then fails
	 * the request instead of sending it again.
	 */
	size_t request_max;
};

/* ----------------------------------------------------------------- the session --- */

struct session;

#define SESSION_THREADS_MOST 64

struct session_config {
	/* Name of the kept descriptors, see fd_keeper_put(), and the mount's
	 * source. */
	const char *name;
	/* Mount point, absolute; made if it is not there.  Unless the mount is
	 * taken over, what is mounted there is unmounted first. */
	const char *path;
	const char *run_dir;  /* of the locks of common/mount.h; made, too */
	unsigned int threads; /* that serve it, 1..SESSION_THREADS_MOST */
	struct fd_keeper *keeper; /* borrowed until stop returns */
	const struct session_handler *handler;
	void *owner; /* of the handler, for session_owner() */
	/* Constants, borrowed for ever: */
	const char *fstype;        /* as mountinfo has it: "fuse.NAME" */
	const char *mount_data;    /* options beside those of the protocol */
	unsigned long mount_flags; /* beside MS_NOSUID and MS_NODEV */
	const char *log;           /* module of its lines in the log */
};

/*
 * Take over the kept mount, or make a new one.  Threads serve it from here: the
 * handler is called before this returns.  Takes `owner`, also when it fails:
 * handler->free() has it then.  Blocks, for as long as a mount takes.
 *   -EINVAL  number of threads, size of requests
 */
int session_start(const struct session_config *cfg, struct session **ret,
		  struct error *err) MUST_CHECK;

/*
 * Stop the threads; `keep` the mount for a successor, or take it down, lazily: what
 * the kernel has not written back yet is lost, so a writable file system is unmounted
 * before.  Requests that hold the session are still answered; the last one frees it.
 */
void session_stop(struct session *s, bool keep);

/* Was the mount there, kept, when we came? */
bool session_is_adopted(const struct session *s);

/* The device of what it serves, as stat(2) has it; 0: it is not known. */
dev_t session_device(const struct session *s);

/* The mount point, without symlinks. */
const char *session_path(const struct session *s);

/*
 * Is it mounted?  If somebody unmounted it, mount it again.  0, or 1 when it had to
 * be; what is open there went on.  Any thread; sends no request.
 *   -EBUSY  something else is mounted there
 *
 * From the first call on the session holds the mount's root: it stays whatever is
 * unmounted, and umount(8) needs -l.  A session for which nobody calls this goes
 * when it is unmounted.
 */
int session_ensure(struct session *s, struct error *err) MUST_CHECK;

/* Is it mounted at its path: 1, 0, or -errno.  What somebody else has mounted there since
 * is another one. */
int session_is_mounted(struct session *s, struct error *err) MUST_CHECK;

/* Is a mount kept by this name that the kernel has ended: was it unmounted, or aborted? */
bool session_is_gone(const struct fd_keeper *k, const char *name);

/*
 * Answer the requests that came too early and are no more.  Call after each step
 * that makes nodes known, from one thread; with `all` when no more will be: then
 * they are answered whatever they are about.
 */
void session_admit(struct session *s, bool all);

/* The session that a request came by. */
struct session *session_of(struct fuse_req *req);
void *session_owner(struct session *s);
/* The kernel's number of the request that this thread is at, which it has again when it is
 * sent to a successor, and which no other has; 0: there is none.  Within an operation. */
uint64_t session_request_id(void);

/* Around what only another request may end, as a wait for memory that others have: so many
 * requests may wait that none would be served.  More threads are begun for them, which stay, up
 * to SESSION_THREADS_MOST.  Nothing is done on threads that are not a session's. */
void session_begin_wait(void);
void session_end_wait(void);

/* Have the kernel ask for a node's attributes when it wants them next, whatever it was told
 * for how long.  Within a request about the node; waits for no other request. */
void session_ask_again(struct session *s, uint64_t node);

/* For a request that is answered later: hold the session before the operation
 * returns, let go of it after the answer was sent. */
void session_ref(struct session *s);
void session_unref(struct session *s);

/*
 * Nobody will serve the mount again that a predecessor left: close its descriptors
 * and unmount it, so that its readers fail instead of waiting for ever.  Of `cfg`
 * name, path, run_dir, keeper and log are used.
 */
void session_drop(const struct session_config *cfg);

/* Can there be sessions?  0, or -errno and what is missing. */
int session_probe(struct error *err) MUST_CHECK;

/* ----------------------------------------------------------- memory for replies --- */

/*
 * Buffers for the bytes of replies: 128 of up to 256 KiB and 32 of up to
 * SESSION_DATA_MAX, 64 MiB in all, of which only what was used at once is ever
 * resident.  Sessions of one process may share a pool.  Any thread; nothing blocks:
 * a request for which there is no buffer waits in a queue, without a thread.
 */
struct reply_pool;
#define REPLY_BUFFERS 160u

struct reply_buffer {
	char *data;
	unsigned int index; /* below REPLY_BUFFERS, the same each time: what a
	                     * user needs for a request can lie in an array */
	struct reply_buffer *next; /* the pool's */
};

/*
 * Does a reply hold its buffer only while bytes are copied, or until an origin
 * that may hang has sent some?  Replies that may wait have one half of the
 * buffers, so that those of the first kind always find some.
 */
enum reply_kind { REPLY_MAY_WAIT, REPLY_AT_ONCE, REPLY_KINDS };

/* Requests of one share that wait, for buffers of one size. */
struct reply_line {
	STAILQ_HEAD(, reply_wait) waits; /* longest first */
	TAILQ_ENTRY(reply_line) link;    /* while `waits` has some */
	struct reply_share *share;
};

/*
 * A user of the pool among whom the buffers are divided (an image). A quarter
 * of the buffers, and of the half for replies that may wait, is for users that
 * have few: an image whose origin is down keeps all it can get until its
 * readers get their errors. All zeros at first.
 */
struct reply_share {
	/* Buffers that it has now.  The pool's lock is for this and for the lines. */
	unsigned int n_buffers;
	struct reply_line lines[2][REPLY_KINDS]; /* by size */
};

/* A request that waits; part of what its user knows of it. */
struct reply_wait {
	STAILQ_ENTRY(reply_wait) link;
};

int reply_pool_new(struct reply_pool **ret, struct error *err) MUST_CHECK;
/* All buffers were given back. */
void reply_pool_free(struct reply_pool *p);

/* A buffer for `len` bytes; NULL when the share can have none now.  With
 * REPLY_MAY_WAIT whoever does not know the kind may ask first. */
struct reply_buffer *reply_pool_take(struct reply_pool *p, size_t len,
				     struct reply_share *share,
				     enum reply_kind kind) MUST_CHECK;
/* The same, but `w` waits then, and is the pool's until reply_pool_put() has it. */
struct reply_buffer *reply_pool_take_or_wait(struct reply_pool *p, size_t len,
					     struct reply_share *share,
					     enum reply_kind kind,
					     struct reply_wait *w) MUST_CHECK;

/* The share has a buffer less; the share may be gone before the buffer is put. */
void reply_pool_leave(struct reply_pool *p, struct reply_share *share);

/* Give a buffer back, whose share was left.  Returns a request that waits and may
 * have one, with its buffer in *ret_next; NULL when there is none.  Those that are
 * answered at once come first; then the share that has fewest, shares by turns. */
struct reply_wait *reply_pool_put(struct reply_pool *p, struct reply_buffer *b,
				  struct reply_buffer **ret_next) MUST_CHECK;

#endif
