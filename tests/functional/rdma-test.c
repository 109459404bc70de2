// SPDX-License-Identifier: Apache-2.0
/*
 * RDMA between the devices rxe0 (10.99.0.1) and rxe1 (10.99.0.2), by libibverbs
 * and a real kernel: tests/functional/rdma.bats.  Prints "ok SCENARIO" for each
 * that went as it should, and says what was not so otherwise.
 */
#include <string.h>

#include "common/bytes.h"
#include "common/clock.h"
#include "tests/functional/rdma-nodes.h"
#include "tests/unit/p2p/rdma_pair.h"

#define MS ((int64_t)1000 * 1000)
#define SECONDS 40 /* that anything may take: the processor is emulated */

static struct ibv_qp *newest; /* what kill_newest() kills */
static struct verbs_ops ops;  /* libibverbs, but for create_qp */
static struct ibv_qp *(*create_qp)(struct ibv_pd *pd,
				   struct ibv_qp_init_attr *attr);
static bool is_failed;
static struct servers *servers; /* started before anything is open */

static struct ibv_qp *watch_create_qp(struct ibv_pd *pd,
				      struct ibv_qp_init_attr *attr)
{
	newest = create_qp(pd, attr);
	return newest;
}

#define CHECK(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "%s: not so: %s\n", __func__, #what); \
			is_failed = true; \
			return; \
		} \
	} while (0)

static struct rdma_config config(const char *node)
{
	struct rdma_config c = { .verbs = &ops,
				 .node = node,
				 .addr = *node == 'a' ? "10.99.0.1"
						      : "10.99.0.2",
				 .slab = 16 * MIB,
				 .min_moved = MIB };

	c.times.stall = c.times.forget = c.times.handshake = 30 * 1000 * MS;
	c.times.lease = 20 * 1000 * MS;
	c.times.ban = 100 * MS;
	return c;
}

static void free_pair(struct pair **p)
{
	if (*p)
		pair_free(*p);
}

#define AUTO_PAIR __attribute__((cleanup(free_pair))) struct pair

static bool connect_pair(struct pair *p)
{
	pair_connect(p);
	pair_moved(p, MIB);
	if (pair_until(p, pair_is_up, SECONDS))
		return true;
	fprintf(stderr, "not connected: %s; %s\n", p->a.fault, p->b.fault);
	return false;
}

/* One piece, after all: the link works again. */
static bool works(struct pair *p)
{
	unsigned int n = p->b.arrived;

	return pair_until(p, pair_is_up, SECONDS) &&
	       pair_send(&p->a, 77, 300000) &&
	       pair_until(p, pair_is_quiet, SECONDS) && p->b.arrived == n + 1 &&
	       p->b.wrong == 0;
}

/* --------------------------------------------------------------- scenarios --- */

static void takes_the_device_of_its_address(void)
{
	AUTO_PAIR *p = pair_new(config("a"), config("b"));

	CHECK(strstr(rdma_device(p->a.r), "rxe0") != NULL);
	CHECK(strstr(rdma_device(p->b.r), "rxe1") != NULL);
}

static void pieces_arrive_both_ways(void)
{
	static const uint32_t lens[] = { 1,      4097,    65536, 65537,
					 300000, 1000001, 7,     2 * MIB - 8 };
	AUTO_PAIR *p = pair_new(config("a"), config("b"));
	struct rdma_stats stats;

	CHECK(connect_pair(p));
	for (uint32_t i = 0; i < 80; i++) {
		uint32_t len = lens[i % ARRAY_SIZE(lens)];

		/* As many at once as the memory holds. */
		while (!pair_send(i % 4 ? &p->a : &p->b, i * 1000, len))
			CHECK(pair_until(p, pair_is_quiet, SECONDS));
	}
	CHECK(pair_until(p, pair_is_quiet, SECONDS));
	CHECK(p->a.arrived == 20 && p->b.arrived == 60);
	CHECK(p->a.wrong == 0 && p->b.wrong == 0);
	CHECK(p->a.fell_back == 0 && p->b.fell_back == 0);
	rdma_get_stats(p->a.r, &stats);
	CHECK(stats.received_bytes_total == p->a.arrived_bytes);
}

static bool wrong_key(struct side *s, struct rdma_msg *m)
{
	m->grant.rkey ^= m->type == RDMA_GRANT ? 0xff : 0;
	return true;
}

static void a_wrong_key_falls_back_and_is_got_over(void)
{
	AUTO_PAIR *p = pair_new(config("a"), config("b"));

	CHECK(connect_pair(p));
	p->a.meddle = wrong_key;
	CHECK(pair_send(&p->a, 0, 300000));
	CHECK(pair_until(p, pair_is_quiet, SECONDS));
	CHECK(p->a.fell_back == 1 && p->b.arrived == 0);
	CHECK(p->a.faults + p->b.faults >= 1);
	p->a.meddle = NULL;
	CHECK(works(p));
}

static struct rdma_msg kept;

static bool keep_grant(struct side *s, struct rdma_msg *m)
{
	if (m->type == RDMA_GRANT)
		kept = *m;
	return true;
}

