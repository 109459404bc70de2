// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/manifests.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/buf.h"

/* All that are asked for at once. */
struct manifests_asked {
	const struct manifests *by;
	const char *folder;
	pthread_mutex_t lock; /* the number */
	pthread_cond_t done;
	size_t n_left;
};

struct manifest_question {
	struct work work;
	struct manifests_asked *all;
	struct listed_striped file;
};

static void ask_manifest(struct manifest_question *q)
{
	const struct manifests *by = q->all->by;
	struct error ignored = ERROR_INIT;
	int64_t asked_ns = clock_now_ns();
	AUTO_BUF path = BUF_INIT;
	struct ckpt_stat st;
	int rc = buf_printf(&path, "%s%s%s", q->all->folder,
			    *q->all->folder ? "/" : "", q->file.name);

	if (rc == 0)
		rc = ckpt_stat(by->store, path.data, &st, &ignored);
	if (rc == 0 && st.is_striped)
		listed_tell(by->listed, q->all->folder, &q->file, &st,
			    asked_ns);
}

static void manifest_question_run(struct work *work)
{
	struct manifest_question *q =
		container_of(work, struct manifest_question, work);
	struct manifests_asked *all = q->all;

	ask_manifest(q);
	/* The last one to have the lock is the last one to look at it. */
	(void)pthread_mutex_lock(&all->lock);
	if (!--all->n_left)
		(void)pthread_cond_signal(&all->done);
	(void)pthread_mutex_unlock(&all->lock);
}

static void ask_all(struct manifests_asked *all, struct manifest_question *q)
{
	size_t n = all->n_left;

	(void)pthread_mutex_init(&all->lock, NULL);
	(void)pthread_cond_init(&all->done, NULL);
	for (size_t i = 0; i < n; i++) {
		q[i].work.run = manifest_question_run;
		q[i].all = all;
		(void)!pool_submit(all->by->pool, &q[i].work);
	}
	(void)pthread_mutex_lock(&all->lock);
	while (all->n_left)
		(void)pthread_cond_wait(&all->done, &all->lock);
	(void)pthread_mutex_unlock(&all->lock);
	(void)pthread_cond_destroy(&all->done);
	(void)pthread_mutex_destroy(&all->lock);
}

void manifests_ask(const struct manifests *a, const char *folder,
		   const char *from, size_t most)
{
	struct manifests_asked all = { .by = a, .folder = folder };
	AUTO_FREE struct listed_striped *files = calloc(most, sizeof(*files));
	AUTO_FREE struct manifest_question *q = calloc(most, sizeof(*q));
	size_t n;

	if (!files || !q)
		return;
	n = listed_striped(a->listed, folder, from, clock_now_ns(), files,
			   most);
	all.n_left = n;
	for (size_t i = 0; i < n; i++)
		q[i].file = files[i];
	if (n)
		ask_all(&all, q);
	for (size_t i = 0; i < n; i++)
		free(files[i].name);
}
