// SPDX-License-Identifier: Apache-2.0
#include "registry/stage_quota.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"

#define HOUR_S 3600

struct quota_node {
	UT_hash_handle hh;
	int64_t since; /* when the counted hour began */
	uint64_t n;
	char name[];
};

struct stage_quota {
	uint64_t most;
	pthread_mutex_t lock; /* protects `nodes` */
	struct quota_node *nodes;
};

int stage_quota_new(uint64_t most, struct stage_quota **ret, struct error *err)
{
	struct stage_quota *q = calloc(1, sizeof(*q));

	if (!q)
		return error_nomem(err);
	q->most = most;
	(void)pthread_mutex_init(&q->lock, NULL);
	*ret = q;
	return 0;
}

static void forget_node(struct stage_quota *q, struct quota_node *e)
{
	HASH_DEL(q->nodes, e);
	free(e);
}

void stage_quota_free(struct stage_quota *q)
{
	struct quota_node *e, *next;

	if (!q)
		return;
	HASH_ITER(hh, q->nodes, e, next)
	forget_node(q, e);
	(void)pthread_mutex_destroy(&q->lock);
	free(q);
}

/* Has the counted hour ended? True also if the clock was set back. */
static bool quota_hour_is_over(const struct quota_node *e, int64_t now)
{
	return now < e->since || now - e->since >= HOUR_S;
}

int stage_quota_check(struct stage_quota *q, const char *node, int64_t now,
		      struct error *err)
{
	const struct quota_node *e;
	bool is_full;

	(void)pthread_mutex_lock(&q->lock);
	HASH_FIND_STR(q->nodes, node, e);
	is_full = e && !quota_hour_is_over(e, now) && e->n >= q->most;
	(void)pthread_mutex_unlock(&q->lock);
	return is_full ? error_set(err, EDQUOT,
				   "node '%s' has sent too many events within "
				   "the hour",
				   node)
		       : 0;
}

static void forget_old(struct stage_quota *q, int64_t now)
{
	struct quota_node *e, *next;

	HASH_ITER(hh, q->nodes, e, next)
	if (quota_hour_is_over(e, now))
		forget_node(q, e);
}

/* Add a node; NULL: too many nodes, or memory is short. */
static struct quota_node *add_node(struct stage_quota *q, const char *node,
				   int64_t now)
{
	size_t len = strlen(node);
	struct quota_node *e;

	if (HASH_COUNT(q->nodes) >= STAGE_QUOTA_NODES_MAX)
		forget_old(q, now);
	if (HASH_COUNT(q->nodes) >= STAGE_QUOTA_NODES_MAX)
		return NULL;
	e = calloc(1, sizeof(*e) + len + 1);
	if (!e)
		return NULL;
	memcpy(e->name, node, len + 1);
	HASH_ADD_STR(q->nodes, name, e);
	if (hash_has_added(e))
		return e;
	free(e);
	return NULL;
}

void stage_quota_add(struct stage_quota *q, const char *node, uint64_t n,
		     int64_t now)
{
	struct quota_node *e;

	if (!n)
		return;
	(void)pthread_mutex_lock(&q->lock);
	HASH_FIND_STR(q->nodes, node, e);
	if (!e)
		e = add_node(q, node, now);
	if (e && (!e->n || quota_hour_is_over(e, now))) {
		e->since = now;
		e->n = 0;
	}
	if (e)
		e->n += n;
	(void)pthread_mutex_unlock(&q->lock);
}
