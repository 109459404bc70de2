// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include "common/fs.h"
#include "net/httpd_priv.h"
#include "tests/unit/p2p/certs.h"
#include "tests/unit/talker.h"

TestSuite(httpd_tls, .timeout = 120);

#define CHANGES 10000

struct scene {
	struct loop *loop;
	struct loop_call turn;
	struct httpd *server;
	struct httpd_tls *tls;
	struct talker talker;
	char dir[64];
	unsigned int turns;
};

static void on_turn(struct loop_call *call)
{
	struct scene *s = container_of(call, struct scene, turn);

	s->turns++;
	loop_stop(s->loop);
}

static void turn(struct scene *s)
{
	struct error err = ERROR_INIT;

	loop_post(s->loop, &s->turn);
	cr_assert_eq(loop_run(s->loop, &err), 0, "%s", err.msg);
}

static void begin(struct scene *s)
{
	struct httpd_config cfg = { .name = "test",
				    .option = "--listen",
				    .listen = "127.0.0.1:0",
				    .connections_max = 4,
				    .idle_ns = INT64_C(60000000000),
				    .request_ns = INT64_C(60000000000) };
	struct error err = ERROR_INIT;
	char cert[128], key[128];
	struct ca *ca;

	*s = (struct scene){ .turn.fn = on_turn,
			     .dir = "/tmp/bootseer-httpd.XXXXXX" };
	cr_assert_not_null(mkdtemp(s->dir));
	ca = ca_new(s->dir, "ca");
	ca_issue(ca, "here", "DNS:here", 3600);
	ca_free(ca);
	(void)snprintf(cert, sizeof(cert), "%s/here.pem", s->dir);
	(void)snprintf(key, sizeof(key), "%s/here.key", s->dir);
	cr_assert_eq(loop_new(&s->loop, &err), 0, "%s", err.msg);
	cr_assert_eq(httpd_tls_new(cert, key, NULL, &s->tls, &err), 0, "%s",
		     err.msg);
	cfg.loop = s->loop;
	cfg.tls = s->tls;
	cr_assert_eq(httpd_new(&cfg, &s->server, &err), 0, "%s", err.msg);
	talker_call(&s->talker, s->server->listener.fd, NULL, NULL);
	while (!talker_shakes_hands(&s->talker))
		turn(s);
}

static void end(struct scene *s)
{
	struct error err = ERROR_INIT;

	talker_end(&s->talker);
	httpd_abort(s->server);
	httpd_free(s->server);
	httpd_tls_free(s->tls);
	loop_free(s->loop);
	cr_expect_eq(fs_remove_tree(s->dir, &err), 0, "%s", err.msg);
}

Test(httpd_tls, who_changes_keys_over_and_over_leaves_turns_to_others)
{
	struct scene s;
	int left = 1;

	begin(&s);
	talker_change_keys(&s.talker, CHANGES);
	cr_assert_gt(talker_send(&s.talker), CHANGES * 20);
	s.turns = 0;
	while (left > 0 && s.turns < CHANGES / 10) {
		turn(&s);
		cr_assert_eq(ioctl(s.talker.fd, SIOCOUTQ, &left), 0);
	}
	cr_expect_gt(left, 0, "all of it in %u turns", s.turns);
	end(&s);
}
