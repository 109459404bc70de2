// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/budget.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "common/bytes.h"
#include "common/clock.h"

#define PAGE ((size_t)4096)
#define LARGE_PAGE ((size_t)2 * MIB)
/* Smaller pieces are taken from the heap, whose pages mostly exist already. */
#define SPARE_SIZE_MIN MIB

void budget_init(struct budget *b, uint64_t most, uint64_t most_ahead)
{
	pthread_condattr_t attr;

	*b = (struct budget){ .most = most, .most_ahead = most_ahead };
	(void)pthread_mutex_init(&b->lock, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&b->given, &attr);
	(void)pthread_condattr_destroy(&attr);
}

void budget_fini(struct budget *b)
{
	while (b->n_spare)
		free(b->spare[--b->n_spare].data);
	(void)pthread_cond_destroy(&b->given);
	(void)pthread_mutex_destroy(&b->lock);
}

static bool take_bytes(struct budget *b, uint64_t bytes)
{
	if (bytes > b->most - b->used)
		return false;
	b->used += bytes;
	if (b->used > b->peak)
		b->peak = b->used;
	return true;
}

bool budget_take(struct budget *b, uint64_t bytes)
{
	AUTO_UNLOCK held = mutex_hold(&b->lock);

	return take_bytes(b, bytes);
}

bool budget_take_ahead(struct budget *b, uint64_t bytes)
{
	AUTO_UNLOCK held = mutex_hold(&b->lock);
	bool ok = !b->n_waiting && b->ahead + bytes <= b->most_ahead &&
		  take_bytes(b, bytes);

	if (ok)
		b->ahead += bytes;
	return ok;
}

bool budget_wait(struct budget *b, uint64_t bytes, int64_t deadline_ns)
{
	struct timespec at = clock_timespec(deadline_ns);
	int64_t begun_ns = clock_now_ns();
	bool ok;
	AUTO_UNLOCK held = mutex_hold(&b->lock);

	b->n_waiting++;
	while (!(ok = take_bytes(b, bytes)))
		if (pthread_cond_timedwait(&b->given, &b->lock, &at) ==
		    ETIMEDOUT)
			break;
	if (!ok)
		ok = take_bytes(b, bytes);
	b->n_waiting--;
	b->waited_ns += (uint64_t)(clock_now_ns() - begun_ns);
	return ok;
}

static void give_back_bytes(struct budget *b, uint64_t bytes, uint64_t ahead)
{
	AUTO_UNLOCK held = mutex_hold(&b->lock);

	b->used -= bytes;
	b->ahead -= ahead;
	(void)pthread_cond_broadcast(&b->given);
}

void budget_give(struct budget *b, uint64_t bytes)
{
	give_back_bytes(b, bytes, 0);
}

void budget_give_ahead(struct budget *b, uint64_t bytes)
{
	give_back_bytes(b, bytes, bytes);
}

/* Remove spare piece `i` from the list. Called with the lock held. */
static void *remove_spare_piece(struct budget *b, unsigned int i)
{
	void *data = b->spare[i].data;

	b->spare_bytes -= b->spare[i].size;
	for (b->n_spare--; i < b->n_spare; i++)
		b->spare[i] = b->spare[i + 1];
	return data;
}

/* Find the most recently used spare piece: it may still be in the CPU's caches. Called with the
 * lock held. */
static void *find_spare(struct budget *b, size_t size)
{
	for (unsigned int i = b->n_spare; i > 0; i--)
		if (b->spare[i - 1].size == size)
			return remove_spare_piece(b, i - 1);
	return NULL;
}

/* Allocate a piece in huge pages. The kernel pins each page that it copies from or reads into; with
 * 2 MiB pages this saves a fifth of the CPU time of a read. */
static void *piece_new(size_t size)
{
	void *data;

	if (posix_memalign(&data, size < LARGE_PAGE ? PAGE : LARGE_PAGE,
			   size) != 0)
		return NULL;
	if (size >= LARGE_PAGE)
		(void)madvise(data, size, MADV_HUGEPAGE);
	return data;
}

void *budget_memory(struct budget *b, size_t size)
{
	void *data;

	size = round_up(size, PAGE);
	(void)pthread_mutex_lock(&b->lock);
	data = find_spare(b, size);
	while (!data && b->n_spare && b->used + b->spare_bytes > b->most) {
		void *old = remove_spare_piece(b, 0);

		(void)pthread_mutex_unlock(&b->lock);
		free(old);
		(void)pthread_mutex_lock(&b->lock);
	}
	(void)pthread_mutex_unlock(&b->lock);
	return data ? data : piece_new(size);
}

void budget_memory_free(struct budget *b, void *data, size_t size)
{
	void *old = NULL;

	size = round_up(size, PAGE);
	if (!data || size < SPARE_SIZE_MIN) {
		free(data);
		return;
	}
	(void)pthread_mutex_lock(&b->lock);
	if (b->n_spare == BUDGET_SPARE_MAX)
		old = remove_spare_piece(b, 0);
	b->spare[b->n_spare++] =
		(struct budget_piece){ .data = data, .size = size };
	b->spare_bytes += size;
	(void)pthread_mutex_unlock(&b->lock);
	free(old);
}
