// SPDX-License-Identifier: Apache-2.0
/* What the one who runs a node is told. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "certs.h"
#include "common/clock.h"
#include "common/fs.h"
#include "p2p/engine/engine_peer.h"

TestSuite(engine_fault, .timeout = 120);

#define DAY 86400L

struct told {
	unsigned int n[P2P_NOTES];
	char about[256], why[ERROR_MSG_MAX]; /* the last one */
};

static void note(void *arg, enum p2p_note what, const char *about,
		 const char *why)
{
	struct told *t = arg;

	t->n[what]++;
	(void)snprintf(t->about, sizeof(t->about), "%s", about);
	(void)snprintf(t->why, sizeof(t->why), "%s", why);
}

/* A node with a certificate, and what it told; nobody else. */
struct alone {
	char dir[64], ca_file[128], cert[128], key[128];
	struct ca *ca;
	struct p2p *p2p;
	struct told told;
	int64_t now_s; /* for look() */
};

static void begin(struct alone *a, long seconds)
{
	struct p2p_config cfg = { .listen = "127.0.0.1:0",
				  .node = "n",
				  .ca_file = a->ca_file,
				  .cert_file = a->cert,
				  .key_file = a->key,
				  .neighbours = 1,
				  .memory = 64 << 20,
				  .note = note,
				  .note_arg = &a->told };
	struct error err = ERROR_INIT;
	char dir[80];

	*a = (struct alone){ .dir = "/tmp/bootseer-fault.XXXXXX" };
	cr_assert_not_null(mkdtemp(a->dir));
	(void)snprintf(a->ca_file, sizeof(a->ca_file), "%s/ca.pem", a->dir);
	(void)snprintf(a->cert, sizeof(a->cert), "%s/n.pem", a->dir);
	(void)snprintf(a->key, sizeof(a->key), "%s/n.key", a->dir);
	(void)snprintf(dir, sizeof(dir), "%s/p2p", a->dir);
	cfg.dir = dir;
	a->ca = ca_new(a->dir, "ca");
	ca_issue(a->ca, "n", "URI:bootseer://node/n", seconds);
	cr_assert_eq(p2p_open(&cfg, &a->p2p, &err), 0, "%s", err.msg);
}

static void end(struct alone *a)
{
	struct error err = ERROR_INIT;

	p2p_close(a->p2p);
	ca_free(a->ca);
	cr_expect_eq(fs_remove_tree(a->dir, &err), 0, "%s", err.msg);
}

static struct alone *looking;

static void look(void *arg)
{
	fault_check_cert(arg, looking->now_s, false);
}

static void at(struct alone *a, int64_t now_s)
{
	a->now_s = now_s;
	looking = a;
	engine_run(a->p2p, look, a->p2p);
}

Test(engine_fault, a_certificate_that_ends_is_told_once_a_day_and_at_its_end)
{
	struct alone a;
	struct p2p_stats s;
	int64_t end_s;

	/* The authority's is for two days, of which one is past. */
	begin(&a, DAY);
	p2p_get_stats(a.p2p, &s);
	end_s = (int64_t)s.cert_not_after;
	cr_expect(end_s > time(NULL) && end_s <= time(NULL) + DAY);
	/* A quarter of its time is half a day, and the minute that it took to be made. */
	at(&a, end_s - DAY / 2 - 60);
	cr_expect_eq(a.told.n[P2P_CERT_ENDS], 0);
	at(&a, end_s - DAY / 2 + 60);
	at(&a, end_s - DAY / 3);
	cr_expect_eq(a.told.n[P2P_CERT_ENDS], 1, "once a day");
	cr_expect(strstr(a.told.why, "11 hours"), "%s", a.told.why);
	cr_expect(strstr(a.told.why, "reload"), "%s", a.told.why);
	cr_expect_str_eq(a.told.about, a.cert);
	at(&a, end_s);
	at(&a, end_s + 10);
	cr_expect_eq(a.told.n[P2P_CERT_OVER], 1);
	cr_expect_eq(a.told.n[P2P_CERT_GOOD], 0);
	end(&a);
}

