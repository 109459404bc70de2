// SPDX-License-Identifier: Apache-2.0
/* A table in shared memory, so that a process that is killed has written what it wrote. */
#include "ckpt-fuse/mount/begun.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/mutex.h"
#include "fuse/fuse.h"

/* Far more than a process has threads: what was answered in the moment of a kill is asked
 * for by nobody, and stays until its place is needed. */
#define PLACES (4 * SESSION_THREADS_MOST)

/* `request` is written last, and says whether the other means anything. */
struct begun_place {
	atomic_uint_fast64_t request; /* 0: free */
	uint64_t life; /* of which process: each counts from the one before */
};

struct begun {
	pthread_mutex_t lock; /* who writes to places */
	struct begun_place *places;
	uint64_t life;
};

#define TABLE_BYTES (PLACES * sizeof(struct begun_place))

/* A file that is new is empty, and its places, which are zeros then, are free. */
static int map_table(struct begun *b, int fd, struct error *err)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *p;

	if (fd >= 0 && ftruncate(fd, (off_t)TABLE_BYTES) < 0)
		return error_set(err, errno, "requests that were begun: %s",
				 strerror(errno));
	p = mmap(NULL, TABLE_BYTES, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (p == MAP_FAILED)
		return error_set(err, errno, "requests that were begun: %s",
				 strerror(errno));
	b->places = p;
	return 0;
}

int begun_new(int fd, struct begun **ret, struct error *err)
{
	struct begun *b = calloc(1, sizeof(*b));
	int rc = b ? map_table(b, fd, err) : error_nomem(err);

	if (rc < 0) {
		free(b);
		return rc;
	}
	(void)pthread_mutex_init(&b->lock, NULL);
	for (unsigned int i = 0; i < PLACES; i++)
		if (b->places[i].life > b->life)
			b->life = b->places[i].life;
	b->life++;
	*ret = b;
	return 0;
}

void begun_free(struct begun *b)
{
	if (!b)
		return;
	(void)munmap(b->places, TABLE_BYTES);
	(void)pthread_mutex_destroy(&b->lock);
	free(b);
}

/* With the lock. */
static struct begun_place *find_request(struct begun *b, uint64_t request)
{
	for (unsigned int i = 0; i < PLACES; i++)
		if (atomic_load(&b->places[i].request) == request)
			return &b->places[i];
	return NULL;
}

/* With the lock: a free place, else one of the longest dead process.  NULL: all are our
 * own, of which there are not so many. */
static struct begun_place *find_place(struct begun *b)
{
	struct begun_place *best = find_request(b, 0);

	for (unsigned int i = 0; !best && i < PLACES; i++)
		if (b->places[i].life < b->life)
			best = &b->places[i];
	for (unsigned int i = 0; best && best->request && i < PLACES; i++)
		if (b->places[i].life < best->life)
			best = &b->places[i];
	return best;
}

void begun_add(struct begun *b, uint64_t request)
{
	AUTO_UNLOCK held = mutex_hold(&b->lock);
	/* A predecessor's stays: it says so to each successor. */
	struct begun_place *p =
		!request || find_request(b, request) ? NULL : find_place(b);

	if (p) {
		atomic_store(&p->request, 0);
		p->life = b->life;
		atomic_store(&p->request, request);
	}
}

bool begun_find(struct begun *b, uint64_t request)
{
	AUTO_UNLOCK held = mutex_hold(&b->lock);
	struct begun_place *p = request ? find_request(b, request) : NULL;

	return p && p->life < b->life;
}

void begun_end(struct begun *b, uint64_t request)
{
	AUTO_UNLOCK held = mutex_hold(&b->lock);
	struct begun_place *p = request ? find_request(b, request) : NULL;

	if (p)
		atomic_store(&p->request, 0);
}
