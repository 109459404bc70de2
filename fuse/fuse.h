// SPDX-License-Identifier: Apache-2.0
/*
 * FUSE mounts that outlive the process which serves them.
 *
 * The fd keeper keeps the /dev/fuse descriptor of a mount, together with the kernel's INIT
 * request. The next process (successor) takes both, feeds INIT to its own libfuse session (which
 * does not work without) and drops the answer, and asks the kernel to resend the requests that
 * the earlier process (predecessor) had read but not answered. What the mount shows is up to its
 * handler.
 *
 * docs/formats/datapath.md describes what is kept, and how a successor takes over.
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

/* Keeps descriptors over a crash, in systemd's descriptor store or in this program's holder
 * (sd_notify(3), FDSTORE=1; sd_listen_fds_with_names(3)). One thread at a time. */
struct fd_keeper;

/* Take the descriptors that this process was started with. Also succeeds when no descriptor
 * store is offered; then nothing is kept. */
int fd_keeper_open(struct fd_keeper **ret, struct error *err) MUST_CHECK;
void fd_keeper_close(struct fd_keeper *k); /* what is kept stays kept */
/* Is there a descriptor store? */
bool fd_keeper_is_durable(const struct fd_keeper *k);
/* Take the descriptor that was kept under `name` before the start, or -1. The caller owns
 * it. */
int fd_keeper_take(struct fd_keeper *k, const char *name);
/* The same descriptor, borrowed: it stays with the keeper. */
int fd_keeper_look(const struct fd_keeper *k, const char *name);
/* Keep a duplicate of `fd` under `name`, in place of the one before. Kept once this returns
 * 0. Names: letters, digits, '-', '_', '.'. */
int fd_keeper_put(struct fd_keeper *k, const char *name, int fd,
		  struct error *err) MUST_CHECK;
int fd_keeper_drop(struct fd_keeper *k, const char *name,
		   struct error *err) MUST_CHECK;

/*
 * Act as the holder: run argv as a child, keep the descriptors that it hands over, and restart
 * it with them when it crashes: at once, or after repeated crashes up to 2 s later, and after a
 * minute of these up to 30 s later. Passes SIGTERM, SIGINT and SIGHUP on. Returns the child's
 * exit code when it ended by itself or on request, or -errno. Call it first in main(), before
 * there are other threads.
 */
int hold_run(char *const argv[], struct error *err) MUST_CHECK;

/* ----------------------------------------------------------------- the handler --- */

#define SESSION_DATA_MAX (1u << 20) /* bytes of one READ or WRITE */

/* Values of session_handler.request_max: for requests with names only, and for WRITE
 * requests with their data. */
#define SESSION_REQUEST_NAMES 8192u
#define SESSION_REQUEST_DATA (SESSION_DATA_MAX + 4096u)

/*
 * Handlers of a mount's requests; one `static const` table for each kind of mount.
 *
 * The process may be killed at any moment, and its successor goes on. So a handler
 *
 *  - uses node ids and file handles that mean the same to the successor, which gets requests
 * about nodes that it never gave out;
 *
 *  - accepts repeated requests: the predecessor may have performed one and died before the
 * answer was sent.
 */
struct session_handler {
	/*
	 * libfuse's operations, except `init`, which the session has itself (see below). Called
	 * on the session's threads, several at once, with the session as userdata: session_of().
	 * An operation may answer later, on any thread, if it holds the session until then:
	 * session_ref().
	 */
	const struct fuse_lowlevel_ops *ops;
	/*
	 * Change the options requested from the kernel at INIT; may be NULL. Of those that
	 * libfuse requests by itself, AUTO_INVAL_DATA, HANDLE_KILLPRIV and ATOMIC_O_TRUNC are
	 * off. The mount's first process decides; different wishes of a successor apply from the
	 * next mount on.
	 */
	void (*init)(struct fuse_conn_info *conn);
	/*
	 * Must a request wait because it is about a node, or about the `name` in it (of a
	 * LOOKUP; else NULL), that this process does not know yet? Called in a mount that was
	 * taken over, until session_admit() with `all`. Called with the lock of the waiting
	 * requests, so it must only look into memory. NULL: no request has to wait.
	 */
	bool (*is_early)(void *owner, uint64_t node, const char *name);
	/* Free session_config.owner; called once, on the thread that answers the last
	 * request. May be NULL. */
	void (*free)(void *owner);
	/*
	 * Longest request that `ops` take: SESSION_REQUEST_*. So much memory is locked for each
	 * thread: if the page is not present when the process is killed, the kernel cannot write
	 * the request and fails it, instead of resending it.
	 */
	size_t request_max;
};

