// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/later.h"

#include <stdlib.h>

#include "common/log.h"

/* Threads for commits, which wait for other threads to send their columns. */
#define THREADS 8u

/* A commit of a file that was closed. Its node is in use, and counts it as a writer. */
struct late_commit {
	struct work work;
	struct later *l;
	struct node_commit commit;
};

struct later {
	later_writer_end_fn *writer_end;
	struct pool *pool;
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
	*ret = l;
	return 0;
}

void later_free(struct later *l)
{
	if (!l)
		return;
	pool_free(l->pool);
	free(l);
}

/* End a commit, stored or failed. True: more was written during the commit, and its last writer
 * left the commit to this one. */
static bool settle_commit(struct late_commit *c, int rc,
			  const struct error *err)
{
	struct ckpt_node *n = c->commit.n;
	AUTO_UNLOCK held = mutex_hold(&n->lock);
	AUTO_BUF path = BUF_INIT;

	if (rc == 0 && !n->n_open && writing_is_pending(n->writing)) {
		n->n_steps++;
		return true;
	}
	c->commit.is_settled = true;
	/* All closed bytes are stored, even if the file is open again. */
	if (rc == 0 && !node_has_unsettled(n, &c->commit))
		node_set_staged(n, false);
	if (rc < 0 && node_path(n, &path) == 0) {
		log_error("ckpt", "lost path=\"%s\" reason=\"%s\"", path.data,
			  err->msg);
		node_lose(n, rc, err->msg);
	}
	c->l->writer_end(n);
	return false;
}

static void run_late_commit(struct work *work)
{
	struct late_commit *c = container_of(work, struct late_commit, work);
	struct ckpt_node *n = c->commit.n;
	struct error err;
	int rc;

	node_begin_commit(&c->commit);
	do {
		err = (struct error)ERROR_INIT;
		rc = writing_commit(n->writing, &err);
	} while (settle_commit(c, rc, &err));
	node_end_commit(&c->commit);
	node_put(n);
	free(c);
}

bool later_commit(struct later *l, struct ckpt_node *n)
{
	struct late_commit *c = malloc(sizeof(*c));

	if (!c)
		return false;
	*c = (struct late_commit){ .work.run = run_late_commit,
				   .l = l,
				   .commit = { .n = n } };
	n->n_writers++;
	node_use(n);
	node_set_staged(n, true);
	node_queue_commit(&c->commit);
	(void)!pool_submit(l->pool, &c->work);
	return true;
}
