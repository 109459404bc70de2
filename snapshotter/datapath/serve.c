// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/datapath/serve.h"

#include <errno.h>
#include <fuse3/fuse_lowlevel.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"

/*
 * Readahead of 128 KiB, the kernel's default, makes requests of at most twice
 * that; only mounts with more readahead need the large ones.  In all 64 MiB, of
 * which only what was used at once is ever resident.
 */
#define SMALL_SIZE (256u << 10)
#define N_SMALL 128u
#define N_LARGE 32u
#define POOL_BYTES ((size_t)N_SMALL * SMALL_SIZE + (size_t)N_LARGE * READ_MAX)

#define LOG_EVERY_NS INT64_C(1000000000)

/* A quarter of the buffers is for images that have few: one whose registry is
 * down keeps all it can get until its readers are told. */
#define FEW 4u

/* A READ that waits for a buffer. */
struct waiting {
	STAILQ_ENTRY(waiting) link;
	struct fuse_req *req;
	struct image_entry *image;
	uint64_t local, off;
	size_t len;
	read_next_fn *next_piece;
};
STAILQ_HEAD(waiting_list, waiting);

/* Buffers of one size. */
struct shelf {
	struct read_slot *free;
	unsigned int n_free, reserve;
	/* Longest first.  As long as the kernel has requests, which it bounds:
	 * our threads must go on, because mounts need them too. */
	struct waiting_list waiting;
};

struct read_pool {
	pthread_mutex_t lock; /* the shelves, and images' n_slots */
	struct shelf small, large;
	struct read_slot slots[N_SMALL + N_LARGE];
	char *memory;
	struct image_table *images;
	void (*release)(void *arg);
	void *release_arg;
	_Atomic int64_t logged_ns; /* last line about a failed read */
};

int read_pool_new(struct image_table *images, void (*release)(void *arg),
		  void *arg, struct read_pool **ret, struct error *err)
{
	AUTO_FREE struct read_pool *p = calloc(1, sizeof(*p));
	char *buf;

	if (!p)
		return error_nomem(err);
	p->memory = mmap(NULL, POOL_BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p->memory == MAP_FAILED)
		return error_nomem(err);
	/* A huge page would make a 4 KiB answer resident as 2 MiB. */
	(void)madvise(p->memory, POOL_BYTES, MADV_NOHUGEPAGE);
	/* Nothing of it is for a child that mounts. */
	(void)madvise(p->memory, POOL_BYTES, MADV_DONTFORK);
	buf = p->memory + POOL_BYTES;
	/* Last first, so that the list starts with the first. */
	for (unsigned int i = N_SMALL + N_LARGE; i-- > 0;) {
		struct read_slot *s = &p->slots[i];
		struct shelf *shelf;

		s->pool = p;
		s->large = i >= N_SMALL;
		buf -= s->large ? READ_MAX : SMALL_SIZE;
		s->buf = buf;
		shelf = s->large ? &p->large : &p->small;
		s->next = shelf->free;
		shelf->free = s;
		shelf->n_free++;
	}
	p->small.reserve = N_SMALL / 4;
	p->large.reserve = N_LARGE / 4;
	STAILQ_INIT(&p->small.waiting);
	STAILQ_INIT(&p->large.waiting);
	pthread_mutex_init(&p->lock, NULL);
	p->images = images;
	p->release = release;
	p->release_arg = arg;
	*ret = steal_ptr(&p);
	return 0;
}

