// SPDX-License-Identifier: Apache-2.0
/*
 * Limits how far a predicted hot set is fetched. It may be ahead of the bytes that readers have
 * read of it by a fixed number and a third of these bytes: so no more than that is fetched in
 * vain, whoever made the prediction. When readers stop reading from it, it ends.
 */
#include "common/bytes.h"
#include "common/clock.h"
#include "prefetcher/prefetch.h"

#define LEAD (32 * MIB)
#define GIVE_UP_NS (5 * NS_PER_S)
#define LOOK_NS (20 * NS_PER_MS)

/* May so many more bytes be fetched? With the lock. */
static bool is_within_lead(const struct prefetch *p, uint64_t next_bytes)
{
	uint64_t lead = p->all->cfg.limits.guess_lead;
	uint64_t fetched = p->fetched_bytes[TASK_HOT] - p->guessed_before;

	return fetched + next_bytes <=
	       (lead ? lead : LEAD) + p->proved_bytes + p->proved_bytes / 3;
}

/* Stored bytes of its fetched blocks that were read. With the lock. */
static uint64_t sum_read_hot_bytes(const struct prefetch *p,
				   const uint8_t *is_read)
{
	uint64_t sum = 0;
	struct block b;

	for (size_t i = 0; p->hot && i < p->hot->n; i++) {
		uint32_t k = p->hot->blocks[i];

		if (!(p->is_fetched_hot[k / 8] & is_read[k / 8] & 1u << k % 8))
			continue;
		blockmap_block(p->map, k, &b);
		sum += b.csize;
	}
	return sum;
}

/* Note the bytes read so far. With the lock. */
static void note_proved_bytes(struct prefetch *p, uint64_t bytes, int64_t now)
{
	if (bytes > p->proved_bytes || !p->proved_ns)
		p->proved_ns = now;
	if (bytes > p->proved_bytes)
		p->proved_bytes = bytes;
}

/* Give the hot set up if nothing more was read of it for too long. With the lock. */
static void give_up_unread_hot_set(struct prefetch *p, int64_t now)
{
	int64_t ns = p->all->cfg.limits.guess_ns;

	if (now - p->proved_ns < (ns ? ns : GIVE_UP_NS) || p->gave_up)
		return;
	p->gave_up = true;
	__atomic_store_n(&p->cancel, true, __ATOMIC_RELAXED);
}

int64_t prefetch_proof_wait(struct prefetch *p, uint64_t next_bytes,
			    int64_t now)
{
	AUTO_FREE uint8_t *is_read = NULL;
	bool is_within, is_looking;

	(void)pthread_mutex_lock(&p->all->lock);
	is_within = is_within_lead(p, next_bytes);
	is_looking = !is_within && now - p->looked_ns >= LOOK_NS;
	if (is_looking)
		p->looked_ns = now;
	(void)pthread_mutex_unlock(&p->all->lock);
	if (is_within)
		return 0;
	if (!is_looking)
		return LOOK_NS;
	is_read = calloc(p->map->n_blocks / 8 + 1, 1);
	if (is_read && p->mark_read)
		p->mark_read(p->arg, is_read);
	(void)pthread_mutex_lock(&p->all->lock);
	note_proved_bytes(p, is_read ? sum_read_hot_bytes(p, is_read) : 0, now);
	is_within = is_within_lead(p, next_bytes);
	if (!is_within)
		give_up_unread_hot_set(p, now);
	(void)pthread_mutex_unlock(&p->all->lock);
	return is_within ? 0 : LOOK_NS;
}
