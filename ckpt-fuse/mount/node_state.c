// SPDX-License-Identifier: Apache-2.0
/* A node's state that needs no table: its writers and readers, size and losses. */
#include <errno.h>
#include <string.h>

#include "ckpt-fuse/mount/nodes.h"

void node_set_writing(struct ckpt_node *n, struct writing *w)
{
	AUTO_UNLOCK held = mutex_hold(&n->seen);

	n->writing = w;
	/* From now on the kernel derives the size from the writes. */
	n->told_size = SIZE_UNKNOWN;
}

void node_set_stat(struct ckpt_node *n, const struct ckpt_stat *st)
{
	AUTO_UNLOCK held = mutex_hold(&n->seen);

	n->stat = *st;
}

struct ckpt_stat node_stat(struct ckpt_node *n)
{
	AUTO_UNLOCK held = mutex_hold(&n->seen);

	return n->stat;
}

bool node_is_being_changed(const struct ckpt_node *n)
{
	return n->writing && (n->n_owned || n->n_committing ||
			      writing_is_pending(n->writing));
}

bool node_is_changed_now(struct ckpt_node *n)
{
	AUTO_UNLOCK held = mutex_hold(&n->seen);

	return node_is_being_changed(n);
}

/* Append a commit to the list. Called with the lock held. */
static void list_commit(struct nodes *t, struct node_commit *c)
{
	c->number = ++t->last_commit;
	TAILQ_INSERT_TAIL(&t->under_way, c, link);
}

void node_queue_commit(struct node_commit *c)
{
	struct nodes *t = c->n->table;
	AUTO_UNLOCK held = mutex_hold(&t->commits);

	c->is_late = true;
	list_commit(t, c);
}

void node_begin_commit(struct node_commit *c)
{
	struct nodes *t = c->n->table;
	AUTO_UNLOCK held = mutex_hold(&t->commits);

	if (!c->is_late)
		list_commit(t, c);
	c->is_running = true;
	c->n->n_committing++;
}

void node_end_commit(struct node_commit *c)
{
	struct nodes *t = c->n->table;
	AUTO_UNLOCK held = mutex_hold(&t->commits);

	TAILQ_REMOVE(&t->under_way, c, link);
	c->n->n_committing--;
	c->n->n_steps++;
	(void)pthread_cond_broadcast(&t->committed);
}

/* Count the commits of the node (NULL: of all) up to number `last`; the list is sorted by number.
 * Called with the lock held. */
static unsigned int count_commits(const struct nodes *t,
				  const struct ckpt_node *n, bool is_late,
				  uint64_t last)
{
	const struct node_commit *c;
	unsigned int count = 0;

	TAILQ_FOREACH(c, &t->under_way, link)
	count += c->number <= last && (!n || c->n == n) &&
		 (is_late ? c->is_late : c->is_running);
	return count;
}

bool nodes_wait_commits(struct nodes *t, const struct ckpt_node *n,
			bool is_late)
{
	AUTO_UNLOCK held = mutex_hold(&t->commits);
	const uint64_t last = t->last_commit;
	bool has_waited = false;

	while (count_commits(t, n, is_late, last)) {
		has_waited = true;
		(void)pthread_cond_wait(&t->committed, &t->commits);
	}
	return has_waited;
}

unsigned int nodes_count_late(struct nodes *t, const struct ckpt_node *n)
{
	AUTO_UNLOCK held = mutex_hold(&t->commits);

	return count_commits(t, n, true, UINT64_MAX);
}

/* Is another commit of the node not settled yet? A settled commit is still in the list until after
 * the node's lock is released. Of two commits that end together, the second must not count the
 * first as pending, or neither would note that all is stored. */
bool node_has_unsettled(const struct ckpt_node *n, const struct node_commit *c)
{
	AUTO_UNLOCK held = mutex_hold(&n->table->commits);
	const struct node_commit *o;

	TAILQ_FOREACH(o, &n->table->under_way, link)
	if (o != c && o->n == n && o->is_late && !o->is_settled)
		return true;
	return false;
}

/* Are there only writers that were killed or got an error, so that unstored bytes belong to
 * nobody? */
bool node_is_abandoned(const struct ckpt_node *n)
{
	return n->writing && n->n_writers && !node_is_being_changed(n) &&
	       writing_is_dirty(n->writing);
}

bool node_is_written(struct ckpt_node *n)
{
	AUTO_UNLOCK held = mutex_hold(&n->seen);

	return n->writing && n->n_writers;
}

bool node_is_peeked(struct ckpt_node *n)
{
	AUTO_UNLOCK held = mutex_hold(&n->seen);

	return n->writing && !n->n_writers && n->n_peekers;
}

/* ---------------------------------------------------------------------- its size --- */

uint64_t node_tell_size(struct ckpt_node *n, uint64_t size)
{
	AUTO_UNLOCK held = mutex_hold(&n->seen);

	if (n->readers_size != SIZE_UNKNOWN)
		size = n->readers_size;
	/* When two answers with different sizes run at the same time, the kernel may drop the later
	 * one: the size that it has is then unknown. */
	n->told_size = n->last_size == SIZE_UNKNOWN || n->last_size == size
			       ? size
			       : SIZE_UNKNOWN;
	n->last_size = size;
	return size;
}

void node_open_size(struct session *s, struct ckpt_node *n, uint64_t size)
{
	bool is_told;

	(void)pthread_mutex_lock(&n->seen);
	is_told = size != SIZE_UNKNOWN && n->told_size == size;
	if (!is_told)
		n->told_size = SIZE_UNKNOWN;
	(void)pthread_mutex_unlock(&n->seen);
	if (!is_told)
		session_ask_again(s, n->id);
}

void node_set_readers_size(struct ckpt_node *n, uint64_t size)
{
	AUTO_UNLOCK held = mutex_hold(&n->seen);

	n->readers_size = size;
}

bool node_size_differs(struct ckpt_node *n, uint64_t size)
{
	AUTO_UNLOCK held = mutex_hold(&n->seen);

	return !n->writing && n->readers_size != SIZE_UNKNOWN &&
	       n->readers_size != size;
}

/* ------------------------------------------------------------------------- losses --- */

/* The advice comes first, because a long message is cut at its end. */
#define LOST \
	"what was written is not in the store, remove or replace the file: %s"

const char *node_loss_why(const struct ckpt_node *n)
{
	return n->lost_why ? n->lost_why : strerror(-n->lost_rc);
}

int node_loss(struct ckpt_node *n, struct error *err)
{
	AUTO_UNLOCK held = mutex_hold(&n->seen);
	int rc = n->lost_rc;

	if (rc < 0)
		error_set(err, -rc, LOST, node_loss_why(n));
	return rc;
}

int node_loss_text(struct ckpt_node *n, struct buf *out)
{
	int rc = 0;
	AUTO_UNLOCK held = mutex_hold(&n->seen);

	if (n->lost_rc)
		rc = buf_printf(out, LOST, node_loss_why(n)) < 0 ? -ENOMEM : 1;
	return rc;
}
