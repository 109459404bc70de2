// SPDX-License-Identifier: Apache-2.0
/*
 * Each open put keeps one buffer, so it can go on even if other puts use all other memory: open
 * puts never wait for each other.
 */
#include "objects/store/parts.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/bytes.h"
#include "common/clock.h"

#define PART_MAX (512u << 20)

struct put_parts {
	struct object_put *put;
	struct put_parts_way way;
	unsigned int n;    /* parts begun */
	uint64_t off;      /* offset of the next part */
	struct part *fill; /* part being filled; NULL: none yet */

	pthread_mutex_t lock;  /* protects the rest */
	pthread_cond_t ended;  /* a part is sent, or failed */
	unsigned int n_flying; /* parts being sent */
	struct part *spare;    /* a sent part whose buffer is free again */
	int rc;                /* the first failure */
	struct error err;
};

static void part_free(struct put_parts *s, struct part *p)
{
	if (!p)
		return;
	store_memory_give(s->put->store->memory, p->data, p->size);
	free(p);
}

static struct part *part_new(struct put_parts *s, size_t size,
			     int64_t deadline_ns)
{
	struct part *p = calloc(1, sizeof(*p));
	int64_t begun_ns = clock_now_ns();

	if (!p)
		return NULL;
	p->of = s;
	p->put = s->put;
	p->size = size;
	p->data = store_memory_take(s->put->store->memory, size, deadline_ns);
	store_count_queue(p->put->store, &p->put->store->count.write_waits,
			  begun_ns);
	if (p->data)
		return p;
	free(p);
	return NULL;
}

void put_parts_done(struct part *p, int rc, const struct error *err)
{
	struct put_parts *s = p->of;
	struct part *drop = p;

	(void)pthread_mutex_lock(&s->lock);
	if (rc < 0 && s->rc == 0) {
		s->rc = rc;
		s->err = *err;
	}
	if (!s->spare) {
		s->spare = p;
		drop = NULL;
	}
	(void)pthread_mutex_unlock(&s->lock);
	part_free(s, drop);
	(void)pthread_mutex_lock(&s->lock);
	s->n_flying--;
	(void)pthread_cond_broadcast(&s->ended);
	(void)pthread_mutex_unlock(&s->lock);
}

static void part_run(struct work *w)
{
	struct part *p = container_of(w, struct part, work);
	struct put_parts *s = p->of;
	struct error err = ERROR_INIT;
	int rc;

	store_count_queue(p->put->store, &p->put->store->count.write_waits,
			  p->asked_ns);
	(void)pthread_mutex_lock(&s->lock);
	rc = s->rc;
	err = s->err;
	(void)pthread_mutex_unlock(&s->lock);
	if (rc == 0)
		rc = s->way.send(p, &err);
	put_parts_done(p, rc, &err);
}

/* Size of part `n`, in bytes. */
static size_t part_size_of(const struct put_parts *s, unsigned int n)
{
	size_t size = s->way.part_size;

	for (; n >= PARTS_GROW && size < PART_MAX; n -= PARTS_GROW)
		size *= 2;
	return size;
}

int put_parts_new(struct object_put *p, const struct put_parts_way *way,
		  struct put_parts **ret, struct error *err)
{
	struct put_parts *s = calloc(1, sizeof(*s));
	size_t first = way->part_size;

	if (!s)
		return error_nomem(err);
	if (p->size_hint && p->size_hint < first)
		first = (size_t)p->size_hint;
	s->put = p;
	s->way = *way;
	(void)pthread_mutex_init(&s->lock, NULL);
	(void)pthread_cond_init(&s->ended, NULL);
	s->fill = part_new(s, first, store_deadline(p->store));
	if (!s->fill) {
		put_parts_free(s);
		return error_set(err, EBUSY,
				 "no %zu bytes were free for it: give the "
				 "store more memory than %" PRIu64
				 ", or write fewer objects at a time",
				 first, p->store->cfg.memory);
	}
	*ret = s;
	return 0;
}

/* Wait until fewer than `n` parts are being sent; the store's deadlines bound this. Called with
 * the lock held. */
static void parts_wait_below(struct put_parts *s, unsigned int n)
{
	while (s->n_flying >= n)
		(void)pthread_cond_wait(&s->ended, &s->lock);
}

void put_parts_free(struct put_parts *s)
{
	if (!s)
		return;
	(void)pthread_mutex_lock(&s->lock);
	if (s->rc == 0)
		s->rc = -ECANCELED;
	parts_wait_below(s, 1);
	(void)pthread_mutex_unlock(&s->lock);
	part_free(s, s->fill);
	part_free(s, s->spare);
	(void)pthread_cond_destroy(&s->ended);
	(void)pthread_mutex_destroy(&s->lock);
	free(s);
}

