// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/recent_names.h"

#include <stdlib.h>
#include <string.h>

void recent_names_init(struct recent_names *r, int64_t valid_ns)
{
	*r = (struct recent_names){ .valid_ns = valid_ns };
	(void)pthread_mutex_init(&r->lock, NULL);
}

void recent_names_fini(struct recent_names *r)
{
	for (size_t i = 0; i < RECENT_NAMES_MAX; i++)
		free(r->names[i].path);
	(void)pthread_mutex_destroy(&r->lock);
}

/* With the lock. */
static struct recent_name *find_name(struct recent_names *r, pid_t thread,
				     const char *path)
{
	for (size_t i = 0; i < RECENT_NAMES_MAX; i++) {
		struct recent_name *n = &r->names[i];

		if (n->path && n->thread == thread &&
		    strcmp(n->path, path) == 0)
			return n;
	}
	return NULL;
}

/* Find a free place, or the oldest. Called with the lock held. */
static struct recent_name *find_free_or_oldest_name(struct recent_names *r)
{
	struct recent_name *best = &r->names[0];

	for (size_t i = 1; i < RECENT_NAMES_MAX && best->path; i++)
		if (!r->names[i].path || r->names[i].at_ns < best->at_ns)
			best = &r->names[i];
	return best;
}

void recent_names_add(struct recent_names *r, pid_t thread, const char *path,
		      int64_t now_ns)
{
	AUTO_UNLOCK held = mutex_hold(&r->lock);
	struct recent_name *n = find_name(r, thread, path);

	if (!n) {
		n = find_free_or_oldest_name(r);
		free(n->path);
		*n = (struct recent_name){ .path = strdup(path),
					   .thread = thread };
	}
	n->at_ns = now_ns;
}

static bool look_up(struct recent_names *r, pid_t thread, const char *path,
		    int64_t now_ns, bool is_taken)
{
	AUTO_UNLOCK held = mutex_hold(&r->lock);
	struct recent_name *n = find_name(r, thread, path);
	const bool is_known = n && now_ns - n->at_ns < r->valid_ns;

	if (n && is_taken)
		free(steal_ptr(&n->path));
	return is_known;
}

bool recent_names_has(struct recent_names *r, pid_t thread, const char *path,
		      int64_t now_ns)
{
	return look_up(r, thread, path, now_ns, false);
}

bool recent_names_take(struct recent_names *r, pid_t thread, const char *path,
		       int64_t now_ns)
{
	return look_up(r, thread, path, now_ns, true);
}
