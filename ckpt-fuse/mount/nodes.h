// SPDX-License-Identifier: Apache-2.0
/*
 * The nodes of a mount: which file or folder each node id stands for. A journal, in a file in
 * memory that outlives the process, tells the next process the nodes and the begun changes of
 * names. Any thread; a node stays valid until node_put().
 */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_NODES_H
#define BOOTSEER_CKPT_FUSE_MOUNT_NODES_H

#include "ckpt-fuse/mount/reading.h"
#include "ckpt-fuse/mount/writing.h"
#include "common/buf.h"
#include "common/hash.h"
#include "common/mutex.h"
#include "fuse/fuse.h"

#define NODE_ROOT 1u
#define SIZE_UNKNOWN UINT64_MAX

struct ckpt_node {
	struct nodes *table;
	UT_hash_handle by_id, by_name;
	uint64_t id;
	struct ckpt_node
		*parent;    /* NULL: it has no name any more, or is the root */
	char *key;          /* parent's id and name, the key in by_name */
	uint64_t n_lookups; /* look-ups that the kernel has not forgotten */
	unsigned int n_users; /* children, and running requests */
	bool is_folder, is_staged;
	/* the previous process had the node, and programs may have it open since */
	bool is_inherited;
	/* ckpt_file_bytes_id() of the version that readers have open; 0: none. Readers of the
	 * previous process may have it open as long as the node exists. */
	uint64_t read_version;
	uint64_t read_size; /* size of that version */
	bool is_kept;

	/* protects the members below; held during requests to the store */
	pthread_mutex_t lock;
	atomic_uint n_writers, n_readers; /* may be read without the lock */
	/* Readers of a file that was never committed: they read what its writers have. */
	atomic_uint n_peekers;
	/* readers of the previous process count as one in n_readers */
	bool has_kept_use;
	/* n_open: writers with a descriptor; n_owned: those whose process has neither closed it nor
	 * was killed. May be read without the lock. */
	atomic_uint n_open, n_owned;
	atomic_uint n_committing; /* running commits of the file */
	unsigned int n_cached;    /* readers that use the kernel's page cache */
	/* Grows each time that a writer or a commit begins or ends, or that the name changes: an
	 * answer of the store from before may then be out of date. May be read without the lock. */
	atomic_uint n_steps;
	struct reading *reading; /* the version that readers have open */
	/* bytes_id of the version in the kernel's page cache; 0: unknown. Accessed without the lock
	 * too. */
	atomic_uint_fast64_t pages_id;
	/* The file was opened, so the kernel may have pages of any version. */
	atomic_bool may_have_pages;
	/* Set while writers or peekers have the file open. Changed with both locks held. */
	struct writing *writing;
	/* protects the members below; never held during requests */
	pthread_mutex_t seen;
	struct ckpt_stat stat; /* attributes when last seen */
	uint64_t last_size;    /* size in the last answer to the kernel */
	/* The size that the kernel certainly has; SIZE_UNKNOWN after two answers with different
	 * sizes. */
	uint64_t told_size;
	uint64_t readers_size; /* size of the version that readers have open */
	/* A folder's time: when this mount made it, or last changed a name in it; wall clock; 0:
	 * not yet. Accessed without a lock too. */
	atomic_int_fast64_t changed_ns;
	/* Error that kept closed bytes from the store; 0: none lost. */
	int lost_rc;
	char *lost_why; /* the error's message; NULL: memory was short */
};

/* A pending or running commit of a node's file. */
struct node_commit {
	struct ckpt_node *n;
	bool is_late;    /* it stores a file after its close (later.h) */
	bool is_running; /* false: a late commit that waits for its turn */
	/* The commit has ended, though it is still in the list. Protected by the node's lock. */
	bool is_settled;
	uint64_t number; /* consecutive number */
	TAILQ_ENTRY(node_commit) link;
};

/* A change of names that was begun and not answered yet: docs/decisions/0021-done-twice.md. */
struct begun_change {
	uint64_t request;
	bool is_predecessors;
};
/* Far more than the number of threads that can begin changes. */
#define NODES_BEGUN_MAX (4 * SESSION_THREADS_MOST)

