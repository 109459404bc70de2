// SPDX-License-Identifier: Apache-2.0
#include "registry/recent.h"

#include <pthread.h>
#include <string.h>

#include "common/hash.h"

struct answer {
	char *key;
	int64_t until;
	unsigned char value[RECENT_VALUE_MAX];
	UT_hash_handle hh;
};

struct recent {
	pthread_mutex_t lock; /* protects what follows */
	struct answer *answers;
	uint64_t age; /* grows when all is forgotten */
};

int recent_new(struct recent **ret, struct error *err)
{
	struct recent *r = calloc(1, sizeof(*r));

	if (!r)
		return error_nomem(err);
	pthread_mutex_init(&r->lock, NULL);
	*ret = r;
	return 0;
}

static void free_answer(struct recent *r, struct answer *a)
{
	HASH_DEL(r->answers, a);
	free(a->key);
	free(a);
}

static void clear(struct recent *r)
{
	struct answer *a, *next;

	HASH_ITER(hh, r->answers, a, next)
	free_answer(r, a);
}

void recent_free(struct recent *r)
{
	if (!r)
		return;
	clear(r);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

bool recent_get(struct recent *r, const char *key, int64_t now_ns, void *value,
		size_t size, uint64_t *ret_age)
{
	struct answer *a;
	bool found;

	pthread_mutex_lock(&r->lock);
	*ret_age = r->age;
	HASH_FIND_STR(r->answers, key, a);
	found = a && a->until > now_ns;
	if (found)
		memcpy(value, a->value, size);
	pthread_mutex_unlock(&r->lock);
	return found;
}

/* Memory being short only means that the database is asked again. */
static struct answer *add(struct recent *r, const char *key)
{
	struct answer *a;

	if (HASH_COUNT(r->answers) >= RECENT_MAX)
		clear(r);
	a = calloc(1, sizeof(*a));
	if (!a)
		return NULL;
	a->key = strdup(key);
	if (!a->key) {
		free(a);
		return NULL;
	}
	HASH_ADD_KEYPTR(hh, r->answers, a->key, strlen(a->key), a);
	if (hash_has_added(a))
		return a;
	free(a->key);
	free(a);
	return NULL;
}

void recent_put(struct recent *r, const char *key, int64_t now_ns,
		const void *value, size_t size, uint64_t age)
{
	struct answer *a;

	pthread_mutex_lock(&r->lock);
	if (r->age == age) {
		HASH_FIND_STR(r->answers, key, a);
		if (!a)
			a = add(r, key);
		if (a) {
			memcpy(a->value, value, size);
			a->until = now_ns + RECENT_NS;
		}
	}
	pthread_mutex_unlock(&r->lock);
}

void recent_forget(struct recent *r)
{
	pthread_mutex_lock(&r->lock);
	r->age++;
	clear(r);
	pthread_mutex_unlock(&r->lock);
}