/* Send the filled part. */
static int send_filled(struct put_parts *s, struct error *err)
{
	struct part *p = s->fill;
	size_t len = p->len;
	int rc;

	(void)pthread_mutex_lock(&s->lock);
	parts_wait_below(s, s->way.max_parallel);
	rc = s->rc;
	if (rc < 0 && err)
		*err = s->err;
	else
		s->n_flying++;
	(void)pthread_mutex_unlock(&s->lock);
	if (rc < 0)
		return rc;
	p->n = s->n;
	p->off = s->off;
	p->work.run = part_run;
	p->asked_ns = clock_now_ns();
	rc = s->way.send ? store_submit(s->put->store, &p->work, false, err)
			 : s->way.start(p, err);
	if (rc < 0) {
		(void)pthread_mutex_lock(&s->lock);
		s->n_flying--;
		(void)pthread_mutex_unlock(&s->lock);
		return rc;
	}
	s->n++;
	s->off += len;
	s->fill = NULL;
	return 0;
}

/* Get a buffer for the next part: free memory, or that of a part already sent. */
static int next_fill(struct put_parts *s, struct error *err)
{
	struct part *p = part_new(s, part_size_of(s, s->n), 0);
	int rc;

	(void)pthread_mutex_lock(&s->lock);
	while (!p && !s->spare && s->n_flying)
		(void)pthread_cond_wait(&s->ended, &s->lock);
	if (!p) {
		p = s->spare;
		s->spare = NULL;
	}
	rc = s->rc;
	if (rc < 0 && err)
		*err = s->err;
	(void)pthread_mutex_unlock(&s->lock);
	s->fill = p;
	if (rc < 0)
		return rc;
	if (!p)
		return error_nomem(err);
	p->len = 0;
	return 0;
}

/* The object is larger than announced: replace the first buffer by one of a part's full size. */
static int grow_fill(struct put_parts *s, struct error *err)
{
	struct object_store *store = s->put->store;
	struct part *p =
		part_new(s, part_size_of(s, s->n), store_deadline(store));

	if (!p)
		return error_set(err, EBUSY,
				 "it is longer than the %zu bytes that were "
				 "announced, and no memory was free for more",
				 s->fill->size);
	memcpy(p->data, s->fill->data, s->fill->len);
	p->len = s->fill->len;
	part_free(s, s->fill);
	s->fill = p;
	return 0;
}

/* Make sure that the buffer has room. */
static int make_room(struct put_parts *s, struct error *err)
{
	int rc;

	if (!s->fill)
		return next_fill(s, err);
	if (s->fill->len < s->fill->size)
		return 0;
	if (s->n == 0 && s->fill->size < s->way.part_size)
		return grow_fill(s, err);
	rc = send_filled(s, err);
	return rc < 0 ? rc : next_fill(s, err);
}

void *put_parts_room(struct object_put *p, size_t len)
{
	struct put_parts *s = p->parts;

	/* On failure the following write fails too, and reports it. */
	if (make_room(s, NULL) < 0 || s->fill->size - s->fill->len < len)
		return NULL;
	return (char *)s->fill->data + s->fill->len;
}

int put_parts_write(struct object_put *p, const void *data, size_t len,
		    struct error *err)
{
	struct put_parts *s = p->parts;
	const char *from = data;

	while (len) {
		int rc = make_room(s, err);
		size_t room, n;
		char *to;

		if (rc < 0)
			return rc;
		room = s->fill->size - s->fill->len;
		n = len < room ? len : room;
		to = (char *)s->fill->data + s->fill->len;
		if (to != from)
			memcpy(to, from, n);
		s->fill->len += n;
		from += n;
		len -= n;
	}
	return 0;
}

int put_parts_finish(struct put_parts *s, struct error *err)
{
	int rc = 0;

	if (s->n && s->fill && s->fill->len)
		rc = send_filled(s, err);
	(void)pthread_mutex_lock(&s->lock);
	parts_wait_below(s, 1);
	if (rc == 0 && s->rc < 0) {
		rc = s->rc;
		if (err)
			*err = s->err;
	}
	(void)pthread_mutex_unlock(&s->lock);
	return rc;
}

unsigned int put_parts_count(const struct put_parts *s, const void **ret_data,
			     size_t *ret_len)
{
	*ret_data = s->fill ? s->fill->data : NULL;
	*ret_len = s->fill ? s->fill->len : 0;
	return s->n;
}
