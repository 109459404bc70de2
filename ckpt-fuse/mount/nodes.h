// SPDX-License-Identifier: Apache-2.0
/*
 * Node ids of a mount: which file or folder each is.  They are written down in a file
 * in memory that outlives the process, so that a successor knows them, and the changes of
 * names that were begun.  Any thread; a node that was found stays until node_put().
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
	char *key;          /* parent's id and name, as by_name has it */
	uint64_t n_lookups; /* of the kernel */
	unsigned int n_users; /* children, and requests under way */
	bool is_folder, is_staged;
	bool is_inherited; /* a predecessor had it, and programs may have it open since */
	/* ckpt_file_bytes_id() of what its readers have; 0: it has none.  Those of
	 * a predecessor may have it open for as long as the node is there. */
	uint64_t read_version;
	uint64_t read_size; /* of that version */
	bool is_kept;

	pthread_mutex_t
		lock; /* what follows; held over what the store is asked */
	atomic_uint n_writers, n_readers; /* read without the lock, too */
	/* Readers of what was committed by nobody yet: they have what its writers have. */
	atomic_uint n_peekers;
	bool has_kept_use; /* those of a predecessor are one of n_readers */
	/* Writers that have a descriptor, and those of them whose process has neither closed it
	 * nor was killed; read without the lock, too. */
	atomic_uint n_open, n_owned;
	atomic_uint n_committing; /* commits of it that run */
	unsigned int
		n_cached; /* of the readers, those that have the kernel's pages */
	/* Each time that a writer begins or ends, or a commit, or the name is another's: who
	 * asked the store before may have been told of the version before.  Read without the lock,
	 * too. */
	atomic_uint n_steps;
	struct reading *reading; /* the version that its readers have */
	/* bytes_id of what the kernel has pages of; 0: not known.  Without the lock, too. */
	atomic_uint_fast64_t pages_id;
	/* The kernel may have pages of any version: somebody has opened the file. */
	atomic_bool may_have_pages;
	/* While writers or peekers have it open.  Changed with both locks. */
	struct writing *writing;
	pthread_mutex_t seen;  /* what follows; held over memory only */
	struct ckpt_stat stat; /* as it was seen last */
	uint64_t last_size;    /* of the last answer */
	/* The size that the kernel surely has; unknown after two different answers. */
	uint64_t told_size;
	uint64_t readers_size; /* of the version that readers have */
	/* The time of a folder: when this mount made it, or a name in it was made, removed or
	 * changed last, on the wall clock; 0: not yet.  Without a lock, too. */
	atomic_int_fast64_t changed_ns;
	/* Why closed bytes are not in the store; 0: they are. */
	int lost_rc;
	char *lost_why; /* for people; NULL: memory was short */
};

/* A commit of a node's file that is under way. */
struct node_commit {
	struct ckpt_node *n;
	bool is_late;    /* it stores what was closed before (later.h) */
	bool is_running; /* a late one waits for its turn first */
	/* With the node's lock: nothing is to come of it, though it is in the list still. */
	bool is_settled;
	uint64_t number; /* each has the next one */
	TAILQ_ENTRY(node_commit) link;
};

/* A change of names that was begun and is not answered yet: docs/decisions/0021-done-twice.md. */
struct begun_change {
	uint64_t request;
	bool is_predecessors;
};
/* Far more than a process has threads. */
#define NODES_BEGUN_MAX (4 * SESSION_THREADS_MOST)

struct nodes {
	/* Read over changes of names in the store, and when a writer begins; written while a
	 * folder is renamed, object by object. */
	pthread_rwlock_t paths;
	/* Commits that are under way, those begun first, first, and who waits for some, which have
	 * the store's deadlines. */
	pthread_mutex_t commits;
	pthread_cond_t committed;
	TAILQ_HEAD(, node_commit) under_way;
	uint64_t last_commit; /* number that was given */
	pthread_mutex_t lock; /* the table */
	struct ckpt_node *by_id, *by_name, *root;
	uint64_t last_id;
	struct begun_change
		begun[NODES_BEGUN_MAX]; /* those begun first, first */
	size_t n_begun;
	int journal_fd;
	uint64_t journal_len, journal_live; /* bytes; those of living nodes */
	bool is_journal_behind;             /* a record could not be written */
	atomic_uint n_lost;
};

/* `journal_fd` is borrowed: what a predecessor wrote is read. */
int nodes_init(struct nodes *t, int journal_fd, struct error *err) MUST_CHECK;
void nodes_fini(struct nodes *t);

/* AUTO_PATHS_STAY stay = paths_stay(t): until the end of the scope no folder is renamed; before
 * any other lock. */
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

/* NULL: there is none.  The caller has it until node_put(). */
struct ckpt_node *node_get(struct nodes *t, uint64_t id) MUST_CHECK;
struct ckpt_node *node_find(struct ckpt_node *parent,
			    const char *name) MUST_CHECK;
/* The node of a name, a new one if there is none, or one of the other kind. */
struct ckpt_node *node_make(struct ckpt_node *parent, const char *name,
			    bool is_folder) MUST_CHECK;
/* Once more, of a node that is in use. */
void node_use(struct ckpt_node *n);
void node_put(struct ckpt_node *n);
static inline void cleanup_node_put(struct ckpt_node *const *n)
{
	node_put(*n);
}
/* AUTO_NODE n = node_get(...): until the end of the scope. */
#define AUTO_NODE __attribute__((cleanup(cleanup_node_put))) struct ckpt_node *
/* The kernel was given its id, or forgets that it was `n_lookups` times. */
void node_looked_up(struct ckpt_node *n);
void node_forget(struct nodes *t, uint64_t id, uint64_t n_lookups);

