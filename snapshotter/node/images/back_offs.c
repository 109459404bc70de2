// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/images/back_offs.h"

#include <string.h>

void back_offs_init(struct back_offs *b)
{
	memset(b, 0, sizeof(*b));
	(void)pthread_mutex_init(&b->lock, NULL);
}

void back_offs_fini(struct back_offs *b)
{
	(void)pthread_mutex_destroy(&b->lock);
}

/* The lock is held.  NULL: the host has no entry. */
static struct back_off_host *find_host(struct back_offs *b, const char *host)
{
	for (size_t i = 0; i < BACK_OFFS_HOSTS_MAX; i++)
		if (strcmp(b->hosts[i].name, host) == 0)
			return &b->hosts[i];
	return NULL;
}

/* Find or make the host's entry.  The lock is held.  Entries are never removed, since their
 * sums would start from 0. */
static struct back_off_host *get_host(struct back_offs *b, const char *host)
{
	struct back_off_host *h = find_host(b, host);

	if (h || strlen(host) >= BACK_OFFS_HOST_ROOM)
		return h;
	h = find_host(b, "");
	if (h)
		strcpy(h->name, host);
	return h;
}

static int64_t *sum_of(struct back_off_sums *s, bool is_throttled)
{
	return is_throttled ? &s->throttled_ns : &s->waited_ns;
}

void back_offs_note(struct back_offs *b, const char *host, bool is_throttled,
		    bool is_over, int64_t now_ns)
{
	struct back_off_host *h;

	(void)pthread_mutex_lock(&b->lock);
	h = *host ? get_host(b, host) : NULL;
	if (h && !is_over) {
		h->sums.n++;
		if (h->n_waiting[is_throttled]++ == 0)
			h->since_ns[is_throttled] = now_ns;
	} else if (h && h->n_waiting[is_throttled] &&
		   --h->n_waiting[is_throttled] == 0) {
		*sum_of(&h->sums, is_throttled) +=
			now_ns - h->since_ns[is_throttled];
	}
	(void)pthread_mutex_unlock(&b->lock);
}

void back_offs_get(struct back_offs *b, const char *host, int64_t now_ns,
		   struct back_off_sums *ret)
{
	const struct back_off_host *h;

	*ret = (struct back_off_sums){ .n = 0 };
	(void)pthread_mutex_lock(&b->lock);
	h = *host ? find_host(b, host) : NULL;
	if (h)
		*ret = h->sums;
	for (int k = 0; h && k < 2; k++)
		if (h->n_waiting[k])
			*sum_of(ret, k) += now_ns - h->since_ns[k];
	(void)pthread_mutex_unlock(&b->lock);
}
