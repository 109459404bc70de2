// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "common/cleanup.h"
#include "fuse/fuse.h"

/*
 * The kernel's default readahead of 128 KiB makes requests of at most twice that; only mounts
 * with more readahead need the large buffers.
 */
#define SMALL_SIZE (256u << 10)
#define N_SMALL 128u
#define N_LARGE (REPLY_BUFFERS - N_SMALL)
#define POOL_BYTES \
	((size_t)N_SMALL * SMALL_SIZE + (size_t)N_LARGE * SESSION_DATA_MAX)

/* A share with fewer buffers than this counts as one that has few. */
#define FEW 4u

TAILQ_HEAD(reply_lines, reply_line);

/* Buffers of a shelf that replies of one kind must leave free. */
struct leave {
	unsigned int all;  /* left free by all shares */
	unsigned int many; /* left free by shares that do not have few */
};

/* Buffers of one size. */
struct shelf {
	struct reply_buffer *free;
	unsigned int n_free;
	struct leave leave[REPLY_KINDS];
	/* Lines of shares with waiting requests. Their number is limited by the kernel's
	 * limit of requests: no thread waits for a buffer, since mounts need the threads too. */
	struct reply_lines waiting[REPLY_KINDS];
};

struct reply_pool {
	pthread_mutex_t lock;    /* the shelves, and the shares' counts */
	struct shelf shelves[2]; /* small, large */
	struct reply_buffer buffers[REPLY_BUFFERS];
	char *memory;
};

static void reply_pool_divide(struct shelf *f)
{
	unsigned int n = f->n_free, half = n / 2;

	f->leave[REPLY_AT_ONCE] = (struct leave){ .all = 0, .many = n / 4 };
	f->leave[REPLY_MAY_WAIT] =
		(struct leave){ .all = half, .many = half + (n - half) / 4 };
	for (size_t i = 0; i < REPLY_KINDS; i++)
		TAILQ_INIT(&f->waiting[i]);
}

static size_t get_shelf_of_buffer(const struct reply_buffer *b)
{
	return b->index < N_SMALL ? 0 : 1;
}

static size_t get_shelf_for_length(size_t len)
{
	return len > SMALL_SIZE ? 1 : 0;
}

/* Add the buffers, the last one first, so that the list starts with the first. */
static void fill_shelves(struct reply_pool *p)
{
	char *data = p->memory + POOL_BYTES;

	for (unsigned int i = REPLY_BUFFERS; i-- > 0;) {
		struct reply_buffer *b = &p->buffers[i];
		struct shelf *f;

		data -= i < N_SMALL ? SMALL_SIZE : SESSION_DATA_MAX;
		b->data = data;
		b->index = i;
		f = &p->shelves[get_shelf_of_buffer(b)];
		b->next = f->free;
		f->free = b;
		f->n_free++;
	}
	for (size_t i = 0; i < ARRAY_SIZE(p->shelves); i++)
		reply_pool_divide(&p->shelves[i]);
}

int reply_pool_new(struct reply_pool **ret, struct error *err)
{
	AUTO_FREE struct reply_pool *p = calloc(1, sizeof(*p));

	if (!p)
		return error_nomem(err);
	p->memory = mmap(NULL, POOL_BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p->memory == MAP_FAILED)
		return error_nomem(err);
	/* A huge page would make a 4 KiB answer resident as 2 MiB. */
	(void)madvise(p->memory, POOL_BYTES, MADV_NOHUGEPAGE);
	/* A forked child (for a mount) does not need this memory. */
	(void)madvise(p->memory, POOL_BYTES, MADV_DONTFORK);
	fill_shelves(p);
	pthread_mutex_init(&p->lock, NULL);
	*ret = steal_ptr(&p);
	return 0;
}