Test(engine_fault, a_new_certificate_is_told_after_one_that_ended)
{
	struct error err = ERROR_INIT;
	struct p2p_stats s;
	struct alone a;

	begin(&a, DAY);
	at(&a, time(NULL) + 2 * DAY);
	cr_expect_eq(a.told.n[P2P_CERT_OVER], 1);
	cr_assert_eq(p2p_reload(a.p2p, &err), 0, "%s", err.msg);
	cr_expect_eq(a.told.n[P2P_CERT_GOOD], 1);
	/* One that is over already: the caller looks at it by p2p_check(). */
	ca_issue(a.ca, "n", "URI:bootseer://node/n", -60);
	cr_assert_eq(p2p_reload(a.p2p, &err), 0, "%s", err.msg);
	cr_expect_eq(a.told.n[P2P_CERT_OVER], 1);
	p2p_get_stats(a.p2p, &s);
	cr_expect_lt(s.cert_not_after, (uint64_t)time(NULL));
	end(&a);
}

static void fail(void *arg)
{
	static const struct error why = { .code = EACCES, .msg = "why" };
	static const struct net_failure stranger = { .fault = NET_UNTRUSTED,
						     .name = "",
						     .addr = "10.0.0.1:1",
						     .why = &why },
					known = { .fault = NET_UNREACHABLE,
						  .outgoing = true,
						  .name = "m",
						  .addr = "10.0.0.2:1",
						  .why = &why };
	struct p2p *p = arg;
	struct member *m =
		member_know(p,
			    &(struct net_node){ .name = "m",
						.addr = "10.0.0.2:1" },
			    false);

	cr_assert(m);
	for (unsigned int k = 0; k < 3; k++) {
		fault_link(p, &stranger);
		fault_link(p, &known);
		member_failed(m, clock_now_ns());
	}
}

static void add_peer(void *arg, const struct p2p_peer_info *i)
{
	unsigned int *n = arg;

	(*n)++;
	cr_expect_str_eq(i->node, "m");
	cr_expect_eq(i->failures, 3);
	cr_expect(strstr(i->why, "--p2p-advertise"), "%s", i->why);
	cr_expect_eq(i->fault, P2P_FAULT_UNREACHABLE);
}

Test(engine_fault, links_that_fail_are_counted_and_told_once_a_minute)
{
	struct p2p_failure_info last;
	unsigned int n = 0;
	struct p2p_stats s;
	struct alone a;

	begin(&a, DAY);
	cr_expect_not(p2p_last_failure(a.p2p, &last));
	engine_run(a.p2p, fail, a.p2p);
	p2p_get_stats(a.p2p, &s);
	cr_expect_eq(s.links_untrusted_total, 3);
	cr_expect_eq(s.links_unreachable_total, 3);
	cr_expect_eq(a.told.n[P2P_UNTRUSTED], 1);
	/* The second time on end. */
	cr_expect_eq(a.told.n[P2P_UNREACHABLE], 1);
	cr_expect_str_eq(a.told.about, "m at 10.0.0.2:1");
	cr_expect(p2p_last_failure(a.p2p, &last));
	cr_expect_str_eq(last.node, "m");
	cr_assert_eq(p2p_each_peer(a.p2p, add_peer, &n, NULL), 0);
	cr_expect_eq(n, 1);
	end(&a);
}

static void knock(void *arg)
{
	static const struct error why = { .code = EBADMSG, .msg = "no head" };
	static const struct net_failure scan = { .fault = NET_UNLIKE,
						 .name = "",
						 .addr = "10.0.0.1:1",
						 .why = &why };

	fault_link(arg, &scan);
}

Test(engine_fault, who_speaks_otherwise_is_told_with_a_cure)
{
	struct alone a;

	begin(&a, DAY);
	engine_run(a.p2p, knock, a.p2p);
	cr_expect_eq(a.told.n[P2P_LINK_REFUSED], 1);
	cr_expect_str_eq(a.told.why, "no head: is it a bootseerd, of this "
				     "--p2p-security?");
	end(&a);
}

Test(engine_fault, knows_which_addresses_lead_nobody_here)
{
	char *here[] = { (char[]){ "https://127.0.0.1:9730" },
			 (char[]){ "http://localhost:1" }, NULL };
	char *there[] = { (char[]){ "https://127.0.0.1:9730" },
			  (char[]){ "https://traces.internal:9730" }, NULL };
	struct p2p_config cfg = { .listen = "127.0.0.1:9740",
				  .trackers = here };

	cr_expect_not(p2p_hides(&cfg));
	cfg.trackers = there;
	cr_expect(p2p_hides(&cfg));
	cfg.listen = "[::1]:9740";
	cr_expect(p2p_hides(&cfg));
	cfg.advertise = "10.0.0.1:9740";
	cr_expect_not(p2p_hides(&cfg));
	cfg.advertise = "127.1.0.1:9740";
	cr_expect(p2p_hides(&cfg));
	cfg.trackers = NULL;
	cr_expect_not(p2p_hides(&cfg));
}
