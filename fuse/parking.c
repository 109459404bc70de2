// SPDX-License-Identifier: Apache-2.0
#include "fuse/parking_priv.h"

#include <linux/fuse.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Limit of waiting requests, each less than 1 KiB. Further ones are not parked, and so are
 * answered with an error. */
#define PARKED_MAX 65536u

struct parked {
	struct parked *next;
	size_t len;
	char data[];
};

struct parking {
	parking_early_fn *is_early;
	void *owner; /* first argument of is_early(): session_config.owner */
	atomic_bool open;
	/* Protects the list. Also held during is_early(), so that a node which becomes known
	 * at that moment is not missed. */
	pthread_mutex_t lock;
	struct parked *first, **last;
	unsigned int n;
};

struct parking *parking_new(parking_early_fn *is_early, void *owner)
{
	struct parking *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->is_early = is_early;
	p->owner = owner;
	p->last = &p->first;
	pthread_mutex_init(&p->lock, NULL);
	return p;
}

void parking_free(struct parking *p)
{
	if (!p)
		return;
	while (p->first) {
		struct parked *r = p->first;

		p->first = r->next;
		free(r);
	}
	pthread_mutex_destroy(&p->lock);
	free(p);
}

void parking_open(struct parking *p)
{
	atomic_store(&p->open, p->is_early != NULL);
}

/* Must the request wait? Never if it is about no node, or needs no answer. */
static bool is_early(struct parking *p, const char *request)
{
	const struct fuse_in_header *in = (const void *)request;

	switch (in->opcode) {
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
	case FUSE_DESTROY:
		return false;
	default:
		return p->is_early(p->owner, in->nodeid,
				   in->opcode == FUSE_LOOKUP
					   ? request + sizeof(*in)
					   : NULL);
	}
}

static bool park_request_locked(struct parking *p, const char *request,
				size_t len)
{
	struct parked *r;

	if (!atomic_load(&p->open) || p->n == PARKED_MAX ||
	    !is_early(p, request))
		return false;
	r = malloc(sizeof(*r) + len + 1);
	if (!r)
		return false;
	r->next = NULL;
	r->len = len;
	memcpy(r->data, request, len + 1);
	*p->last = r;
	p->last = &r->next;
	p->n++;
	return true;
}

bool parking_take(struct parking *p, const char *request, size_t len)
{
	bool taken;

	if (!atomic_load_explicit(&p->open, memory_order_relaxed))
		return false;
	pthread_mutex_lock(&p->lock);
	taken = park_request_locked(p, request, len);
	pthread_mutex_unlock(&p->lock);
	return taken;
}

/* Take the requests that may go on off the list. */
static struct parked *parking_split(struct parking *p, bool all)
{
	struct parked *go = NULL, **go_last = &go, **at = &p->first;

	pthread_mutex_lock(&p->lock);
	if (all)
		atomic_store(&p->open, false);
	while (*at) {
		struct parked *r = *at;

		if (!all && is_early(p, r->data)) {
			at = &r->next;
			continue;
		}
		*at = r->next;
		r->next = NULL;
		*go_last = r;
		go_last = &r->next;
		p->n--;
	}
	p->last = at;
	pthread_mutex_unlock(&p->lock);
	return go;
}

void parking_release(struct parking *p, bool all,
		     void (*process)(void *arg, void *request, size_t len),
		     void *arg)
{
	struct parked *r = parking_split(p, all);

	while (r) {
		struct parked *next = r->next;

		process(arg, r->data, r->len);
		free(r);
		r = next;
	}
}
