// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/handles.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/array.h"

/* Layout of an id: bits of the kind, then of the version, then a count. */
#define KIND_BITS 2u
#define COUNT_SHIFT 32u
#define VERSION_MASK ((UINT64_C(1) << COUNT_SHIFT) - (1u << KIND_BITS))

int handles_init(struct handles *t, struct error *err)
{
	uint32_t random[2];

	*t = (struct handles){ .next = 0 };
	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return error_errno(err, errno, "random bytes");
	/* Begin with a random number, so that ids of the previous process are not reused. */
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

/* Find a handle by its id. Called with the lock held. */
static struct handle *find_handle(struct handles *t, uint64_t id)
{
	struct handle *h;

	LIST_FOREACH(h, &t->all[(id >> COUNT_SHIFT) % HANDLE_BUCKETS], link)
	if (h->id == id)
		return h;
	return NULL;
}

struct handle *handle_new(enum handle_kind kind)
{
	struct handle *h = calloc(1, sizeof(*h));

	if (h)
		h->kind = kind;
	return h;
}

void handle_add(struct handles *t, struct handle *h, struct ckpt_node *n)
{
	const uint64_t version = h->reading ? version_bits(h->reading)
					    : t->random & VERSION_MASK;

	h->node = n;
	n->may_have_pages = true;
	node_use(n);
	AUTO_UNLOCK held = mutex_hold(&t->lock);

	do
		h->id = (uint64_t)t->next++ << COUNT_SHIFT | version |
			(uint64_t)h->kind;
	while (find_handle(t, h->id));
	LIST_INSERT_HEAD(&t->all[(h->id >> COUNT_SHIFT) % HANDLE_BUCKETS], h,
			 link);
}

struct handle *handle_get(struct handles *t, uint64_t id)
{
	AUTO_UNLOCK held = mutex_hold(&t->lock);

	return find_handle(t, id);
}

unsigned int handles_count_owned(struct handles *t, const struct handle *h,
				 pid_t owner)
{
	AUTO_UNLOCK held = mutex_hold(&t->lock);
	const struct handle *o;
	unsigned int n = 0;

	for (size_t i = 0; i < HANDLE_BUCKETS; i++)
		LIST_FOREACH(o, &t->all[i], link)
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
	LIST_REMOVE(h, link);
	(void)pthread_mutex_unlock(&t->lock);
	reading_unref(h->reading);
	folder_list_fini(&h->list);
	node_put(h->node);
	free(h);
}

void handles_fini(struct handles *t)
{
	for (size_t i = 0; i < HANDLE_BUCKETS; i++)
		while (!LIST_EMPTY(&t->all[i]))
			handle_free(t, LIST_FIRST(&t->all[i]));
	(void)pthread_mutex_destroy(&t->lock);
}
