// SPDX-License-Identifier: Apache-2.0
#include "image/writer/upload.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/thread.h"

#define QUEUE_MAX 2 /* blobs on the disk that wait for upload */

struct upload_blob {
	struct digest digest;
	uint64_t size;
	int fd;
};

struct upload {
	struct upload_target *target;
	struct thread thread;
	pthread_mutex_t lock; /* for what is below */
	pthread_cond_t moved;
	struct upload_blob queue[QUEUE_MAX];
	uint64_t head, tail;
	bool ending; /* no more blobs will be added */
	int rc;
	struct error err;
};

static void *upload_thread(void *arg)
{
	struct upload *u = arg;

	pthread_mutex_lock(&u->lock);
	for (;;) {
		struct error err = ERROR_INIT;
		struct upload_blob b;
		int rc;

		while (u->head == u->tail && !u->ending)
			pthread_cond_wait(&u->moved, &u->lock);
		if (u->head == u->tail)
			break;
		b = u->queue[u->tail++ % QUEUE_MAX];
		pthread_cond_broadcast(&u->moved);
		/* After a failure the other blobs are only removed from the queue. */
		rc = u->rc;
		pthread_mutex_unlock(&u->lock);
		if (rc == 0)
			rc = u->target->store(u->target, &b.digest, b.size,
					      b.fd, &err);
		(void)close(b.fd);
		pthread_mutex_lock(&u->lock);
		if (rc < 0 && u->rc == 0) {
			u->rc = rc;
			u->err = err;
			pthread_cond_broadcast(&u->moved);
		}
	}
	pthread_mutex_unlock(&u->lock);
	return NULL;
}

int upload_new(struct upload_target *t, struct upload **ret, struct error *err)
{
	AUTO(upload) u = calloc(1, sizeof(*u));
	int rc;

	if (!u)
		return error_nomem(err);
	pthread_mutex_init(&u->lock, NULL);
	pthread_cond_init(&u->moved, NULL);
	u->target = t;
	rc = thread_start(&u->thread, upload_thread, u, err);
	if (rc < 0)
		return rc;
	*ret = steal_ptr(&u);
	return 0;
}

static void upload_join(struct upload *u)
{
	if (!u->thread.is_started)
		return;
	pthread_mutex_lock(&u->lock);
	u->ending = true;
	pthread_cond_broadcast(&u->moved);
	pthread_mutex_unlock(&u->lock);
	thread_join(&u->thread);
}

void upload_free(struct upload *u)
{
	if (!u)
		return;
	pthread_mutex_lock(&u->lock);
	if (u->rc == 0)
		u->rc = -ECANCELED;
	pthread_mutex_unlock(&u->lock);
	upload_join(u);
	pthread_cond_destroy(&u->moved);
	pthread_mutex_destroy(&u->lock);
	free(u);
}

static int upload_failure(const struct upload *u, struct error *err)
{
	if (u->rc < 0 && err)
		*err = u->err;
	return u->rc;
}

int upload_put(struct upload *u, const struct digest *d, uint64_t size, int fd,
	       struct error *err)
{
	int rc;

	pthread_mutex_lock(&u->lock);
	while (u->head - u->tail == QUEUE_MAX && u->rc == 0)
		pthread_cond_wait(&u->moved, &u->lock);
	rc = upload_failure(u, err);
	if (rc == 0)
		u->queue[u->head++ % QUEUE_MAX] = (struct upload_blob){
			.digest = *d, .size = size, .fd = fd
		};
	pthread_cond_broadcast(&u->moved);
	pthread_mutex_unlock(&u->lock);
	if (rc < 0)
		(void)close(fd);
	return rc;
}

int upload_finish(struct upload *u, struct error *err)
{
	upload_join(u);
	return upload_failure(u, err);
}