/* ----------------------------------------------------------------- the session --- */

struct session;

#define SESSION_THREADS_MOST 64

struct session_config {
	/* Name of the kept descriptors, see fd_keeper_put(), and source of the mount. */
	const char *name;
	/* Mount point, absolute; created if missing. Unless the mount is taken over,
	 * anything mounted there is unmounted first. */
	const char *path;
	/* folder of the locks of common/mount.h; created too */
	const char *run_dir;
	unsigned int threads;     /* serving threads, 1..SESSION_THREADS_MOST */
	struct fd_keeper *keeper; /* borrowed until session_stop() returns */
	const struct session_handler *handler;
	void *owner; /* for the handler: session_owner() */
	/* String constants that are never freed: */
	const char *fstype;        /* type in mountinfo: "fuse.NAME" */
	const char *mount_data;    /* options besides those of the protocol */
	unsigned long mount_flags; /* beside MS_NOSUID and MS_NODEV */
	const char *log;           /* module name in the log */
};

/*
 * Take over the kept mount, or make a new one. Its threads begin to serve it, so the handler is
 * called even before this returns. Takes `owner`, also on failure, when handler->free() gets it.
 * Blocks for as long as a mount takes.
 *
 *   -EINVAL  number of threads, size of requests
 */
int session_start(const struct session_config *cfg, struct session **ret,
		  struct error *err) MUST_CHECK;

/*
 * Stop the threads. `keep` leaves the mount for a successor; else it is unmounted lazily: data
 * that the kernel has not written back is lost, so unmount a writable file system before.
 * Requests that hold the session are still answered; the last one frees it.
 */
void session_stop(struct session *s, bool keep);

/* Was the mount taken over from an earlier process? */
bool session_is_adopted(const struct session *s);

/* The device number of the mount, as stat(2) shows it; 0: unknown. */
dev_t session_device(const struct session *s);

/* The mount point, with symlinks resolved. */
const char *session_path(const struct session *s);

/*
 * Check that the session is mounted, and mount it again if somebody unmounted it. 0, or 1 when
 * it had to be mounted; files open in it stayed usable. Any thread; sends no request.
 *
 *   -EBUSY  something else is mounted there
 *
 * From the first call on, the session holds the mount's root open: so the kernel keeps the
 * session whatever is unmounted, and umount(8) needs -l. Without such a call, the session ends
 * when it is unmounted.
 */
int session_ensure(struct session *s, struct error *err) MUST_CHECK;

/* Is the session mounted at its path: 1, 0, or -errno. Another mount made there since does
 * not count. */
int session_is_mounted(struct session *s, struct error *err) MUST_CHECK;

/* Is a mount kept under this name that the kernel has ended, because it was unmounted or
 * aborted? */
bool session_is_gone(const struct fd_keeper *k, const char *name);

/*
 * Process the waiting requests whose nodes are known now. Call it after each step that makes
 * nodes known, always from the same thread; with `all` after the last step: then all waiting
 * requests are processed.
 */
void session_admit(struct session *s, bool all);

/* The session of a request. */
struct session *session_of(struct fuse_req *req);
void *session_owner(struct session *s);
/* The kernel's unique number of the request that this thread is processing: the same when it
 * is resent to a successor; 0: there is none. Call it within an operation. */
uint64_t session_request_id(void);

/* Call these around a wait that only another request can end, such as for memory that other
 * requests hold: otherwise all threads might wait. Further threads are started for such waits,
 * up to SESSION_THREADS_MOST, and stay. On other threads these do nothing. */
