// SPDX-License-Identifier: Apache-2.0
/* Pairs of nodes over the mock of the verbs, as tests of RDMA begin and end with them. */
#ifndef BOOTSEER_TESTS_MOCK_PAIR_H
#define BOOTSEER_TESTS_MOCK_PAIR_H

#include "rdma_pair.h"

#define MS ((int64_t)1000 * 1000)
#define SECONDS 110 /* then it hangs */

/* Of node "a" or "b"; with times that are no fault of a busy machine. */
struct rdma_config mock_config(const char *node);

/* A pair whose link is up. */
struct pair *mock_connected_as(struct rdma_config a, struct rdma_config b);
struct pair *mock_connected(void);

struct rdma_stats mock_stats(const struct side *s);

/* Messages of a kind that the side told. */
unsigned int mock_told(const struct side *s, enum rdma_type type);

/* For pair_until(): side a had a fault. */
bool mock_has_fault(struct pair *p);

/* All that was made of the verbs is gone. */
void mock_expect_nothing_left(void);

#endif
