// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/handles.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/array.h"

/* Parts of an id: bits of the kind, then of the version, then of a count. */
#define KIND_BITS 2u
#define COUNT_SHIFT 32u
#define VERSION_MASK ((UINT64_C(1) << COUNT_SHIFT) - (1u << KIND_BITS))

int handles_init(struct handles *t, struct error *err)
{
	uint32_t random[2];

	*t = (struct handles){ .all = NULL };
	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return error_set(err, errno, "random bytes: %s",
				 strerror(errno));
	/* Another range than a predecessor's. */
	t->next = random[0];
	t->random = random[1];
	(void)pthread_mutex_init(&t->lock, NULL);
	return 0;
}

void folder_list_fini(struct folder_list *l)
{
	buf_fini(&l->text);
	free(l->at);
	*l = (struct folder_list){ .n = 0 };
}

int folder_list_add(struct folder_list *l, const char *name, bool is_folder)
{
	const size_t at = l->text.len;

	if (array_grow(&l->at, l->n, &l->cap, 16) < 0 ||
	    buf_append(&l->text, &(char){ is_folder }, 1) < 0 ||
	    buf_append(&l->text, name, strlen(name) + 1) < 0)
		return -ENOMEM;
	l->at[l->n++] = at;
	return 0;
}

const char *folder_list_name(const struct folder_list *l, size_t i)
{
	return l->text.data + l->at[i] + 1;
}

bool folder_list_is_folder(const struct folder_list *l, size_t i)
{
	return l->text.data[l->at[i]];
}

static uint64_t version_bits(struct reading *r)
{
	uint64_t id = ckpt_file_bytes_id(reading_file(r));

	return (id ^ id >> COUNT_SHIFT) & VERSION_MASK;
}

/* With the lock; it is nobody's. */
static uint64_t next_id(struct handles *t, enum handle_kind kind,
			struct reading *r)
{
	uint64_t version = r ? version_bits(r) : t->random & VERSION_MASK, id;
	struct handle *other;

	do {
		id = (uint64_t)t->next++ << COUNT_SHIFT | version |
		     (uint64_t)kind;
		HASH_FIND(hh, t->all, &id, sizeof(id), other);
	} while (other);
	return id;
}

struct handle *handle_new(struct handles *t, enum handle_kind kind,
			  struct ckpt_node *n, struct reading *r)
{
	struct handle *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->kind = kind;
	h->node = n;
	h->reading = r;
	(void)pthread_mutex_lock(&t->lock);
	h->id = next_id(t, kind, r);
	HASH_ADD(hh, t->all, id, sizeof(h->id), h);
	(void)pthread_mutex_unlock(&t->lock);
	if (!hash_has_added(h)) {
		free(h);
		return NULL;
	}
	node_use(n);
	return h;
}

struct handle *handle_get(struct handles *t, uint64_t id)
{
	struct handle *h;
	AUTO_UNLOCK held = mutex_hold(&t->lock);

	HASH_FIND(hh, t->all, &id, sizeof(id), h);
	return h;
}

unsigned int handles_count_owned(struct handles *t, const struct handle *h,
				 pid_t owner)
{
	struct handle *o, *next;
	unsigned int n = 0;
	AUTO_UNLOCK held = mutex_hold(&t->lock);

	HASH_ITER(hh, t->all, o, next)
	n += o != h && o->node == h->node && o->is_owned && o->owner == owner;
	return n;
}

enum handle_kind handle_kind_of(uint64_t id)
{
	return (enum handle_kind)(id & ((1u << KIND_BITS) - 1));
}

bool handle_is_of(uint64_t id, struct reading *r)
{
	return handle_kind_of(id) == HANDLE_READER &&
	       (id & VERSION_MASK) == version_bits(r);
}

void handle_free(struct handles *t, struct handle *h)
{
	(void)pthread_mutex_lock(&t->lock);
	HASH_DEL(t->all, h);
	(void)pthread_mutex_unlock(&t->lock);
	reading_unref(h->reading);
	folder_list_fini(&h->list);
	node_put(h->node);
	free(h);
}

void handles_fini(struct handles *t)
{
	struct handle *h, *next;

	HASH_ITER(hh, t->all, h, next)
	handle_free(h);
	(void)pthread_mutex_destroy(&t->lock);
}
