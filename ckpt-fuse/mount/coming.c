// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/coming.h"

#include <stdlib.h>
#include <string.h>

void coming_init(struct coming_writers *c)
{
	*c = (struct coming_writers){ .next = 0 };
	(void)pthread_mutex_init(&c->lock, NULL);
}

void coming_fini(struct coming_writers *c)
{
	for (unsigned int i = 0; i < COMING_MAX; i++)
		free(c->names[i].path);
	(void)pthread_mutex_destroy(&c->lock);
}

/* With the lock. */
static struct coming_name *find(struct coming_writers *c, const char *path)
{
	for (unsigned int i = 0; i < COMING_MAX; i++)
		if (c->names[i].path && strcmp(c->names[i].path, path) == 0)
			return &c->names[i];
	return NULL;
}

/* With the lock: the next one that nobody comes to any more, or the oldest. */
static struct coming_name *find_free(struct coming_writers *c, int64_t now_ns)
{
	for (unsigned int i = 0; i < COMING_MAX; i++)
		if (!c->names[i].path || now_ns >= c->names[i].until_ns)
			return &c->names[i];
	return &c->names[c->next++ % COMING_MAX];
}

void coming_add(struct coming_writers *c, const char *path, int64_t now_ns)
{
	struct coming_name *n;

	(void)pthread_mutex_lock(&c->lock);
	n = find(c, path);
	if (!n) {
		n = find_free(c, now_ns);
		free(n->path);
		n->path = strdup(path);
	}
	n->until_ns = now_ns + COMING_NS;
	(void)pthread_mutex_unlock(&c->lock);
}

bool coming_has(struct coming_writers *c, const char *path, int64_t now_ns)
{
	const struct coming_name *n;
	bool has;

	(void)pthread_mutex_lock(&c->lock);
	n = find(c, path);
	has = n && now_ns < n->until_ns;
	(void)pthread_mutex_unlock(&c->lock);
	return has;
}

void coming_drop(struct coming_writers *c, const char *path)
{
	struct coming_name *n;

	(void)pthread_mutex_lock(&c->lock);
	n = find(c, path);
	if (n) {
		free(n->path);
		n->path = NULL;
	}
	(void)pthread_mutex_unlock(&c->lock);
}
