// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/later.h"

#include <stdlib.h>

#include "common/log.h"

/* A commit waits for its columns, which other threads send. */
#define THREADS 8u

/* A close that is committed later. */
struct late_commit {
	struct work work;
	struct later *l;
	struct ckpt_node *n; /* in use, and counted as a writer */
	bool is_settled;     /* with the node's lock; it is in the list still */
	uint64_t number;     /* each has the next one */
	TAILQ_ENTRY(late_commit) link;
};

struct later {
	later_writer_end_fn *writer_end;
	struct pool *pool;
	pthread_mutex_t lock; /* the rest */
	pthread_cond_t done;
	TAILQ_HEAD(, late_commit) list;
	uint64_t last; /* number that was given */
	unsigned int n_staged;
};

int later_new(later_writer_end_fn *writer_end, struct later **ret,
	      struct error *err)
{
	struct later *l = calloc(1, sizeof(*l));
	int rc;

	if (!l)
		return error_nomem(err);
	rc = pool_new(NULL, THREADS, 0, &l->pool, err);
	if (rc < 0) {
		free(l);
		return rc;
	}
	l->writer_end = writer_end;
	TAILQ_INIT(&l->list);
	(void)pthread_mutex_init(&l->lock, NULL);
	(void)pthread_cond_init(&l->done, NULL);
	*ret = l;
	return 0;
}

void later_free(struct later *l)
{
	if (!l)
		return;
	pool_free(l->pool);
	(void)pthread_cond_destroy(&l->done);
	(void)pthread_mutex_destroy(&l->lock);
	free(l);
}

/* With the node's lock: a close of it is on its way, another than `c`, which may be NULL.  One that
 * is settled is not, though it leaves the list only after the lock: of two that end together the
 * second would take the first for one that is still to come, and nobody would say that all is
 * stored. */
static bool has_unsettled(struct later *l, const struct ckpt_node *n,
			  const struct late_commit *c)
{
	const struct late_commit *o;
	AUTO_UNLOCK held = mutex_hold(&l->lock);

	TAILQ_FOREACH(o, &l->list, link)
	if (o != c && o->n == n && !o->is_settled)
		break;
	return o != NULL;
}

bool later_commits(struct later *l, const struct ckpt_node *n)
{
	return has_unsettled(l, n, NULL);
}

/* With the node's lock: what was written is in the store, or lost.  True: more was written
 * meanwhile, and the last that had it open left it to us. */
static bool settle_commit(struct late_commit *c, int rc,
			  const struct error *err)
{
	struct ckpt_node *n = c->n;
	AUTO_BUF path = BUF_INIT;

	if (rc == 0 && !n->n_open && writing_is_pending(n->writing))
		return true;
	c->is_settled = true;
	/* All that was closed is stored, whoever has it open still. */
	if (rc == 0 && !has_unsettled(c->l, n, c))
		node_set_staged(n, false);
	if (rc < 0 && node_path(n, &path) == 0) {
		log_error("ckpt", "lost path=\"%s\" reason=\"%s\"", path.data,
			  err->msg);
		node_lose(n, rc, err->msg);
	}
	c->l->writer_end(n);
	return false;
}

static void late_run(struct work *work)
{
	struct late_commit *c = container_of(work, struct late_commit, work);
	struct later *l = c->l;
	bool is_again = true;
	int rc = 0;

	while (is_again) {
		struct error err = ERROR_INIT;

		node_begin_commit(c->n);
		rc = writing_commit(c->n->writing, &err);
		(void)pthread_mutex_lock(&c->n->lock);
		is_again = settle_commit(c, rc, &err);
		(void)pthread_mutex_unlock(&c->n->lock);
		node_end_commit(c->n);
	}
	(void)pthread_mutex_lock(&l->lock);
	TAILQ_REMOVE(&l->list, c, link);
	l->n_staged--;
	(void)pthread_cond_broadcast(&l->done);
	(void)pthread_mutex_unlock(&l->lock);
	node_put(c->n);
	free(c);
}

bool later_commit(struct later *l, struct ckpt_node *n)
{
	struct late_commit *c = malloc(sizeof(*c));

	if (!c)
		return false;
	*c = (struct late_commit){ .work.run = late_run, .l = l, .n = n };
	n->n_writers++;
	node_use(n);
	node_set_staged(n, true);
	(void)pthread_mutex_lock(&l->lock);
	c->number = ++l->last;
	TAILQ_INSERT_TAIL(&l->list, c, link);
	l->n_staged++;
	(void)pthread_mutex_unlock(&l->lock);
	(void)!pool_submit(l->pool, &c->work);
	return true;
}

/* With the lock.  One of those up to this number; they are in order. */
static bool is_pending(const struct later *l, const struct ckpt_node *n,
		       uint64_t last)
{
	const struct late_commit *c;

	TAILQ_FOREACH(c, &l->list, link)
	if (c->number <= last && (!n || c->n == n))
		return true;
	return false;
}

bool later_has(struct later *l, const struct ckpt_node *n)
{
	AUTO_UNLOCK held = mutex_hold(&l->lock);

	return is_pending(l, n, UINT64_MAX);
}

bool later_settle(struct later *l, const struct ckpt_node *n)
{
	bool has_waited = false;
	AUTO_UNLOCK held = mutex_hold(&l->lock);
	uint64_t last = l->last;

	while (is_pending(l, n, last)) {
		has_waited = true;
		(void)pthread_cond_wait(&l->done, &l->lock);
	}
	return has_waited;
}

unsigned int later_n_staged(struct later *l)
{
	AUTO_UNLOCK held = mutex_hold(&l->lock);

	return l->n_staged;
}