struct nodes {
	/* Held for reading while names in the store change and while a writer begins; held for
	 * writing while a folder is renamed, object by object. */
	pthread_rwlock_t paths;
	/* Protects `under_way`, the pending commits in the order of their begins. `committed` is
	 * signalled when one ends; a wait is bounded by the store's deadlines. */
	pthread_mutex_t commits;
	pthread_cond_t committed;
	TAILQ_HEAD(, node_commit) under_way;
	uint64_t last_commit; /* the last number given */
	pthread_mutex_t lock; /* protects the table of nodes */
	struct ckpt_node *by_id, *by_name, *root;
	uint64_t last_id;
	/* in the order of their begins */
	struct begun_change begun[NODES_BEGUN_MAX];
	size_t n_begun;
	int journal_fd;
	/* bytes of the journal; bytes of existing nodes */
	uint64_t journal_len, journal_live;
	/* a record could not be written, so the journal must be rewritten */
	bool is_journal_behind;
	atomic_uint n_lost;
};

/* Restore the nodes from the journal of the previous process; `journal_fd` is borrowed. */
int nodes_init(struct nodes *t, int journal_fd, struct error *err) MUST_CHECK;
void nodes_fini(struct nodes *t);

/* AUTO_PATHS_STAY stay = paths_stay(t): no folder is renamed until the end of the scope. Take it
 * before any other lock. */
static inline struct nodes *paths_stay(struct nodes *t)
{
	(void)pthread_rwlock_rdlock(&t->paths);
	return t;
}
static inline void cleanup_paths_stay(struct nodes *const *t)
{
	(void)pthread_rwlock_unlock(&(*t)->paths);
}
#define AUTO_PATHS_STAY \
	__attribute__((cleanup(cleanup_paths_stay), unused)) struct nodes *

/* Find a node by id, or by parent and name; NULL: there is none. Release it with node_put(). */
struct ckpt_node *node_get(struct nodes *t, uint64_t id) MUST_CHECK;
struct ckpt_node *node_find(struct ckpt_node *parent,
			    const char *name) MUST_CHECK;
/* Get the node of a name; makes a new one if there is none or it is of the other kind. */
struct ckpt_node *node_make(struct ckpt_node *parent, const char *name,
			    bool is_folder) MUST_CHECK;
/* Take another reference to a node that is in use. */
void node_use(struct ckpt_node *n);
void node_put(struct ckpt_node *n);
static inline void cleanup_node_put(struct ckpt_node *const *n)
{
	node_put(*n);
}
/* AUTO_NODE n = node_get(...): the node is released at the end of the scope. */
#define AUTO_NODE __attribute__((cleanup(cleanup_node_put))) struct ckpt_node *
/* Count a look-up whose answer gave the kernel the node's id; and forget `n_lookups` of them. */
void node_looked_up(struct ckpt_node *n);
void node_forget(struct nodes *t, uint64_t id, uint64_t n_lookups);

/* Take the node's name away: the name belongs to another file or to none. */
void node_detach(struct ckpt_node *n);
/* Rename the node. A node that had the new name loses it. If memory is short, this node loses its
 * name too, and a later look-up asks the store. */
void node_rename(struct ckpt_node *n, struct ckpt_node *parent,
		 const char *name);

/* Append the node's path in the store ("": the root). -ENOENT: it has no name. */
int node_path(struct ckpt_node *n, struct buf *out) MUST_CHECK;
int node_path_below(struct ckpt_node *n, const char *name,
		    struct buf *out) MUST_CHECK;
/* The last path of a node that lost its name. -ENOENT: its folder is gone too, or it was lost in an
 * earlier process. */
int node_last_path(struct ckpt_node *n, struct buf *out) MUST_CHECK;
/* The path or last path for messages; "?": unknown. `room` holds the text. */
const char *node_path_shown(struct ckpt_node *n, struct buf *room);
/* The node that has this node's former name now, with a reference; NULL: none. */
struct ckpt_node *node_successor(const struct ckpt_node *n) MUST_CHECK;
/* call with the table locked */
const char *node_name(const struct ckpt_node *n);

void node_set_writing(struct ckpt_node *n, struct writing *w);
/* Note, also for the next process, that the folder has changed just now. */
void node_note_change(struct ckpt_node *folder);
void node_set_stat(struct ckpt_node *n, const struct ckpt_stat *st);
struct ckpt_stat node_stat(struct ckpt_node *n);
/* May a writer still change the file, or has it not said that it is done? Called with the node's
 * lock held. */