void reply_pool_free(struct reply_pool *p)
{
	if (!p)
		return;
	(void)munmap(p->memory, POOL_BYTES);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/* Take a buffer, if the share may have one. With the lock. */
static struct reply_buffer *
take_buffer(struct shelf *f, struct reply_share *share, enum reply_kind kind)
{
	const struct leave *l = &f->leave[kind];
	unsigned int leave = share->n_buffers < FEW ? l->all : l->many;
	struct reply_buffer *b = f->free;

	if (f->n_free <= leave)
		return NULL;
	f->free = b->next;
	f->n_free--;
	share->n_buffers++;
	return b;
}

struct reply_buffer *reply_pool_take(struct reply_pool *p, size_t len,
				     struct reply_share *share,
				     enum reply_kind kind)
{
	struct reply_buffer *b;

	pthread_mutex_lock(&p->lock);
	b = take_buffer(&p->shelves[get_shelf_for_length(len)], share, kind);
	pthread_mutex_unlock(&p->lock);
	return b;
}

/* Add the request to its share's line. With the lock. */
static void queue_request(struct reply_pool *p, size_t shelf,
			  struct reply_share *share, enum reply_kind kind,
			  struct reply_wait *w)
{
	struct reply_line *l = &share->lines[shelf][kind];

	if (STAILQ_FIRST(&l->waits) == NULL) {
		l->share = share;
		STAILQ_INIT(&l->waits);
		TAILQ_INSERT_TAIL(&p->shelves[shelf].waiting[kind], l, link);
	}
	STAILQ_INSERT_TAIL(&l->waits, w, link);
}

struct reply_buffer *reply_pool_take_or_wait(struct reply_pool *p, size_t len,
					     struct reply_share *share,
					     enum reply_kind kind,
					     struct reply_wait *w)
{
	size_t shelf = get_shelf_for_length(len);
	struct reply_buffer *b;

	pthread_mutex_lock(&p->lock);
	b = take_buffer(&p->shelves[shelf], share, kind);
	if (!b)
		queue_request(p, shelf, share, kind, w);
	pthread_mutex_unlock(&p->lock);
	return b;
}

void reply_pool_leave(struct reply_pool *p, struct reply_share *share)
{
	pthread_mutex_lock(&p->lock);
	share->n_buffers--;
	pthread_mutex_unlock(&p->lock);
}

/* Give a buffer to a waiting request of this kind. With the lock. Whether a share may have
 * one depends on its count, so only the share with the fewest needs to be checked. */
static struct reply_wait *take_next_waiting_request(struct shelf *f,
						    enum reply_kind kind,
						    struct reply_buffer **ret)
{
	struct reply_lines *lines = &f->waiting[kind];
	struct reply_line *l, *least = NULL;
	struct reply_wait *w;

	/* Return before searching the lines: replies at once pass here often, however many
	 * images wait for their registries. */
	if (f->n_free <= f->leave[kind].all)
		return NULL;
	TAILQ_FOREACH(l, lines, link)
	if (!least || l->share->n_buffers < least->share->n_buffers)
		least = l;
	if (!least)
		return NULL;
	*ret = take_buffer(f, least->share, kind);
	if (!*ret)
		return NULL;
	w = STAILQ_FIRST(&least->waits);
	STAILQ_REMOVE_HEAD(&least->waits, link);
	TAILQ_REMOVE(lines, least, link);
	if (!STAILQ_EMPTY(&least->waits))
		TAILQ_INSERT_TAIL(lines, least, link);
	return w;
}

struct reply_wait *reply_pool_put(struct reply_pool *p, struct reply_buffer *b,
				  struct reply_buffer **ret_next)
{
	struct shelf *f = &p->shelves[get_shelf_of_buffer(b)];
	struct reply_wait *w;

	pthread_mutex_lock(&p->lock);
	/* The buffer given back last is taken next, as its memory is resident. */
	b->next = f->free;
	f->free = b;
	f->n_free++;
	w = take_next_waiting_request(f, REPLY_AT_ONCE, ret_next);
	if (!w)
		w = take_next_waiting_request(f, REPLY_MAY_WAIT, ret_next);
	pthread_mutex_unlock(&p->lock);
	return w;
}