/* Its name is another's, or nobody's. */
void node_detach(struct ckpt_node *n);
/* Rename the node. A node that had the new name has none any more. Where memory is short
 * this node has none either: whoever asks for the name looks it up in the store. */
void node_rename(struct ckpt_node *n, struct ckpt_node *parent,
		 const char *name);

/* Its path in the store ("" is the root), appended.  -ENOENT: it has no name. */
int node_path(struct ckpt_node *n, struct buf *out) MUST_CHECK;
int node_path_below(struct ckpt_node *n, const char *name,
		    struct buf *out) MUST_CHECK;
/* The last path of a node that has no name any more. -ENOENT: its folder is gone, too, or
 * a successor asks. */
int node_last_path(struct ckpt_node *n, struct buf *out) MUST_CHECK;
/* Either of the two for people: "?" where there is none.  `room` has it. */
const char *node_path_shown(struct ckpt_node *n, struct buf *room);
/* The node that has that name now, in use; NULL: none has. */
struct ckpt_node *node_successor(const struct ckpt_node *n) MUST_CHECK;
const char *node_name(const struct ckpt_node *n); /* the table is locked */

void node_set_writing(struct ckpt_node *n, struct writing *w);
/* The folder has changed just now; a successor is to know when. */
void node_note_change(struct ckpt_node *folder);
void node_set_stat(struct ckpt_node *n, const struct ckpt_stat *st);
struct ckpt_stat node_stat(struct ckpt_node *n);
/* With the node's lock: will a writer change it, or say that it is done? */
bool node_is_being_changed(const struct ckpt_node *n);
/* With the node's lock: what it was written with is a killed program's, and nobody's. */
bool node_is_abandoned(const struct ckpt_node *n);
/* The same as is known without the node's lock. */
bool node_is_changed_now(struct ckpt_node *n);
/* A late commit is under way from here on, and runs from node_begin_commit() on. */
void node_queue_commit(struct node_commit *c);
/* Around each commit of the file of c->n, by whomever. */
void node_begin_commit(struct node_commit *c);
void node_end_commit(struct node_commit *c);
/* Wait, with no lock, for commits of the node (NULL: of all): the late ones that are under way, or
 * else those that run; one that came later is not waited for.  False: there was none. */
bool nodes_wait_commits(struct nodes *t, const struct ckpt_node *n,
			bool is_late);
/* How many late ones are under way of the node (NULL: of all)? */
unsigned int nodes_count_late(struct nodes *t, const struct ckpt_node *n);
/* With the node's lock: is there a late one that is not settled, other than `c` (NULL: any)? */
bool node_has_unsettled(const struct ckpt_node *n, const struct node_commit *c);
/* Is it open to be written?  With neither lock. */
bool node_is_written(struct ckpt_node *n);
/* Or only to be read, as its writers had it?  The same. */
bool node_is_peeked(struct ckpt_node *n);

/*
 * The size of a file as the kernel has it, which cuts at it what programs read, and asks for
 * it once a second at most, so it is told when it would be wrong.  No lock that is held over a
 * call of the store is taken.
 */
/* An answer tells the kernel this size, or that of what the node's readers have, which is
 * returned. */
uint64_t node_tell_size(struct ckpt_node *n, uint64_t size);
/* A file is opened whose size is this, or SIZE_UNKNOWN: the kernel is made to ask for it
 * unless it was told the same last.  Within a request about the node. */
void node_open_size(struct session *s, struct ckpt_node *n, uint64_t size);
/* The node's readers have a version of this size; SIZE_UNKNOWN: it has none, or those that
 * it has do not look at the kernel's size. */
void node_set_readers_size(struct ckpt_node *n, uint64_t size);
/* Have readers of the node, which nobody writes, a version of another size? */
bool node_size_differs(struct ckpt_node *n, uint64_t size);

/* A successor is to know that what was written and closed may not be in the store. */
void node_set_staged(struct ckpt_node *n, bool is_staged);
/* A successor is to know which version its readers have, and its size; 0: none has it open.
 * Of one that is kept from a predecessor it stays. */
void node_set_read_version(struct ckpt_node *n, uint64_t version,
			   uint64_t size);
/* Note that written bytes are lost, until node_forget_loss(): the node stays meanwhile. */
void node_lose(struct ckpt_node *n, int rc, const char *why);
/* Forget the loss, as the file is replaced or removed. */
void node_forget_loss(struct ckpt_node *n);
/* 0, or why what was written is not in the store. */
int node_loss(struct ckpt_node *n, struct error *err) MUST_CHECK;
/* The same in as many words as there are, added to `out`: 1; 0: nothing was lost. */
int node_loss_text(struct ckpt_node *n, struct buf *out) MUST_CHECK;
/* Why; with one of the locks of what says that it is lost. */
const char *node_loss_why(const struct ckpt_node *n);

/*
 * The kernel sends a request again when the process is killed, by the number that it had (0: it
 * has none), and what it was to change may be done.  So note it before the store is asked to change
 * anything, and after what makes the request fail was looked at.
 */
void nodes_begin_change(struct nodes *t, uint64_t request);
/* Has a predecessor begun it? */
bool nodes_was_begun(struct nodes *t, uint64_t request);
/* Note that the request was answered. */
void nodes_end_change(struct nodes *t, uint64_t request);

/* Call for each node in a folder, or, when that is NULL, that has a name; the table is
 * locked. */
typedef void nodes_fn(void *arg, struct ckpt_node *n);
void nodes_each(struct nodes *t, const struct ckpt_node *parent, nodes_fn *fn,
		void *arg);
/* node_path() for a function that nodes_each() calls. */
int nodes_path_locked(const struct ckpt_node *n, struct buf *out) MUST_CHECK;

#endif
