// SPDX-License-Identifier: Apache-2.0
/* Tests failures to start a mount's threads and sockets, and manifests that are too large. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ckpt-fuse/mount/outlets.h"
#include "net/pool.h"
#include "common/clock.h"
#include "tests/unit/accepts.h"
#include "tests/unit/failures.h"
#include "tests/unit/pause.h"

TestSuite(ckpt_failing, .timeout = 120);

#define THREADS 5u

static void expect(struct failures *f, int rc, const struct error *err)
{
	int code = f->kind == FAIL_THREAD ? EAGAIN : ENOMEM;

	cr_expect_eq(rc, failures_hit(f) ? -code : 0, "round %u: %d %s", f->n,
		     rc, err->msg);
	cr_expect_eq(err->msg[0] != '\0', rc < 0, "%s", err->msg);
}

Test(ckpt_failing, jobs_end_the_threads_that_they_have)
{
	for (enum failure_kind k = 0; k < FAILURE_KINDS; k++) {
		struct failures f = { .kind = k };

		while (failures_next(&f)) {
			struct error err = ERROR_INIT;
			struct pool *j = NULL;

			expect(&f, pool_new(NULL, THREADS, 0, &j, &err), &err);
			pool_free(j);
		}
		cr_expect_eq(f.n, k == FAIL_THREAD ? THREADS + 1 : 2);
	}
}

/* A mount with its status socket in a temporary folder. */
struct told_mount {
	char dir[32];
	struct ckpt_mount_config cfg;
	struct ckpt_mount mount;
};

static struct outlets_config tell_mount(struct told_mount *t)
{
	static char http[] = "127.0.0.1:0";

	*t = (struct told_mount){ .dir = "/tmp/bootseer-failing.XXXXXX" };
	cr_assert(mkdtemp(t->dir));
	t->cfg = (struct ckpt_mount_config){ .run_dir = t->dir,
					     .metrics = http };
	t->mount.cfg = &t->cfg;
	return (struct outlets_config){ .mount = &t->mount, .path = "/mnt" };
}

/* A client of a left-over socket would wait for an answer for ever. */
Test(ckpt_failing, no_socket_is_left_where_nobody_answers)
{
	struct told_mount t;
	const struct outlets_config cfg = tell_mount(&t);
	char path[64];

	(void)snprintf(path, sizeof(path), "%s/mount.sock", t.dir);
	for (enum failure_kind k = 0; k < FAILURE_KINDS; k++) {
		struct failures f = { .kind = k };

		while (failures_next(&f)) {
			struct error err = ERROR_INIT;
			struct outlets *o = NULL;

			expect(&f, outlets_new(&cfg, &o, &err), &err);
			cr_expect_eq(access(path, F_OK) == 0, o != NULL,
				     "round %u", f.n);
			outlets_free(o);
		}
		cr_expect_geq(f.n, 3);
	}
	cr_expect_eq(rmdir(t.dir), 0);
}

/* Replaces the function of the mount. */
int __wrap_ckpt_mount_metrics(struct ckpt_mount *m, struct buf *ret);
int __wrap_ckpt_mount_metrics(struct ckpt_mount *m, struct buf *ret)
{
	(void)m;
	return buf_puts(ret, "figure 1\n");
}

/* Holds on any machine: pauses between attempts are at least as long as stated. */
Test(ckpt_failing, who_asks_while_descriptors_are_short_is_answered_later)
{
	struct told_mount t;
	const struct outlets_config cfg = tell_mount(&t);
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	struct error err = ERROR_INIT;
	struct outlets *o = NULL;
	static const char ask[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n"
				  "Connection: close\r\n\r\n";
	char got[512] = "";
	size_t n = 0;
	ssize_t k;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int64_t begun;

	(void)snprintf(to.sun_path, sizeof(to.sun_path), "%s/mount.sock",
		       t.dir);
	cr_assert_eq(outlets_new(&cfg, &o, &err), 0, "%s", err.msg);
	accepts_starve();
	begun = clock_now_ns();
	cr_assert_eq(connect(fd, (const void *)&to, sizeof(to)), 0);
	while (atomic_load(&accepts_starved) < 4)
		unit_pause();
	cr_expect_geq(clock_now_ns() - begun, 300 * NS_PER_MS);
	accepts_feed();
	cr_assert_eq(send(fd, ask, strlen(ask), 0), (ssize_t)strlen(ask));
	while ((k = recv(fd, got + n, sizeof(got) - 1 - n, 0)) > 0)
		n += (size_t)k;
	cr_expect(strstr(got, "\r\n\r\nfigure 1\n"), "%s", got);
	(void)close(fd);
	outlets_free(o);
	cr_expect_eq(rmdir(t.dir), 0);
}
