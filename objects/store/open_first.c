// SPDX-License-Identifier: Apache-2.0
/* Opens the first of two names that exists, in the time of one request. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "objects/object_get.h"
#include "objects/store/backend.h"

enum second_state { SECOND_WAITS, SECOND_RUNS, SECOND_DONE, SECOND_UNWANTED };

/* Opening of the second name on a pool thread. Both the pool and the caller hold a reference,
 * because the job stays queued even if it is no longer wanted. */
struct second_open {
	struct work work;
	struct object_store *store;
	/* The caller's; valid while the state is not UNWANTED. */
	const char *name;
	size_t head;
	pthread_mutex_t lock; /* protects the members below */
	pthread_cond_t done;
	enum second_state state;
	unsigned int n_refs;
	struct object *object;
	int rc;
	struct error err;
};

/* Drop a reference; called with the lock held, and releases it. */
static void second_unref(struct second_open *o)
{
	bool is_last = --o->n_refs == 0;

	(void)pthread_mutex_unlock(&o->lock);
	if (!is_last)
		return;
	(void)pthread_cond_destroy(&o->done);
	(void)pthread_mutex_destroy(&o->lock);
	free(o);
}

static void second_run(struct work *w)
{
	struct second_open *o = container_of(w, struct second_open, work);

	(void)pthread_mutex_lock(&o->lock);
	if (o->state == SECOND_WAITS) {
		o->state = SECOND_RUNS;
		(void)pthread_mutex_unlock(&o->lock);
		o->rc = store_open_head(o->store, o->name, o->head, &o->object,
					&o->err);
		(void)pthread_mutex_lock(&o->lock);
		o->state = SECOND_DONE;
		(void)pthread_cond_signal(&o->done);
	}
	second_unref(o);
}

/* Start opening the second name. NULL: it is opened later, if the first does not exist. */
static struct second_open *second_begin(struct object_store *s,
					const char *name, size_t head)
{
	struct second_open *o = s->pool ? calloc(1, sizeof(*o)) : NULL;

	if (!o)
		return NULL;
	o->work.run = second_run;
	o->store = s;
	o->name = name;
	o->head = head;
	o->n_refs = 2;
	(void)pthread_mutex_init(&o->lock, NULL);
	(void)pthread_cond_init(&o->done, NULL);
	if (store_submit(s, &o->work, true, NULL) < 0) {
		o->n_refs = 1;
		(void)pthread_mutex_lock(&o->lock);
		second_unref(o);
		return NULL;
	}
	return o;
}

/* Take the result of the second open; -EAGAIN: it has not begun. */
static int second_end(struct second_open *o, struct object **ret,
		      struct error *err)
{
	int rc = -EAGAIN;

	(void)pthread_mutex_lock(&o->lock);
	/* Bounded: the running open has the store's deadlines. */
	while (o->state == SECOND_RUNS)
		(void)pthread_cond_wait(&o->done, &o->lock);
	if (o->state == SECOND_DONE) {
		rc = o->rc;
		*ret = o->object;
		if (rc < 0 && err)
			*err = o->err;
	}
	o->state = SECOND_UNWANTED;
	second_unref(o);
	return rc;
}

/* Finish with the second name, given `rc` for the first: 0, 1 with the second's object, or
 * -errno. */
static int take_second(struct object_store *s, struct second_open *second,
		       const char *name, size_t head, int rc,
		       struct object **ret, struct object_seen *ret_seen,
		       struct error *err)
{
	struct object *o = NULL;
	int rc_second = -EAGAIN;

	if (second)
		rc_second = second_end(second, &o, rc == -ENOENT ? err : NULL);
	*ret_seen = (struct object_seen){ .is_known = rc_second == 0 ||
						      rc_second == -ENOENT };
	if (rc_second == 0)
		(void)snprintf(ret_seen->tag, OBJECT_TAG_MAX, "%s",
			       object_opened_stat(o)->tag);
	if (rc != -ENOENT) {
		if (rc_second == 0)
			object_close(o);
		return rc;
	}
	/* it may have appeared when the first one went: try again */
	if (rc_second == -EAGAIN || rc_second == -ENOENT)
		rc_second = store_open_head(s, name, head, &o, err);
	if (rc_second < 0)
		return rc_second;
	*ret = o;
	return 1;
}

int object_open_first(struct object_store *s, const char *first,
		      const char *second, bool *ret_is_second,
		      struct object **ret, struct error *err)
{
	struct second_open *other = second_begin(s, second, 0);
	struct object_seen ignored;
	int rc = object_open(s, first, ret, err);

	rc = take_second(s, other, second, 0, rc, ret, &ignored, err);
	*ret_is_second = rc > 0;
	return rc < 0 ? rc : 0;
}

int object_get_first(struct object_store *s, const char *small, size_t max,
		     struct buf *ret, struct object_stat *ret_stat,
		     const char *other, size_t head, struct object **ret_other,
		     struct object_seen *ret_seen, struct error *err)
{
	struct second_open *second = second_begin(s, other, head);
	int rc = object_get(s, small, max, ret, ret_stat, err);

	return take_second(s, second, other, head, rc, ret_other, ret_seen,
			   err);
}
