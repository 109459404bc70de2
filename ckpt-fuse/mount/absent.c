// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/absent.h"

#include <stdlib.h>
#include <string.h>

void absent_init(struct absent_names *a)
{
	*a = (struct absent_names){ .names[0].path = NULL };
	(void)pthread_mutex_init(&a->lock, NULL);
}

void absent_fini(struct absent_names *a)
{
	for (unsigned int i = 0; i < ABSENT_MAX; i++)
		free(a->names[i].path);
	(void)pthread_mutex_destroy(&a->lock);
}

static struct absent_name *place_of(struct absent_names *a, pid_t thread)
{
	return &a->names[(unsigned int)thread % ABSENT_MAX];
}

static void set(struct absent_name *n, pid_t thread, char *path,
		int64_t asked_ns)
{
	free(n->path);
	*n = (struct absent_name){ .thread = thread,
				   .path = path,
				   .asked_ns = asked_ns };
}

void absent_note(struct absent_names *a, pid_t thread, const char *path,
		 int64_t asked_ns)
{
	struct absent_name *n = place_of(a, thread);

	if (thread <= 0)
		return;
	(void)pthread_mutex_lock(&a->lock);
	if (path || n->thread == thread)
		set(n, thread, path ? strdup(path) : NULL, asked_ns);
	(void)pthread_mutex_unlock(&a->lock);
}

bool absent_take(struct absent_names *a, pid_t thread, const char *path,
		 int64_t now_ns)
{
	struct absent_name *n = place_of(a, thread);
	bool is_so;

	(void)pthread_mutex_lock(&a->lock);
	is_so = thread > 0 && n->thread == thread && n->path &&
		strcmp(n->path, path) == 0 && now_ns - n->asked_ns < ABSENT_NS;
	if (is_so)
		set(n, 0, NULL, 0);
	(void)pthread_mutex_unlock(&a->lock);
	return is_so;
}
