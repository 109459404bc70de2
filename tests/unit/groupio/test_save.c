// SPDX-License-Identifier: Apache-2.0
/* The memory of saves, and which nodes are gone: no other node, no store. */
#include "groupio/save_peers.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/cond.h"

#define LEN 100u /* bytes of a chunk */

static struct saves saves;
static struct save save = { .all = &saves, .terms.id = "one" };
static char *place; /* of a chunk */

static void begin_save_in(uint64_t memory)
{
	saves.cfg.memory = memory;
	(void)pthread_mutex_init(&saves.lock, NULL);
	cond_init(&saves.changed);
	TAILQ_INIT(&saves.list);
	TAILQ_INSERT_TAIL(&saves.list, &save, of_all);
	/* The deadline is an hour away, so that a thread that waits for it fails the test. */
	save.until_ns = clock_now_ns() + 3600 * NS_PER_S;
}

static void *keep_one(void *arg)
{
	char *chunk = malloc(LEN);

	(void)arg;
	cr_assert_not_null(chunk);
	cr_assert_eq(save_keep_chunk(&save, &place, &chunk, LEN, NULL), 0);
	cr_expect_not_null(place);
	free(chunk);
	return NULL;
}

TestSuite(save, .timeout = 60);

/* Two threads may both fetch a chunk that two units share. */
Test(save, has_no_need_of_memory_for_a_chunk_that_is_here)
{
	pthread_t threads[2];

	begin_save_in(LEN);
	keep_one(NULL);
	keep_one(NULL);
	cr_expect(saves.used == LEN && save.memory == LEN &&
		  saves.stats.copied_bytes == LEN);
	free(steal_ptr(&place));
	/* The same where both wait for memory for it. */
	for (size_t i = 0; i < 2; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, keep_one, NULL),
			     0);
	saves_give(&saves, LEN);
	for (size_t i = 0; i < 2; i++)
		cr_assert_eq(pthread_join(threads[i], NULL), 0);
	cr_expect(saves.used == LEN && save.memory == 2 * LEN);
	free(place);
}

/* A firewall that is loaded anew refuses what four threads ask in the same moment. */
Test(save, takes_a_node_for_gone_that_refuses_for_two_seconds)
{
	const int64_t first_ns = 1000 * NS_PER_S;

	for (int64_t i = 0; i < 20; i++)
		cr_expect_not(peer_is_refused(&save, 1,
					      first_ns + i * 99 * NS_PER_MS));
	cr_expect_not(peer_is_refused(&save, 2, first_ns + 2 * NS_PER_S));
	cr_expect(peer_is_refused(&save, 1, first_ns + 2 * NS_PER_S));
}