void read_pool_free(struct read_pool *p)
{
	if (!p)
		return;
	(void)munmap(p->memory, POOL_BYTES);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

static struct shelf *shelf_for(struct read_pool *p, size_t len)
{
	return len > SMALL_SIZE ? &p->large : &p->small;
}

/* With the lock: a buffer for the image, when it may have one. */
static struct read_slot *take_slot(struct shelf *f, struct image_entry *image)
{
	struct read_slot *s = f->free;

	if (!s || (f->n_free <= f->reserve && image->n_slots >= FEW))
		return NULL;
	f->free = s->next;
	f->n_free--;
	image->n_slots++;
	return s;
}

static void arm(struct read_slot *s, const struct waiting *w)
{
	s->req = w->req;
	s->image = w->image;
	s->local = w->local;
	s->off = w->off;
	s->len = w->len;
	s->done = 0;
	s->rc = 0;
	s->err.msg[0] = '\0';
	s->next_piece = w->next_piece;
}

/* Give a buffer back, and take one for the first who waits and may have it;
 * NULL when there is nobody. */
static struct read_slot *slot_put(struct read_pool *p, struct read_slot *s)
{
	struct shelf *f = s->large ? &p->large : &p->small;
	struct read_slot *next = NULL;
	struct waiting *w;

	pthread_mutex_lock(&p->lock);
	/* First in, first out again: its memory is resident. */
	s->next = f->free;
	f->free = s;
	f->n_free++;
	STAILQ_FOREACH(w, &f->waiting, link)
	{
		next = take_slot(f, w->image);
		if (next)
			break;
	}
	if (w)
		STAILQ_REMOVE(&f->waiting, w, waiting, link);
	pthread_mutex_unlock(&p->lock);
	if (next)
		arm(next, w);
	free(w);
	return next;
}

/* A reader gets only EIO; the reason reaches a person here. */
static void log_failure(struct read_slot *s)
{
	struct read_pool *p = s->pool;
	int64_t now = clock_now_ns(), last = atomic_load(&p->logged_ns);

	if (last && now - last < LOG_EVERY_NS)
		return;
	if (!atomic_compare_exchange_strong(&p->logged_ns, &last, now))
		return;
	log_warning("datapath",
		    "read failed image=\"%s\" offset=%llu length=%zu: %s",
		    s->image->img->name, (unsigned long long)s->off, s->len,
		    s->err.msg[0] ? s->err.msg : strerror(-s->rc));
}

/* Returns the next to run, or NULL. */
static struct read_slot *finish(struct read_slot *s)
{
	struct read_pool *p = s->pool;
	struct read_slot *next;

	if (s->rc < 0)
		log_failure(s);
	pthread_mutex_lock(&p->lock);
	s->image->n_slots--;
	pthread_mutex_unlock(&p->lock);
	image_put(p->images, s->image);
	/* libfuse has nothing left to do for a reply that cannot be sent: the
	 * reader was killed. */
	if (s->rc < 0)
		(void)fuse_reply_err(s->req, EIO);
	else
		(void)fuse_reply_buf(s->req, s->buf, s->len);
	next = slot_put(p, s);
	p->release(p->release_arg);
	return next;
}

/*
 * A piece is there on this thread before device_submit() returned, or later on
 * another.  Whoever comes second goes on, so that pieces need no recursion.
 */
enum { TURN_SUBMITTING, TURN_FIRST_CAME };

static void run(struct read_slot *s);

static void on_piece(struct device_read *r, int rc, const struct error *err)
{
	struct read_slot *s = container_of(r, struct read_slot, read);

	s->rc = rc;
	if (rc == 0)
		s->done += r->len;
	else if (err)
		s->err = *err;
	if (atomic_exchange(&s->turn, TURN_FIRST_CAME) == TURN_FIRST_CAME)
		run(s);
}

/* True when the piece is in the buffer, or failed: go on. */
static bool run_piece(struct read_slot *s, const struct read_piece *p)
{
	if (p->data || p->zero) {
		if (p->zero)
			memset(s->buf + s->done, 0, p->len);
		else
			memcpy(s->buf + s->done, p->data, p->len);
		s->done += p->len;
		return true;
	}
	s->read = (struct device_read){
		.off = p->voff,
		.len = p->len,
		.buf = s->buf + s->done,
		.done = on_piece,
	};
	atomic_store(&s->turn, TURN_SUBMITTING);
	device_submit(s->image->img->device, &s->read);
	return atomic_exchange(&s->turn, TURN_FIRST_CAME) == TURN_FIRST_CAME;
}

/* False when it waits for a piece. */
static bool run_one(struct read_slot *s)
{
	/* The kernel was told how much it may ask for. */
	if (s->len > READ_MAX)
		s->rc = error_set(&s->err, EIO, "a request of %zu bytes",
				  s->len);
	while (s->rc == 0 && s->done < s->len) {
		struct read_piece piece = { .voff = 0 };

		s->rc = s->next_piece(s, s->off + s->done, s->len - s->done,
				      &piece, &s->err);
		if (s->rc == 0 &&
		    (piece.len == 0 || piece.len > s->len - s->done))
			s->rc = error_set(&s->err, EIO, "no such bytes");
		if (s->rc == 0 && !run_piece(s, &piece))
			return false;
	}
	return true;
}

static void run(struct read_slot *s)
{
	while (s && run_one(s))
		s = finish(s);
}

void serve_read(struct read_pool *p, struct fuse_req *req,
		struct image_entry *image, uint64_t local, uint64_t off,
		size_t len, read_next_fn *next_piece)
{
	struct shelf *f = shelf_for(p, len);
	struct waiting now = { .req = req,
			       .image = image,
			       .local = local,
			       .off = off,
			       .len = len,
			       .next_piece = next_piece };
	struct waiting *w = NULL;
	struct read_slot *s;

	pthread_mutex_lock(&p->lock);
	s = take_slot(f, image);
	if (!s) {
		w = malloc(sizeof(*w));
		if (w) {
			*w = now;
			STAILQ_INSERT_TAIL(&f->waiting, w, link);
		}
	}
	pthread_mutex_unlock(&p->lock);
	if (s) {
		arm(s, &now);
		run(s);
	} else if (!w) {
		image_put(p->images, image);
		(void)fuse_reply_err(req, ENOMEM);
		p->release(p->release_arg);
	}
}
