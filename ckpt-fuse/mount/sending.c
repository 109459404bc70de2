// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/sending.h"

#include <errno.h>
#include <stdlib.h>

void sending_init(struct sending *s, struct budget *b, struct jobs *j)
{
	*s = (struct sending){ .budget = b, .jobs = j };
	(void)pthread_mutex_init(&s->lock, NULL);
	(void)pthread_cond_init(&s->moved, NULL);
}

/* A unit that is sent has the store's deadlines. */
static void wait_sent(struct sending *s)
{
	(void)pthread_mutex_lock(&s->lock);
	while (s->n_units)
		(void)pthread_cond_wait(&s->moved, &s->lock);
	(void)pthread_mutex_unlock(&s->lock);
}

static void fail(struct sending *s, int rc, const struct error *err)
{
	if (s->rc == 0) {
		s->rc = rc;
		s->err = *err;
	}
}

void sending_fini(struct sending *s)
{
	(void)pthread_mutex_lock(&s->lock);
	fail(s, -ECANCELED, &(struct error)ERROR_INIT);
	(void)pthread_mutex_unlock(&s->lock);
	wait_sent(s);
	ckpt_writer_free(s->writer);
	(void)pthread_cond_destroy(&s->moved);
	(void)pthread_mutex_destroy(&s->lock);
}

/* ------------------------------------------------------------------- columns --- */

static void free_memory(struct sending *s, const struct tail_unit *unit)
{
	budget_memory_free(s->budget, unit->data, unit->size);
	budget_give(s->budget, unit->size);
}

static void free_unit(struct sending *s, struct sending_unit *x)
{
	if (x->is_ours)
		free_memory(s, &x->unit);
	free(x);
}

/* The next of the column, with the lock; NULL: there is none, nobody runs it. */
static struct sending_unit *take_unit(struct sending_column *c)
{
	struct sending_unit *x = STAILQ_FIRST(&c->queue);

	if (x)
		STAILQ_REMOVE_HEAD(&c->queue, link);
	c->is_running = x != NULL;
	return x;
}

static void sending_run(struct job *job)
{
	struct sending_column *c =
		container_of(job, struct sending_column, job);
	struct sending *s = c->s;
	struct sending_unit *x;

	(void)pthread_mutex_lock(&s->lock);
	while ((x = take_unit(c))) {
		struct error err = ERROR_INIT;
		int rc = s->rc;

		(void)pthread_mutex_unlock(&s->lock);
		if (rc == 0)
			rc = ckpt_write_unit(s->writer, x->u, x->unit.data,
					     &err);
		free_unit(s, x);
		(void)pthread_mutex_lock(&s->lock);
		if (rc < 0)
			fail(s, rc, &err);
		s->n_units--;
		(void)pthread_cond_broadcast(&s->moved);
	}
	(void)pthread_mutex_unlock(&s->lock);
}

int sending_begin(struct sending *s, struct object_store *store,
		  const char *path, const struct ckpt_write_options *o,
		  struct error *err)
{
	int rc = ckpt_write_open(store, path, o, &s->writer, err);

	if (rc < 0)
		return rc;
	for (unsigned int i = 0; i < SENDING_COLUMNS_MAX; i++) {
		s->columns[i] = (struct sending_column){ .job.run = sending_run,
							 .s = s };
		STAILQ_INIT(&s->columns[i].queue);
	}
	s->rc = 0;
	return 0;
}

int sending_add(struct sending *s, uint64_t u, const struct tail_unit *unit,
		bool is_ours, struct error *err)
{
	struct sending_column *c =
		&s->columns[ckpt_writer_column(s->writer, u)];
	struct sending_unit *x = malloc(sizeof(*x));
	bool is_idle;
	int rc;

	if (!x) {
		if (is_ours)
			free_memory(s, unit);
		return error_nomem(err);
	}
	*x = (struct sending_unit){ .u = u, .unit = *unit, .is_ours = is_ours };
	(void)pthread_mutex_lock(&s->lock);
	rc = s->rc;
	if (rc < 0 && err)
		*err = s->err;
	STAILQ_INSERT_TAIL(&c->queue, x, link);
	s->n_units++;
	is_idle = !c->is_running;
	c->is_running = true;
	(void)pthread_mutex_unlock(&s->lock);
	if (is_idle)
		jobs_add(s->jobs, &c->job);
	return rc;
}

int sending_end(struct sending *s, struct ckpt_stat *ret, struct error *err)
{
	int rc;

	wait_sent(s);
	rc = s->rc;
	if (rc < 0 && err)
		*err = s->err;
	if (rc == 0 && ret)
		rc = ckpt_commit(s->writer, ret, err);
	ckpt_writer_free(s->writer);
	s->writer = NULL;
	return rc;
}
