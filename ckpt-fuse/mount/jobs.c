// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/jobs.h"

#include <pthread.h>

#include "common/clock.h"
#include "common/thread.h"

struct jobs {
	pthread_mutex_t lock; /* the rest */
	pthread_cond_t more;
	STAILQ_HEAD(, job) queue;
	bool is_ending;
	struct thread threads[JOBS_THREADS_MAX];
	unsigned int n_threads;
	uint64_t waited_ns;
};

static void *jobs_main(void *arg)
{
	struct jobs *j = arg;

	(void)pthread_mutex_lock(&j->lock);
	for (;;) {
		struct job *job = STAILQ_FIRST(&j->queue);

		if (job) {
			STAILQ_REMOVE_HEAD(&j->queue, link);
			j->waited_ns +=
				(uint64_t)(clock_now_ns() - job->added_ns);
			(void)pthread_mutex_unlock(&j->lock);
			job->run(job);
			(void)pthread_mutex_lock(&j->lock);
		} else if (j->is_ending) {
			break;
		} else {
			(void)pthread_cond_wait(&j->more, &j->lock);
		}
	}
	(void)pthread_mutex_unlock(&j->lock);
	return NULL;
}

int jobs_new(unsigned int threads, struct jobs **ret, struct error *err)
{
	struct jobs *j = calloc(1, sizeof(*j));
	int rc = 0;

	if (!j)
		return error_nomem(err);
	(void)pthread_mutex_init(&j->lock, NULL);
	(void)pthread_cond_init(&j->more, NULL);
	STAILQ_INIT(&j->queue);
	for (; rc == 0 && j->n_threads < threads; j->n_threads += rc == 0)
		rc = thread_start(&j->threads[j->n_threads], jobs_main, j, err);
	if (rc < 0)
		jobs_free(j);
	else
		*ret = j;
	return rc;
}

void jobs_free(struct jobs *j)
{
	if (!j)
		return;
	(void)pthread_mutex_lock(&j->lock);
	j->is_ending = true;
	(void)pthread_cond_broadcast(&j->more);
	(void)pthread_mutex_unlock(&j->lock);
	while (j->n_threads)
		thread_join(&j->threads[--j->n_threads]);
	(void)pthread_cond_destroy(&j->more);
	(void)pthread_mutex_destroy(&j->lock);
	free(j);
}

void jobs_add(struct jobs *j, struct job *job)
{
	(void)pthread_mutex_lock(&j->lock);
	job->added_ns = clock_now_ns();
	STAILQ_INSERT_TAIL(&j->queue, job, link);
	(void)pthread_cond_signal(&j->more);
	(void)pthread_mutex_unlock(&j->lock);
}

uint64_t jobs_waited_ns(struct jobs *j)
{
	uint64_t ns;

	(void)pthread_mutex_lock(&j->lock);
	ns = j->waited_ns;
	(void)pthread_mutex_unlock(&j->lock);
	return ns;
}