static bool use_kept(struct side *s, struct rdma_msg *m)
{
	if (m->type == RDMA_GRANT) {
		m->grant.addr = kept.grant.addr;
		m->grant.rkey = kept.grant.rkey;
	}
	return true;
}

/* A key that is right, over another link than the one it was granted on. */
static void the_kernel_keeps_links_apart(void)
{
	AUTO_PAIR *p = pair_new(config("a"), config("b"));
	struct rdma_link *a, *b;
	bool was_up;

	CHECK(connect_pair(p));
	p->a.meddle = keep_grant;
	CHECK(works(p));
	a = p->a.l;
	b = p->b.l;
	was_up = connect_pair(p); /* beside the first */
	p->a.meddle = use_kept;
	was_up = was_up && pair_send(&p->a, 77, 300000) &&
		 pair_until(p, pair_is_quiet, SECONDS);
	rdma_link_free(a);
	rdma_link_free(b);
	CHECK(was_up);
	CHECK(p->a.fell_back == 1 && p->b.arrived == 1);
}

/* The reader believes in a lease that the server does not. */
static bool long_lease(struct side *s, struct rdma_msg *m)
{
	if (m->type == RDMA_GRANT)
		m->grant.lease_ms = 100 * 1000;
	return true;
}

static void a_lease_that_is_over_is_noticed(void)
{
	struct rdma_config a = config("a");
	AUTO_PAIR *p = NULL;
	struct rdma_stats stats;

	a.times.lease = 1;
	p = pair_new(a, config("b"));
	CHECK(connect_pair(p));
	p->a.meddle = long_lease;
	p->a.is_held = true;
	CHECK(pair_send(&p->a, 0, 2 * MIB - 8)); /* all there is */
	CHECK(pair_send(&p->a, 5000, 5000));     /* in the same place */
	pair_release(&p->a);
	CHECK(pair_until(p, pair_is_quiet, SECONDS));
	CHECK(p->a.fell_back == 1 && p->b.arrived == 1 && p->b.wrong == 0);
	rdma_get_stats(p->a.r, &stats);
	CHECK(stats.stale_total == 1);
	CHECK(pair_is_up(p));
}

static void kill_newest(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	if (ops.modify_qp(newest, &attr, IBV_QP_STATE) != 0)
		abort();
}

/* The initiator's queue pair is the older one: "a" offers first. */
static void a_reader_whose_queue_pair_dies_falls_back(void)
{
	AUTO_PAIR *p = pair_new(config("a"), config("b"));

	CHECK(connect_pair(p));
	kill_newest();
	CHECK(pair_send(&p->a, 0, 300000));
	CHECK(pair_until(p, pair_is_quiet, SECONDS));
	CHECK(p->a.fell_back == 1 && p->b.arrived == 0);
	CHECK(works(p));
}

static void a_server_whose_queue_pair_dies_is_left(void)
{
	struct rdma_config a = config("a");
	AUTO_PAIR *p = NULL;

	a.times.stall = 1000 * MS;
	p = pair_new(a, config("b"));
	CHECK(connect_pair(p));
	kill_newest();
	CHECK(pair_send(&p->b, 0, 300000));
	CHECK(pair_until(p, pair_is_quiet, SECONDS));
	CHECK(p->b.fell_back == 1 && p->a.arrived == 0);
	CHECK(works(p));
}

static void links_come_and_go(void)
{
	AUTO_PAIR *p = pair_new(config("a"), config("b"));

	/* More than there are lanes. */
	for (int i = 0; i < 10; i++) {
		CHECK(connect_pair(p));
		CHECK(works(p));
		pair_disconnect(p);
	}
}

static void nodes_get_over_the_death_of_one(void)
{
	CHECK(rdma_servers_kill_one(servers));
}

static const struct {
	const char *name;
	void (*run)(void);
} scenarios[] = {
#define SCENARIO(f) \
	{ \
#f, f \
	}
	SCENARIO(takes_the_device_of_its_address),
	SCENARIO(pieces_arrive_both_ways),
	SCENARIO(a_wrong_key_falls_back_and_is_got_over),
	SCENARIO(the_kernel_keeps_links_apart),
	SCENARIO(a_lease_that_is_over_is_noticed),
	SCENARIO(a_reader_whose_queue_pair_dies_falls_back),
	SCENARIO(a_server_whose_queue_pair_dies_is_left),
	SCENARIO(links_come_and_go),
	SCENARIO(nodes_get_over_the_death_of_one),
};

int main(void)
{
	struct error err = ERROR_INIT;
	AUTO(verbs) v = NULL;
	int rc = 0;

	if (verbs_open(&v, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	servers = rdma_servers_start();
	ops = *verbs_table(v);
	create_qp = ops.create_qp;
	ops.create_qp = watch_create_qp;
	for (size_t i = 0; i < ARRAY_SIZE(scenarios); i++) {
		int64_t begin = clock_now_ns();

		is_failed = false;
		scenarios[i].run();
		printf("%s %s # %lld ms\n", is_failed ? "not ok" : "ok",
		       scenarios[i].name,
		       (long long)((clock_now_ns() - begin) / MS));
		(void)fflush(stdout);
		rc |= is_failed;
	}
	rdma_servers_stop(servers);
	return rc;
}