void session_begin_wait(void);
void session_end_wait(void);

/* Have the kernel drop a node's cached attributes, however long it was told to keep them.
 * Call it within a request about the node; does not wait for other requests. */
void session_ask_again(struct session *s, uint64_t node);

/* For a request that is answered later: hold the session before the operation returns, and
 * release it after the answer was sent. */
void session_ref(struct session *s);
void session_unref(struct session *s);

/*
 * Give up a mount of an earlier process: close its descriptors and unmount it, so that its
 * readers fail instead of waiting for ever. Uses only name, path, run_dir, keeper and log of
 * `cfg`.
 */
void session_drop(const struct session_config *cfg);

/* Can sessions be started here? 0, or -errno and what is missing. */
int session_probe(struct error *err) MUST_CHECK;

/* ----------------------------------------------------------- memory for replies --- */

/*
 * Buffers for the data of replies: 128 of up to 256 KiB and 32 of up to SESSION_DATA_MAX, 64 MiB
 * in all, of which only the largest amount used at the same time becomes resident. Several
 * sessions may share a pool. Any thread; nothing blocks: a request without a buffer waits in a
 * queue, without a thread.
 */
struct reply_pool;
#define REPLY_BUFFERS 160u

struct reply_buffer {
	char *data;
	/* fixed number below REPLY_BUFFERS: users can keep data for a request in an array */
	unsigned int index;
	struct reply_buffer *next; /* used by the pool */
};

/*
 * Does a reply hold its buffer only during a copy (REPLY_AT_ONCE), or until an origin, which may
 * hang, has sent data? Replies of the second kind may use half of the buffers, so that the
 * others always find some.
 */
enum reply_kind { REPLY_MAY_WAIT, REPLY_AT_ONCE, REPLY_KINDS };

/* Waiting requests of one share, for buffers of one size. */
struct reply_line {
	STAILQ_HEAD(, reply_wait) waits; /* oldest first */
	/* in the shelf's list while `waits` is not empty */
	TAILQ_ENTRY(reply_line) link;
	struct reply_share *share;
};

/*
 * A party among which the buffers are divided (an image). A quarter of the buffers, and of the
 * half for replies that may wait, is reserved for shares that have few: an image whose origin is
 * down holds all buffers that it can get until its readers get errors. Initially all zeros.
 */
struct reply_share {
	/* Buffers that it holds now. The pool's lock protects this and the lines. */
	unsigned int n_buffers;
	struct reply_line lines[2][REPLY_KINDS]; /* by size */
};

/* A waiting request; embedded in the user's own struct. */
struct reply_wait {
	STAILQ_ENTRY(reply_wait) link;
};

int reply_pool_new(struct reply_pool **ret, struct error *err) MUST_CHECK;
/* Free the pool; all buffers must have been given back. */
void reply_pool_free(struct reply_pool *p);

/* Take a buffer for `len` bytes; NULL when the share may have none now. A caller that does
 * not know the kind of its reply yet may first try REPLY_MAY_WAIT. */
struct reply_buffer *reply_pool_take(struct reply_pool *p, size_t len,
				     struct reply_share *share,
				     enum reply_kind kind) MUST_CHECK;
/* As reply_pool_take(), but when there is no buffer, `w` waits, and belongs to the pool
 * until reply_pool_put() returns it. */
struct reply_buffer *reply_pool_take_or_wait(struct reply_pool *p, size_t len,
					     struct reply_share *share,
					     enum reply_kind kind,
					     struct reply_wait *w) MUST_CHECK;

/* Stop counting a buffer for the share, which may be freed before the buffer is put. */
void reply_pool_leave(struct reply_pool *p, struct reply_share *share);

/* Give back a buffer that no share counts any more. Returns a waiting request that gets a
 * buffer, in *ret_next; NULL when there is none. Replies at once come first, then the share
 * that has fewest buffers, equal ones in turn. */
struct reply_wait *reply_pool_put(struct reply_pool *p, struct reply_buffer *b,
				  struct reply_buffer **ret_next) MUST_CHECK;

#endif
