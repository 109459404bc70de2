// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/sending.h"

#include <errno.h>
#include <stdlib.h>

#include "ckpt-fuse/parts.h"

void sending_init(struct sending *s, struct budget *b, struct pool *p)
{
	*s = (struct sending){ .budget = b, .pool = p };
	(void)pthread_mutex_init(&s->lock, NULL);
	(void)pthread_cond_init(&s->moved, NULL);
}

/* Wait until all units are sent; the store's deadlines bound the wait. */
static void wait_for_sent_units(struct sending *s)
{
	AUTO_UNLOCK held = mutex_hold(&s->lock);

	while (s->n_units)
		(void)pthread_cond_wait(&s->moved, &s->lock);
}

static void note_failure(struct sending *s, int rc, const struct error *err)
{
	if (s->rc == 0) {
		s->rc = rc;
		s->err = *err;
	}
}

void sending_fini(struct sending *s)
{
	(void)pthread_mutex_lock(&s->lock);
	note_failure(s, -ECANCELED, &(struct error)ERROR_INIT);
	(void)pthread_mutex_unlock(&s->lock);
	wait_for_sent_units(s);
	ckpt_writer_free(s->writer);
	(void)pthread_cond_destroy(&s->moved);
	(void)pthread_mutex_destroy(&s->lock);
}

static void free_memory(struct sending *s, char *data, size_t size)
{
	budget_memory_free(s->budget, data, size);
	budget_give(s->budget, size);
}

static void free_unit(struct sending *s, struct sending_unit *x)
{
	if (x->is_ours)
		free_memory(s, x->data, x->size);
	free(x);
}

/* Take the column's next unit. NULL: none, and no thread runs the column now. Called with the lock
 * held. */
static struct sending_unit *take_unit(struct sending_column *c)
{
	struct sending_unit *x = STAILQ_FIRST(&c->queue);

	if (x)
		STAILQ_REMOVE_HEAD(&c->queue, link);
	c->is_running = x != NULL;
	return x;
}

static void run_column_send(struct work *work)
{
	struct sending_column *c =
		container_of(work, struct sending_column, work);
	struct sending *s = c->s;
	struct sending_unit *x;

	(void)pthread_mutex_lock(&s->lock);
	while ((x = take_unit(c))) {
		struct error err = ERROR_INIT;
		int rc = s->rc;

		(void)pthread_mutex_unlock(&s->lock);
		if (rc == 0)
			rc = ckpt_write_placed(s->writer, x->u, x->place,
					       x->data, x->len, &err);
		free_unit(s, x);
		(void)pthread_mutex_lock(&s->lock);
		if (rc < 0)
			note_failure(s, rc, &err);
		s->n_units--;
		(void)pthread_cond_broadcast(&s->moved);
	}
	(void)pthread_mutex_unlock(&s->lock);
}

int sending_begin(struct sending *s, struct object_store *store,
		  const char *path, const struct ckpt_file *base, size_t unit,
		  struct error *err)
{
	const struct ckpt_write_options o = {
		.size = CKPT_SIZE_UNKNOWN,
		.unit_chunks = (uint32_t)(unit / CKPT_PART_CHUNK),
		.base = base,
	};

	s->rc = 0;
	return ckpt_write_open(store, path, &o, &s->writer, err);
}

int sending_begin_segment(struct sending *s, uint32_t columns,
			  struct error *err)
{
	int rc = ckpt_writer_begin_segment(s->writer, columns, err);

	if (rc < 0)
		return rc;
	for (unsigned int i = 0; i < SENDING_COLUMNS_MAX; i++) {
		s->columns[i] =
			(struct sending_column){ .work.run = run_column_send,
						 .s = s };
		STAILQ_INIT(&s->columns[i].queue);
	}
	return 0;
}

static void queue_unit(struct sending *s, struct sending_unit *x)
{
	struct sending_column *c =
		&s->columns[ckpt_writer_column(s->writer, x->place)];
	bool is_idle;

	(void)pthread_mutex_lock(&s->lock);
	STAILQ_INSERT_TAIL(&c->queue, x, link);
	s->n_units++;
	is_idle = !c->is_running;
	c->is_running = true;
	(void)pthread_mutex_unlock(&s->lock);
	if (is_idle)
		(void)!pool_submit(s->pool, &c->work);
}

/* The first error of sent units; 0: all were stored. */
static int get_first_send_error(struct sending *s, struct error *err)
{
	AUTO_UNLOCK held = mutex_hold(&s->lock);
	int rc = s->rc;

	if (rc < 0 && err)
		*err = s->err;
	return rc;
}

int sending_add(struct sending *s, const struct staged_unit *unit, size_t len,
		bool is_ours, struct error *err)
{
	struct sending_unit *x = malloc(sizeof(*x));
	int rc = x ? get_first_send_error(s, err) : error_nomem(err);
	uint32_t place = 0;

	if (rc == 0)
		rc = ckpt_writer_add(s->writer, unit->u, len, &place, err);
	if (rc < 0) {
		if (is_ours)
			free_memory(s, unit->data, unit->size);
		free(x);
		return rc;
	}
	*x = (struct sending_unit){ .u = unit->u,
				    .place = place,
				    .data = unit->data,
				    .size = unit->size,
				    .len = len,
				    .is_ours = is_ours };
	queue_unit(s, x);
	return 0;
}

bool sending_is_idle(struct sending *s)
{
	AUTO_UNLOCK held = mutex_hold(&s->lock);

	return s->n_units == 0 && s->writer &&
	       ckpt_writer_in_segment(s->writer);
}

int sending_end_segment(struct sending *s, struct error *err)
{
	int rc;

	wait_for_sent_units(s);
	rc = get_first_send_error(s, err);
	return rc < 0 ? rc : ckpt_writer_end_segment(s->writer, err);
}

int sending_end(struct sending *s, struct ckpt_stat *ret, struct error *err)
{
	int rc;

	wait_for_sent_units(s);
	rc = get_first_send_error(s, err);
	if (rc == 0 && ret)
		rc = ckpt_commit(s->writer, ret, err);
	ckpt_writer_free(s->writer);
	s->writer = NULL;
	return rc;
}
