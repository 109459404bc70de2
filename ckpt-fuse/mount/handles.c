// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/handles.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define KINDS 4u

int handles_init(struct handles *t, struct error *err)
{
	uint32_t random;

	*t = (struct handles){ .all = NULL };
	if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return error_set(err, errno, "random bytes: %s",
				 strerror(errno));
	/* Another range than a predecessor's. */
	t->next = ((uint64_t)random << 28) + 1;
	(void)pthread_mutex_init(&t->lock, NULL);
	return 0;
}

void folder_list_fini(struct folder_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->entries[i].name);
	free(l->entries);
	*l = (struct folder_list){ .n = 0 };
}

int folder_list_add(struct folder_list *l, const char *name, bool is_folder)
{
	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 16;
		struct folder_entry *more =
			realloc(l->entries, cap * sizeof(*more));

		if (!more)
			return -ENOMEM;
		l->entries = more;
		l->cap = cap;
	}
	l->entries[l->n] = (struct folder_entry){ .name = strdup(name),
						  .is_folder = is_folder };
	return l->entries[l->n].name ? (l->n++, 0) : -ENOMEM;
}

struct handle *handle_new(struct handles *t, enum handle_kind kind,
			  struct ckpt_node *n, struct reading *r)
{
	struct handle *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	(void)pthread_mutex_lock(&t->lock);
	h->id = t->next++ * KINDS + kind;
	HASH_ADD(hh, t->all, id, sizeof(h->id), h);
	(void)pthread_mutex_unlock(&t->lock);
	if (!hash_has_added(h)) {
		free(h);
		return NULL;
	}
	h->kind = kind;
	h->node = n;
	h->reading = r;
	return h;
}

struct handle *handle_get(struct handles *t, uint64_t id)
{
	struct handle *h;

	(void)pthread_mutex_lock(&t->lock);
	HASH_FIND(hh, t->all, &id, sizeof(id), h);
	(void)pthread_mutex_unlock(&t->lock);
	return h;
}

enum handle_kind handle_kind_of(uint64_t id)
{
	return (enum handle_kind)(id % KINDS);
}

void handle_free(struct handles *t, struct nodes *nodes, struct handle *h)
{
	(void)pthread_mutex_lock(&t->lock);
	HASH_DEL(t->all, h);
	(void)pthread_mutex_unlock(&t->lock);
	reading_unref(h->reading);
	folder_list_fini(&h->list);
	node_put(nodes, h->node);
	free(h);
}

void handles_fini(struct handles *t, struct nodes *nodes)
{
	struct handle *h, *next;

	HASH_ITER(hh, t->all, h, next)
	handle_free(t, nodes, h);
	(void)pthread_mutex_destroy(&t->lock);
}
