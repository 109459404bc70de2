// SPDX-License-Identifier: Apache-2.0
/* Allocates units by first fit: low units are reused, and higher pages stay untouched while few
 * puts run. */
#include "objects/store/memory.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "common/clock.h"
#include "common/cond.h"

#define UNIT ((size_t)64 << 10)

struct store_memory {
	pthread_mutex_t lock;   /* protects used */
	pthread_cond_t changed; /* units were given back */
	char *base;
	size_t size;
	size_t n_units;
	bool *used; /* one entry for each unit */
};

static size_t units_of(size_t bytes)
{
	return (bytes + UNIT - 1) / UNIT;
}

int store_memory_new(uint64_t bytes, struct store_memory **ret,
		     struct error *err)
{
	struct store_memory *m = calloc(1, sizeof(*m));

	if (!m)
		return error_nomem(err);
	m->n_units = bytes > UNIT ? units_of((size_t)bytes) : 1;
	m->size = m->n_units * UNIT;
	m->used = calloc(m->n_units, sizeof(*m->used));
	m->base = mmap(NULL, m->size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!m->used || m->base == MAP_FAILED) {
		if (m->base != MAP_FAILED)
			(void)munmap(m->base, m->size);
		free(m->used);
		free(m);
		return error_nomem(err);
	}
	/* Without huge pages each 4 KiB would cost a page fault. */
	(void)madvise(m->base, m->size, MADV_HUGEPAGE);
	(void)pthread_mutex_init(&m->lock, NULL);
	cond_init(&m->changed);
	*ret = m;
	return 0;
}

void store_memory_free(struct store_memory *m)
{
	if (!m)
		return;
	(void)munmap(m->base, m->size);
	(void)pthread_cond_destroy(&m->changed);
	(void)pthread_mutex_destroy(&m->lock);
	free(m->used);
	free(m);
}

/* Find `n` free units in a row: the first one, or n_units. */
static size_t find_units(const struct store_memory *m, size_t n)
{
	size_t run = 0;

	for (size_t i = 0; i < m->n_units; i++) {
		run = m->used[i] ? 0 : run + 1;
		if (run == n)
			return i + 1 - n;
	}
	return m->n_units;
}

void *store_memory_take(struct store_memory *m, size_t size,
			int64_t deadline_ns)
{
	size_t n = units_of(size), at;

	if (n == 0 || n > m->n_units)
		return NULL;
	(void)pthread_mutex_lock(&m->lock);
	while ((at = find_units(m, n)) == m->n_units && deadline_ns) {
		if (!cond_wait_until(&m->changed, &m->lock, deadline_ns))
			deadline_ns = 0;
	}
	if (at < m->n_units)
		memset(m->used + at, true, n);
	(void)pthread_mutex_unlock(&m->lock);
	return at < m->n_units ? m->base + at * UNIT : NULL;
}

void store_memory_give(struct store_memory *m, void *buf, size_t size)
{
	size_t at;

	if (!buf)
		return;
	at = (size_t)((char *)buf - m->base) / UNIT;
	(void)pthread_mutex_lock(&m->lock);
	memset(m->used + at, false, units_of(size));
	(void)pthread_cond_broadcast(&m->changed);
	(void)pthread_mutex_unlock(&m->lock);
}

void *store_memory_base(const struct store_memory *m, size_t *ret_size)
{
	*ret_size = m->size;
	return m->base;
}
