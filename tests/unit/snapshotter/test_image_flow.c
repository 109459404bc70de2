// SPDX-License-Identifier: Apache-2.0
/* Bytes of an image's blocks since the last report of a start. */
#include <criterion/criterion.h>

#include "snapshotter/node/peers/image_swarm.h"

TestSuite(image_flow, .timeout = 60);

Test(image_flow, is_what_came_since_the_start_before)
{
	struct image_swarm_bytes told = { .peers = 0 };
	struct image_flow f;

	image_flow_count(&told, &(struct image_swarm_bytes){ 70, 30 }, &f);
	cr_assert_eq(f.peer_bytes, 70);
	cr_assert_eq(f.origin_bytes, 30);
	image_flow_count(&told, &(struct image_swarm_bytes){ 75, 30 }, &f);
	cr_assert_eq(f.peer_bytes, 5);
	cr_assert_eq(f.origin_bytes, 0);
}

/* Another start was counted later but reported earlier, so the count seems to go down. */
Test(image_flow, is_nothing_where_more_was_told_already)
{
	struct image_swarm_bytes told = { 75, 30 };
	struct image_flow f;

	image_flow_count(&told, &(struct image_swarm_bytes){ 70, 31 }, &f);
	cr_assert_eq(f.peer_bytes, 0);
	cr_assert_eq(f.origin_bytes, 1);
	image_flow_count(&told, &(struct image_swarm_bytes){ 80, 31 }, &f);
	cr_assert_eq(f.peer_bytes, 5);
	cr_assert_eq(f.origin_bytes, 0);
}
