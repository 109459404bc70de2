// SPDX-License-Identifier: Apache-2.0
#include "p2p/engine/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/queue.h>

#include "common/bytes.h"
#include "common/fs.h"
#include "common/mutex.h"

#define PAGE 4096u
#define BUCKETS 4096u

struct relay_extent {
	TAILQ_ENTRY(relay_extent) by_off;
	struct relay_extent *hnext;
	uint64_t image, off;
	uint32_t piece, len;
	unsigned int pins; /* uses by transfers that send or write it */
	bool is_ready;     /* its bytes are written */
};

struct relay {
	uint64_t size;
	int fd;
	pthread_mutex_t lock; /* protects all members below */
	TAILQ_HEAD(extents, relay_extent) extents;
	struct relay_extent *buckets[BUCKETS];
	uint64_t pos;            /* offset of the next extent */
	struct relay_extent *at; /* first extent at or after `pos` */
	uint64_t used, written;  /* bytes in use; highest offset ever used */
};

static uint64_t round_up_to_page(uint32_t len)
{
	return round_up(len, PAGE);
}

static struct relay_extent **bucket_of(struct relay *r, uint64_t image,
				       uint32_t piece)
{
	return &r->buckets[(image * 0x9e3779b1u + piece) % BUCKETS];
}

static int relay_punch(int fd, uint64_t off, uint64_t len)
{
	if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		      (off_t)off, (off_t)len) < 0)
		return -errno;
	return 0;
}

int relay_open(const char *dir, uint64_t bytes, struct relay **ret,
	       struct error *err)
{
	AUTO_CLOSE int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	struct relay *r;
	int rc;

	if (fd < 0)
		return error_errno(err, errno, "relay in '%s'", dir);
	rc = relay_punch(fd, 0, PAGE);
	if (rc < 0)
		return error_errno(err, -rc, "relay in '%s': punch a hole",
				   dir);
	r = calloc(1, sizeof(*r));
	if (!r)
		return error_nomem(err);
	r->fd = steal_fd(&fd);
	r->size = bytes / PAGE * PAGE;
	TAILQ_INIT(&r->extents);
	(void)pthread_mutex_init(&r->lock, NULL);
	*ret = r;
	return 0;
}

void relay_free(struct relay *r)
{
	struct relay_extent *e;

	if (!r)
		return;
	while ((e = TAILQ_FIRST(&r->extents))) {
		TAILQ_REMOVE(&r->extents, e, by_off);
		free(e);
	}
	(void)pthread_mutex_destroy(&r->lock);
	(void)close(r->fd);
	free(r);
}

/* Call with the lock held, like all functions below that say nothing else. */
static struct relay_extent *relay_find(struct relay *r, uint64_t image,
				       uint32_t piece)
{
	struct relay_extent *e = *bucket_of(r, image, piece);

	while (e && (e->image != image || e->piece != piece))
		e = e->hnext;
	return e;
}

static void relay_entry_drop(struct relay *r, struct relay_extent *e)
{
	struct relay_extent **at = bucket_of(r, e->image, e->piece);

	while (*at != e)
		at = &(*at)->hnext;
	*at = e->hnext;
	if (r->at == e)
		r->at = TAILQ_NEXT(e, by_off);
	TAILQ_REMOVE(&r->extents, e, by_off);
	r->used -= round_up_to_page(e->len);
	free(e);
}

/* Make room for `len` bytes at r->pos. */
static int relay_clear(struct relay *r, uint64_t len)
{
	unsigned int turns = 0;

	if (len > r->size)
		return -ENOSPC;
	for (;;) {
		if (r->pos + len > r->size) {
			if (turns++)
				return -ENOSPC;
			r->pos = 0;
			r->at = TAILQ_FIRST(&r->extents);
		}
		if (!r->at || r->at->off >= r->pos + len)
			return 0;
		if (r->at->pins) {
			r->pos = r->at->off + round_up_to_page(r->at->len);
			r->at = TAILQ_NEXT(r->at, by_off);
		} else {
			relay_entry_drop(r, r->at);
		}
	}
}

static void relay_insert(struct relay *r, struct relay_extent *e)
{
	struct relay_extent **to = bucket_of(r, e->image, e->piece);

	e->off = r->pos;
	e->pins = 1;
	e->hnext = *to;
	*to = e;
	if (r->at)
		TAILQ_INSERT_BEFORE(r->at, e, by_off);
	else
		TAILQ_INSERT_TAIL(&r->extents, e, by_off);
	r->pos += round_up_to_page(e->len);
	r->used += round_up_to_page(e->len);
}

/* Find a place for `e`; `ret_again`: the place was used before. */
static int relay_place(struct relay *r, struct relay_extent *e, bool *ret_again)
{
	int rc;

	if (relay_find(r, e->image, e->piece))
		return -EEXIST;
	rc = relay_clear(r, round_up_to_page(e->len));
	if (rc < 0)
		return rc;
	relay_insert(r, e);
	*ret_again = e->off < r->written;
	if (r->pos > r->written)
		r->written = r->pos;
	return 0;
}

int relay_put(struct relay *r, uint64_t image, uint32_t piece, const void *data,
	      uint32_t len)
{
	struct relay_extent *e = calloc(1, sizeof(*e));
	bool again = false;
	int rc;

	if (!e)
		return -ENOMEM;
	*e = (struct relay_extent){ .image = image,
				    .piece = piece,
				    .len = len };
	(void)pthread_mutex_lock(&r->lock);
	rc = relay_place(r, e, &again);
	(void)pthread_mutex_unlock(&r->lock);
	if (rc < 0) {
		free(e);
		return rc;
	}
	if (again)
		rc = relay_punch(r->fd, e->off, round_up_to_page(len));
	if (rc == 0)
		rc = fs_pwrite_full(r->fd, data, len, e->off);
	(void)pthread_mutex_lock(&r->lock);
	e->pins--;
	e->is_ready = true;
	if (rc < 0)
		relay_entry_drop(r, e);
	(void)pthread_mutex_unlock(&r->lock);
	return rc;
}

bool relay_get(struct relay *r, uint64_t image, uint32_t piece,
	       struct relay_ref *ret)
{
	struct relay_extent *e;

	(void)pthread_mutex_lock(&r->lock);
	e = relay_find(r, image, piece);
	if (e && !e->is_ready)
		e = NULL;
	if (e) {
		e->pins++;
		*ret = (struct relay_ref){
			.fd = r->fd, .off = e->off, .len = e->len, .extent = e
		};
	}
	(void)pthread_mutex_unlock(&r->lock);
	return e != NULL;
}

void relay_done(struct relay *r, const struct relay_ref *ref)
{
	(void)pthread_mutex_lock(&r->lock);
	ref->extent->pins--;
	(void)pthread_mutex_unlock(&r->lock);
}

uint64_t relay_used(struct relay *r)
{
	AUTO_UNLOCK held = mutex_hold(&r->lock);

	return r->used;
}
