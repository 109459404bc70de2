// SPDX-License-Identifier: Apache-2.0
/* Links with RDMA beside TCP, over a mock of the verbs. */
#include <errno.h>
#include <string.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "nodes.h"
#include "p2p/rdma/rdma.h"
#include "verbs_mock.h"

#define MS ((int64_t)1000 * 1000)

static struct rdma_config config(void)
{
	/* Times that a busy machine does not exceed. */
	return (struct rdma_config){ .verbs = &verbs_mock_ops,
				     .slab = 16 * MIB,
				     .min_moved = 2 * NODES_PIECE_SIZE,
				     .times = { .handshake = 20000 * MS,
						.lease = 20000 * MS,
						.stall = 20000 * MS,
						.forget = 20000 * MS } };
}

static struct rdma_config rdma;
static struct nodes all;
static struct node *a, *b;

static void setup(void)
{
	verbs_mock_reset();
	rdma = config();
	nodes_init(&all);
}

/* In the test itself: what .fini finds fails nothing. */
static void end(void)
{
	nodes_fini(&all);
	cr_expect_eq(verbs_mock.n_qps, 0);
	cr_expect_eq(verbs_mock.n_mrs, 0);
	cr_expect_eq(verbs_mock.n_contexts, 0);
}

TestSuite(net_rdma, .init = setup, .timeout = 120);

static bool has_rdma(const struct node *n)
{
	struct net_link_stats st;

	net_get_link(n->link, &st);
	return st.is_rdma;
}

static struct net_stats stats(const struct node *n)
{
	struct net_stats st;

	net_get_stats(n->net, &st);
	return st;
}

/* Two nodes that moved enough by TCP. */
static void begin(void)
{
	all.cfg.rdma = &rdma;
	a = nodes_add(&all, "a");
	b = nodes_add(&all, "b");
	nodes_link(a, b);
	nodes_open(a, b);
	nodes_ask(a, 0, 2, SOURCE_HOT);
	until(&all, a->gots == 2);
}

/* ... and took up RDMA. */
static void begin_rdma(void)
{
	begin();
	until(&all, has_rdma(a) && has_rdma(b));
}

Test(net_rdma, pieces_go_by_rdma_once_a_link_moved_enough)
{
	begin();
	cr_expect_str_eq(net_rdma_text(a->net),
			 "mock0 port 1 gid ::ffff:10.0.0.1, 4 lanes of "
			 "4096 KiB");
	cr_expect_eq(stats(a).rdma_bytes_total, 0);
	until(&all, has_rdma(a) && has_rdma(b));
	nodes_ask(a, 2, 30, SOURCE_COLD);
	until(&all, a->gots == 32 && b->sents == 32);
	cr_expect_eq(a->bad_bytes, 0);
	cr_expect_eq(a->losts + a->refuseds, 0);
	/* What the lane had no room for went by TCP meanwhile. */
	cr_expect_geq(stats(a).rdma_bytes_total, 5 * NODES_PIECE_SIZE);
	cr_expect_eq(stats(a).received_bytes_total, 32 * NODES_PIECE_SIZE);
	cr_expect_eq(stats(b).sent_bytes_total, 32 * NODES_PIECE_SIZE);
	cr_expect_eq(a->moved, 32 * NODES_PIECE_SIZE);
	b->serves = SERVES_MEMORY;
	nodes_ask(a, 32, 4, SOURCE_DEMAND);
	until(&all, a->gots == 36);
	cr_expect_eq(a->bad_bytes, 0);
	end();
}

Test(net_rdma, a_fault_in_the_middle_costs_no_piece)
{
	begin_rdma();
	verbs_mock.read_status = IBV_WC_RETRY_EXC_ERR;
	nodes_ask(a, 2, 30, SOURCE_HOT);
	until(&all, a->gots == 32 && b->sents == 32);
	cr_expect_eq(a->bad_bytes, 0);
	cr_expect_eq(a->losts + a->refuseds, 0);
	cr_expect_eq(a->downs, 0);
	cr_expect_eq(stats(a).rdma_bytes_total, 0);
	cr_expect_geq(stats(b).rdma_fallbacks_total, 1);
	cr_expect_geq(a->faults + b->faults, 1);
	cr_expect_not(has_rdma(a));
	end();
}

Test(net_rdma, a_piece_that_is_not_wanted_any_more_is_dropped)
{
	begin_rdma();
	verbs_mock.is_held = true;
	nodes_ask(a, 2, 1, SOURCE_HOT);
	until(&all, b->wants == 3);
	cr_expect_null(net_cancel(a->link, &all.image, 2));
	verbs_mock_release();
	nodes_ask(a, 3, 1, SOURCE_HOT);
	until(&all, b->sents == 4 && a->gots == 3);
	cr_expect_eq(a->moved, 3 * NODES_PIECE_SIZE);
	cr_expect_eq(a->downs, 0);
	end();
}

Test(net_rdma, a_link_that_goes_down_gives_everything_back)
{
	begin_rdma();
	verbs_mock.is_held = true;
	nodes_ask(a, 2, 3, SOURCE_HOT);
	until(&all, b->wants == 5);
	net_close(b->link, "enough");
	until(&all, a->downs && b->downs);
	cr_expect_eq(b->sents, 5);
	verbs_mock_release();
	end();
}

Test(net_rdma, one_end_without_it_is_served_by_tcp)
{
	a = nodes_add(&all, "a");
	all.cfg.rdma = &rdma;
	b = nodes_add(&all, "b");
	nodes_link(a, b);
	nodes_open(a, b);
	nodes_ask(a, 0, 20, SOURCE_HOT);
	until(&all, a->gots == 20);
	cr_expect_eq(a->bad_bytes, 0);
	cr_expect_eq(verbs_mock.n_qps, 0);
	cr_expect_str_eq(net_rdma_text(a->net), "not wanted");
	end();
}

Test(net_rdma, without_a_device_there_is_tcp)
{
	verbs_mock.n_devices = 0;
	begin();
	cr_expect_str_eq(net_rdma_text(a->net),
			 "none of 0 RDMA devices has an active port");
	cr_expect_eq(a->bad_bytes, 0);
	end();
}

Test(net_rdma, what_would_break_a_promise_is_refused)
{
	struct net_config cfg;
	struct net *n = NULL;
	struct error err = ERROR_INIT;

	cfg = all.cfg;
	cfg.rdma = &rdma;
	cfg.download_rate = MIB;
	strcpy(cfg.self.name, "a");
	cr_expect_eq(net_new(&cfg, &n, &err), -EINVAL);
	cr_expect(strstr(err.msg, "download rate"), "%s", err.msg);
	end();
}

Test(net_rdma, an_upload_rate_holds_for_rdma_too)
{
	int64_t begun;

	all.cfg.rdma = &rdma;
	all.cfg.upload_rate = 10 * NODES_PIECE_SIZE;
	a = nodes_add(&all, "a");
	b = nodes_add(&all, "b");
	nodes_link(a, b);
	nodes_open(a, b);
	nodes_ask(a, 0, 4, SOURCE_COLD);
	until(&all, a->gots == 4 && has_rdma(a) && has_rdma(b));
	begun = clock_now_ns();
	nodes_ask(a, 4, 10, SOURCE_COLD);
	until(&all, a->gots == 14);
	/* A second's worth, less what may come at once. */
	cr_expect_geq(clock_now_ns() - begun, 400 * MS);
	end();
}
