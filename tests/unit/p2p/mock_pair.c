// SPDX-License-Identifier: Apache-2.0
#include "mock_pair.h"

#include <criterion/criterion.h>

#include "common/bytes.h"
#include "verbs_mock.h"

struct rdma_config mock_config(const char *node)
{
	struct rdma_config c = { .verbs = &verbs_mock_ops,
				 .node = node,
				 .addr = *node == 'a' ? "10.0.0.1" : "10.0.0.2",
				 .slab = 16 * MIB,
				 .min_moved = MIB,
				 .seed = 7 };

	c.times.stall = c.times.forget = c.times.handshake = 20 * 1000 * MS;
	c.times.lease = 10 * 1000 * MS;
	return c;
}

struct pair *mock_connected_as(struct rdma_config a, struct rdma_config b)
{
	struct pair *p = pair_new(a, b);

	pair_connect(p);
	pair_moved(p, MIB);
	cr_assert(pair_until(p, pair_is_up, SECONDS));
	return p;
}

struct pair *mock_connected(void)
{
	return mock_connected_as(mock_config("a"), mock_config("b"));
}

struct rdma_stats mock_stats(const struct side *s)
{
	struct rdma_stats v;

	rdma_get_stats(s->r, &v);
	return v;
}

unsigned int mock_told(const struct side *s, enum rdma_type type)
{
	return s->told[type - RDMA_OFFER];
}

void mock_expect_nothing_left(void)
{
	cr_expect_eq(verbs_mock.n_qps, 0);
	cr_expect_eq(verbs_mock.n_mrs, 0);
	cr_expect_eq(verbs_mock.n_pds, 0);
	cr_expect_eq(verbs_mock.n_cqs, 0);
	cr_expect_eq(verbs_mock.n_contexts, 0);
}

bool mock_has_fault(struct pair *p)
{
	return p->a.faults > 0;
}
