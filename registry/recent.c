// SPDX-License-Identifier: Apache-2.0
#include "registry/recent.h"

#include <pthread.h>
#include <string.h>

#include "common/hash.h"

/* counters of changes, by the hash of an image or repository */
#define AGES 1024

struct recent_answer {
	char *key, *image, *repo;
	int64_t until;
	unsigned char value[RECENT_VALUE_MAX];
	UT_hash_handle hh;
};

struct recent {
	pthread_mutex_t lock; /* protects the members below */
	struct recent_answer *answers;
	uint64_t age; /* grows when all answers are forgotten */
	/* each grows when answers of an image or repository with this hash are forgotten */
	uint64_t ages[AGES];
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

/* The counter of an image or repository. NULL and "" have none. */
static uint64_t *find_age_of_name(struct recent *r, const char *name)
{
	unsigned int hash;

	if (!name || !*name)
		return NULL;
	HASH_JEN(name, strlen(name), hash);
	return &r->ages[hash % AGES];
}

/* A sum of counters, which grows whenever an answer to the key may have changed. */
static uint64_t age_of_key(struct recent *r, const struct recent_key *key)
{
	const uint64_t *image = find_age_of_name(r, key->image);
	const uint64_t *repo = find_age_of_name(r, key->repo);

	return r->age + (image ? *image : 0) + (repo ? *repo : 0);
}

static void answer_free(struct recent_answer *a)
{
	free(a->key);
	free(a->image);
	free(a->repo);
	free(a);
}

static void free_answer(struct recent *r, struct recent_answer *a)
{
	HASH_DEL(r->answers, a);
	answer_free(a);
}

static void clear_answers(struct recent *r)
{
	struct recent_answer *a, *next;

	HASH_ITER(hh, r->answers, a, next)
	free_answer(r, a);
}

void recent_free(struct recent *r)
{
	if (!r)
		return;
	clear_answers(r);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

bool recent_get(struct recent *r, const struct recent_key *key, int64_t now_ns,
		void *value, size_t size, uint64_t *ret_age)
{
	struct recent_answer *a;
	bool found;

	pthread_mutex_lock(&r->lock);
	*ret_age = age_of_key(r, key);
	HASH_FIND_STR(r->answers, key->text, a);
	found = a && a->until > now_ns;
	if (found)
		memcpy(value, a->value, size);
	pthread_mutex_unlock(&r->lock);
	return found;
}

/* Returns NULL when memory is short: then the database is asked again. */
static struct recent_answer *add_answer(struct recent *r,
					const struct recent_key *key)
{
	struct recent_answer *a;

	if (HASH_COUNT(r->answers) >= RECENT_MAX)
		clear_answers(r);
	a = calloc(1, sizeof(*a));
	if (!a)
		return NULL;
	a->key = strdup(key->text);
	a->image = strdup(key->image);
	a->repo = strdup(key->repo);
	if (a->key && a->image && a->repo) {
		HASH_ADD_KEYPTR(hh, r->answers, a->key, strlen(a->key), a);
		if (hash_has_added(a))
			return a;
	}
	answer_free(a);
	return NULL;
}

void recent_put(struct recent *r, const struct recent_key *key, int64_t now_ns,
		const void *value, size_t size, uint64_t asked_at)
{
	struct recent_answer *a;

	pthread_mutex_lock(&r->lock);
	if (age_of_key(r, key) == asked_at) {
		HASH_FIND_STR(r->answers, key->text, a);
		if (!a)
			a = add_answer(r, key);
		if (a) {
			memcpy(a->value, value, size);
			a->until = now_ns + RECENT_NS;
		}
	}
	pthread_mutex_unlock(&r->lock);
}

static bool name_equals_if_set(const char *name, const char *of)
{
	return of && *of && strcmp(name, of) == 0;
}

void recent_forget(struct recent *r, const char *image, const char *repo)
{
	uint64_t *ages[2] = { find_age_of_name(r, image),
			      find_age_of_name(r, repo) };
	struct recent_answer *a, *next;

	pthread_mutex_lock(&r->lock);
	if (!image && !repo) {
		r->age++;
		clear_answers(r);
	}
	for (size_t i = 0; i < 2; i++)
		if (ages[i])
			++*ages[i];
	HASH_ITER(hh, r->answers, a, next)
	{
		if (name_equals_if_set(a->image, image) ||
		    name_equals_if_set(a->repo, repo))
			free_answer(r, a);
	}
	pthread_mutex_unlock(&r->lock);
}