bool node_is_being_changed(const struct ckpt_node *n);
/* Was the file left by a killed program, with no other writer? Called with the node's lock held. */
bool node_is_abandoned(const struct ckpt_node *n);
/* node_is_being_changed(), as far as is known without the node's lock. */
bool node_is_changed_now(struct ckpt_node *n);
/* Add a late commit to the pending ones; it runs from node_begin_commit() on. */
void node_queue_commit(struct node_commit *c);
/* Call before and after each commit of c->n's file. */
void node_begin_commit(struct node_commit *c);
void node_end_commit(struct node_commit *c);
/* Wait for commits of the node (NULL: of all nodes): `is_late`: for the pending late ones, else for
 * the running ones; not for those that begin later. Call without locks. False: there was none. */
bool nodes_wait_commits(struct nodes *t, const struct ckpt_node *n,
			bool is_late);
/* Number of pending late commits of the node (NULL: of all nodes). */
unsigned int nodes_count_late(struct nodes *t, const struct ckpt_node *n);
/* Is a late commit other than `c` (NULL: any) not settled? Called with the node's lock held. */
bool node_has_unsettled(const struct ckpt_node *n, const struct node_commit *c);
/* Is the file open for writing? Called without the node's locks. */
bool node_is_written(struct ckpt_node *n);
/* Is it open for reading in the state that its writers had? Called without the node's locks. */
bool node_is_peeked(struct ckpt_node *n);

/*
 * The size of a file in the kernel, which limits reads. The kernel asks for it at most once a
 * second, so it must be told when it would be wrong. These functions take no lock that is held
 * during requests to the store.
 */
/* Call when an answer gives the kernel this size. Returns the size to use: that of the version that
 * readers have open, if there is one. */
uint64_t node_tell_size(struct ckpt_node *n, uint64_t size);
/* Call when a file of this size (or SIZE_UNKNOWN) is opened: unless the kernel was told the same
 * size last, it is made to ask again. Within a request about the node. */
void node_open_size(struct session *s, struct ckpt_node *n, uint64_t size);
/* Set the size of the version that readers have open; SIZE_UNKNOWN: none, or its readers do not
 * depend on the kernel's size. */
void node_set_readers_size(struct ckpt_node *n, uint64_t size);
/* Do readers of the node, which is not being written, have a version of another size? */
bool node_size_differs(struct ckpt_node *n, uint64_t size);

/* Note for the next process that closed bytes may not be in the store. */
void node_set_staged(struct ckpt_node *n, bool is_staged);
/* Note for the next process which version readers have open, and its size; 0: none. A version kept
 * from the previous process stays noted. */
void node_set_read_version(struct ckpt_node *n, uint64_t version,
			   uint64_t size);
/* Note that written bytes are lost, until node_forget_loss(); the node stays in use until then. */
void node_lose(struct ckpt_node *n, int rc, const char *why);
/* Forget the loss, because the file is replaced or removed. */
void node_forget_loss(struct ckpt_node *n);
/* 0, or the error that kept written bytes from the store. */
int node_loss(struct ckpt_node *n, struct error *err) MUST_CHECK;
/* Append the message of the loss, which an error may be too short for: 1; 0: nothing was lost. */
int node_loss_text(struct ckpt_node *n, struct buf *out) MUST_CHECK;
/* The message of the loss; call with a lock held that protects it. */
const char *node_loss_why(const struct ckpt_node *n);

/*
 * When the process is killed, the kernel sends a request again with the same number (0: it has
 * none), though the change may have been made. So note the request before the store is asked to
 * change anything, and after all checks that can fail.
 */
void nodes_begin_change(struct nodes *t, uint64_t request);
/* Was the request begun by an earlier process? */
bool nodes_was_begun(struct nodes *t, uint64_t request);
/* Note that the request was answered. */
void nodes_end_change(struct nodes *t, uint64_t request);

/* Called for each node in a folder, or if that is NULL, for each node with a name; the table is
 * locked. */
typedef void nodes_fn(void *arg, struct ckpt_node *n);
void nodes_each(struct nodes *t, const struct ckpt_node *parent, nodes_fn *fn,
		void *arg);
/* node_path() for use in a nodes_fn, with the table locked. */
int nodes_path_locked(const struct ckpt_node *n, struct buf *out) MUST_CHECK;

#endif
