// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/datapath/images.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/mutex.h"

struct image_table {
	pthread_mutex_t lock; /* protects all below, and the entries' refs */
	pthread_cond_t idle;  /* signalled when an entry's refs became 0 */
	struct image_entry **entries; /* sorted by index */
	size_t n, cap;
};

struct image_table *image_table_new(void)
{
	struct image_table *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->idle, NULL);
	return t;
}

void image_table_free(struct image_table *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n; i++)
		free(t->entries[i]);
	free(t->entries);
	pthread_cond_destroy(&t->idle);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

/* Position of `index` in the list, or where to insert it. */
static size_t find_image(const struct image_table *t, uint64_t index)
{
	size_t lo = 0, hi = t->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (t->entries[mid]->index < index)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static bool holds_image(const struct image_table *t, size_t i, uint64_t index)
{
	return i < t->n && t->entries[i]->index == index;
}

static int make_room(struct image_table *t)
{
	size_t cap = t->cap ? t->cap * 2 : 16;
	struct image_entry **p;

	if (t->n < t->cap)
		return 0;
	p = realloc(t->entries, cap * sizeof(struct image_entry *));
	if (!p)
		return -ENOMEM;
	t->entries = p;
	t->cap = cap;
	return 0;
}

static int add_locked(struct image_table *t, struct image_entry *e,
		      struct error *err)
{
	size_t i = find_image(t, e->index);

	if (holds_image(t, i, e->index)) {
		if (t->entries[i]->img == e->img)
			return error_set(err, EALREADY,
					 "image '%s' is served already",
					 e->img->name);
		return error_set(err, EEXIST,
				 "images '%s' and '%s' have the same index",
				 e->img->name, t->entries[i]->img->name);
	}
	if (make_room(t) < 0)
		return error_nomem(err);
	memmove(t->entries + i + 1, t->entries + i,
		(t->n - i) * sizeof(struct image_entry *));
	t->entries[i] = e;
	t->n++;
	return 0;
}

int image_table_add(struct image_table *t, struct datapath_image *img,
		    void *priv, struct error *err)
{
	AUTO_FREE struct image_entry *e = NULL;
	int rc;

	if (img->index > IMAGE_INDEX_MAX)
		return error_set(err, EINVAL, "image '%s' has index %llu",
				 img->name, (unsigned long long)img->index);
	e = calloc(1, sizeof(*e));
	if (!e)
		return error_nomem(err);
	e->img = img;
	e->priv = priv;
	e->index = img->index;
	pthread_mutex_lock(&t->lock);
	rc = add_locked(t, e, err);
	if (rc == 0)
		(void)steal_ptr(&e);
	pthread_mutex_unlock(&t->lock);
	return rc;
}

int image_table_remove(struct image_table *t, uint64_t index, void **ret_priv)
{
	AUTO_FREE struct image_entry *e = NULL;
	size_t i;

	pthread_mutex_lock(&t->lock);
	i = find_image(t, index);
	if (holds_image(t, i, index)) {
		e = t->entries[i];
		t->n--;
		memmove(t->entries + i, t->entries + i + 1,
			(t->n - i) * sizeof(struct image_entry *));
		while (e->refs)
			pthread_cond_wait(&t->idle, &t->lock);
	}
	pthread_mutex_unlock(&t->lock);
	if (!e)
		return -ENOENT;
	if (ret_priv)
		*ret_priv = e->priv;
	return 0;
}

struct image_entry *image_get(struct image_table *t, uint64_t index)
{
	struct image_entry *e = NULL;
	size_t i;

	pthread_mutex_lock(&t->lock);
	i = find_image(t, index);
	if (holds_image(t, i, index)) {
		e = t->entries[i];
		e->refs++;
	}
	pthread_mutex_unlock(&t->lock);
	return e;
}

void image_put(struct image_table *t, struct image_entry *e)
{
	pthread_mutex_lock(&t->lock);
	if (--e->refs == 0)
		pthread_cond_broadcast(&t->idle);
	pthread_mutex_unlock(&t->lock);
}

size_t image_table_count(struct image_table *t)
{
	AUTO_UNLOCK held = mutex_hold(&t->lock);

	return t->n;
}

int image_index_parse(const char *name, uint64_t *ret)
{
	uint64_t v = 0;

	if (!*name || (name[0] == '0' && name[1]))
		return -EINVAL;
	for (; *name; name++) {
		if (*name < '0' || *name > '9')
			return -EINVAL;
		v = v * 10 + (uint64_t)(*name - '0');
		if (v > IMAGE_INDEX_MAX)
			return -EINVAL;
	}
	*ret = v;
	return 0;
}
