// SPDX-License-Identifier: Apache-2.0
/* What is left of pools, loops and servers that could not begin. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/periodic.h"
#include "common/side_by_side.h"
#include "net/control_server.h"
#include "net/loop.h"
#include "net/pool.h"
#include "net/url.h"
#include "tests/unit/failures.h"

TestSuite(failing, .timeout = 120);

#define THREADS 5u

static void expect(int rc, bool was_hit, int code, const struct error *err)
{
	cr_expect_eq(rc, was_hit ? -code : 0, "%d: %s", rc, err->msg);
	cr_expect_eq(err->msg[0] != '\0', was_hit, "%s", err->msg);
}

static void begin_pool(struct failures *f, int code)
{
	while (failures_next(f)) {
		struct error err = ERROR_INIT;
		struct pool *p = NULL;
		int rc = pool_new(NULL, THREADS, 0, &p, &err);

		expect(rc, failures_hit(f), code, &err);
		cr_expect_eq(!p, rc < 0);
		pool_free(p);
	}
}

Test(failing, a_pool_ends_the_threads_that_it_has)
{
	struct failures f = { .kind = FAIL_THREAD };

	begin_pool(&f, EAGAIN);
	cr_expect_eq(f.n, THREADS + 1);
	f = (struct failures){ .kind = FAIL_MEMORY };
	begin_pool(&f, ENOMEM);
	cr_expect_gt(f.n, 1);
}

static int count(void *arg, unsigned int i, struct error *err)
{
	atomic_uint *done = arg;

	(void)err;
	atomic_fetch_add(&done[i], 1);
	return 0;
}

Test(failing, what_is_done_side_by_side_is_done_with_fewer_threads)
{
	struct failures f = { .kind = FAIL_THREAD };

	while (failures_next(&f)) {
		atomic_uint done[THREADS] = { 0 };
		struct error err = ERROR_INIT;

		cr_expect_eq(side_by_side(THREADS, count, done, &err), 0, "%s",
			     err.msg);
		for (unsigned int i = 0; i < THREADS; i++)
			cr_expect_eq(atomic_load(&done[i]), 1);
		(void)failures_hit(&f);
	}
	/* The caller is one of them. */
	cr_expect_eq(f.n, THREADS);
}

static int64_t rarely(void *arg)
{
	(void)arg;
	return clock_now_ns() + 3600 * NS_PER_S;
}

Test(failing, what_is_periodic_does_not_begin)
{
	for (enum failure_kind k = 0; k < FAILURE_KINDS; k++) {
		struct failures f = { .kind = k };

		while (failures_next(&f)) {
			struct error err = ERROR_INIT;
			struct periodic *p = NULL;
			int rc = periodic_start(rarely, NULL, 0, &p, &err);

			expect(rc, failures_hit(&f),
			       k == FAIL_THREAD ? EAGAIN : ENOMEM, &err);
			periodic_stop(p);
		}
		cr_expect_eq(f.n, 2);
	}
}

static int answer(void *arg, struct control_call *call, struct buf *reply)
{
	(void)arg, (void)call, (void)reply;
	return HTTPD_OK;
}

static int serve(const char *path, struct loop **loop, struct pool **pool,
		 struct control_server **ret, struct error *err)
{
	struct control_server_config cfg = { .name = "control",
					     .path = path,
					     .listen = path ? NULL
							    : "127.0.0.1:0",
					     .option = "choose another",
					     .answer = answer };
	int rc = loop_new(loop, err);

	if (rc == 0)
		rc = pool_new(*loop, 2, 8, pool, err);
	cfg.loop = *loop;
	cfg.pools[CONTROL_QUICK] = *pool;
	return rc < 0 ? rc : control_server_new(&cfg, ret, err);
}

static void serve_once(struct failures *f, const char *path, int code)
{
	struct control_server *s = NULL;
	struct error err = ERROR_INIT;
	struct loop *loop = NULL;
	struct pool *pool = NULL;
	int rc = serve(path, &loop, &pool, &s, &err);

	expect(rc, failures_hit(f), code, &err);
	/* A server that could not begin leaves no socket for others to ask at. */
	cr_expect_eq(s != NULL, access(path, F_OK) == 0, "round %u", f->n);
	if (s)
		control_server_stop(s);
	pool_free(pool);
	loop_free(loop);
	control_server_free(s);
}

Test(failing, a_server_over_tcp_frees_what_it_had)
{
	struct failures memory = { .kind = FAIL_MEMORY };

	while (failures_next(&memory)) {
		struct control_server *s = NULL;
		struct error err = ERROR_INIT;
		struct loop *loop = NULL;
		struct pool *pool = NULL;
		int rc = serve(NULL, &loop, &pool, &s, &err);

		expect(rc, failures_hit(&memory), ENOMEM, &err);
		if (s)
			control_server_stop(s);
		pool_free(pool);
		loop_free(loop);
		control_server_free(s);
	}
	cr_expect_gt(memory.n, 4);
}

Test(failing, a_control_server_leaves_neither_socket_nor_descriptor)
{
	char dir[] = "/tmp/bootseer-failing.XXXXXX", path[64];
	struct failures threads = { .kind = FAIL_THREAD },
			memory = { .kind = FAIL_MEMORY };

	cr_assert(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/sock", dir);
	while (failures_next(&threads))
		serve_once(&threads, path, EAGAIN);
	cr_expect_eq(threads.n, 3);
	while (failures_next(&memory))
		serve_once(&memory, path, ENOMEM);
	cr_expect_gt(memory.n, 4);
	cr_expect_eq(rmdir(dir), 0);
}

/* A URL without its query, or whose user is not seen, is another one. */
Test(failing, a_url_is_whole_or_memory_is_short)
{
	static const char text[] = "https://me:pw@host.example:81/a?b=c#d";
	struct failures f = { .kind = FAIL_MEMORY };

	while (failures_next(&f)) {
		struct url u;
		int rc = url_parse(text, &u);

		cr_expect_eq(rc, failures_hit(&f) ? -ENOMEM : 0, "round %u: %d",
			     f.n, rc);
		if (rc < 0)
			continue;
		cr_assert_not_null(u.query);
		cr_expect_str_eq(u.query, "b=c");
		cr_expect(u.has_user && u.has_fragment);
		url_fini(&u);
	}
	cr_expect_gt(f.n, 7);
	f = (struct failures){ .kind = FAIL_MEMORY };
	while (failures_next(&f)) {
		cr_expect_not(url_is_origin("https://me@host.example"),
			      "round %u", f.n);
		(void)failures_hit(&f);
	}
}
