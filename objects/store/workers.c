// SPDX-License-Identifier: Apache-2.0
#include "objects/store/workers.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "common/thread.h"

struct workers {
	pthread_mutex_t lock; /* protects the rest */
	pthread_cond_t more;  /* a job, or the end */
	struct worker_job *first, **last;
	unsigned int max, n_threads, n_idle, n_queued;
	bool is_ending;
	struct thread threads[];
};

static void *worker_main(void *arg)
{
	struct workers *w = arg;

	(void)pthread_mutex_lock(&w->lock);
	for (;;) {
		struct worker_job *j = w->first;

		if (!j && w->is_ending)
			break;
		if (!j) {
			w->n_idle++;
			(void)pthread_cond_wait(&w->more, &w->lock);
			w->n_idle--;
			continue;
		}
		w->first = j->next;
		if (!w->first)
			w->last = &w->first;
		w->n_queued--;
		(void)pthread_mutex_unlock(&w->lock);
		j->run(j);
		(void)pthread_mutex_lock(&w->lock);
	}
	(void)pthread_mutex_unlock(&w->lock);
	return NULL;
}

int workers_new(unsigned int max, struct workers **ret, struct error *err)
{
	struct workers *w = calloc(1, sizeof(*w) + max * sizeof(struct thread));

	if (!w)
		return error_nomem(err);
	w->max = max;
	w->last = &w->first;
	(void)pthread_mutex_init(&w->lock, NULL);
	(void)pthread_cond_init(&w->more, NULL);
	*ret = w;
	return 0;
}

void workers_free(struct workers *w)
{
	if (!w)
		return;
	(void)pthread_mutex_lock(&w->lock);
	w->is_ending = true;
	(void)pthread_cond_broadcast(&w->more);
	(void)pthread_mutex_unlock(&w->lock);
	for (unsigned int i = 0; i < w->n_threads; i++)
		thread_join(&w->threads[i]);
	(void)pthread_cond_destroy(&w->more);
	(void)pthread_mutex_destroy(&w->lock);
	free(w);
}

int workers_submit(struct workers *w, struct worker_job *j, bool first,
		   struct error *err)
{
	int rc = 0;

	(void)pthread_mutex_lock(&w->lock);
	if (w->n_queued >= w->n_idle && w->n_threads < w->max) {
		rc = thread_start(&w->threads[w->n_threads], worker_main, w,
				  err);
		w->n_threads += rc == 0;
	}
	if (w->n_threads == 0) {
		(void)pthread_mutex_unlock(&w->lock);
		return rc;
	}
	if (first) {
		j->next = w->first;
		w->first = j;
		if (!j->next)
			w->last = &j->next;
	} else {
		j->next = NULL;
		*w->last = j;
		w->last = &j->next;
	}
	w->n_queued++;
	(void)pthread_cond_signal(&w->more);
	(void)pthread_mutex_unlock(&w->lock);
	return 0;
}
