// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "common/buf.h"
#include "common/fs.h"
#include "fuse/fuse.h"
#include "fuse/hold_priv.h"
#include "tests/unit/lingering.h"

TestSuite(keeper, .timeout = 120);
TestSuite(hold, .timeout = 120);

/* ---------------------------------------------------------------- keeper --- */

/* The other side of NOTIFY_SOCKET: notes what is said, closes descriptors. */
struct store {
	int sock;
	struct buf said; /* messages, each followed by '|' */
	int n_fds;
	int n_wanted; /* messages to read */
};

static void *store_run(void *arg)
{
	struct store *s = arg;

	for (int i = 0; i < s->n_wanted; i++) {
		char text[512];
		char control[CMSG_SPACE(sizeof(int))];
		struct iovec iov = { text, sizeof(text) };
		struct msghdr msg = { .msg_iov = &iov,
				      .msg_iovlen = 1,
				      .msg_control = control,
				      .msg_controllen = sizeof(control) };
		ssize_t n = recvmsg(s->sock, &msg, MSG_CMSG_CLOEXEC);
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

		if (n < 0 || buf_append(&s->said, text, (size_t)n) < 0 ||
		    buf_puts(&s->said, "|") < 0)
			return NULL;
		if (c && c->cmsg_type == SCM_RIGHTS) {
			int fd;

			memcpy(&fd, CMSG_DATA(c), sizeof(fd));
			s->n_fds++;
			(void)close(fd);
		}
	}
	return NULL;
}

static void store_open(struct store *s)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	socklen_t len = sizeof(sa);
	char name[64] = "@";

	s->sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	cr_assert_geq(s->sock, 0);
	cr_assert_eq(bind(s->sock, (void *)&sa, sizeof(sa.sun_family)), 0);
	cr_assert_eq(getsockname(s->sock, (void *)&sa, &len), 0);
	memcpy(name + 1, sa.sun_path + 1,
	       len - offsetof(struct sockaddr_un, sun_path) - 1);
	cr_assert_eq(setenv("NOTIFY_SOCKET", name, 1), 0);
}

Test(keeper, put_stores_in_place_of_the_old_and_waits_until_it_was_read)
{
	struct store s = { .n_wanted = 3 };
	struct error err = ERROR_INIT;
	struct fd_keeper *k = NULL;
	pthread_t thread;
	int fd = memfd_create("x", MFD_CLOEXEC);

	store_open(&s);
	cr_assert_eq(fd_keeper_open(&k, &err), 0, "%s", err.msg);
	cr_expect(fd_keeper_is_durable(k));
	cr_assert_eq(pthread_create(&thread, NULL, store_run, &s), 0);
	cr_assert_eq(fd_keeper_put(k, "carrier", fd, &err), 0, "%s", err.msg);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_expect_str_eq(s.said.data, "FDSTOREREMOVE=1\nFDNAME=carrier|"
				      "FDSTORE=1\nFDNAME=carrier|BARRIER=1|");
	cr_expect_eq(s.n_fds, 2, "the descriptor and the barrier's");
	buf_fini(&s.said);
	fd_keeper_close(k);
	(void)close(s.sock);
	(void)close(fd);
}

Test(keeper, refuses_names_that_the_list_of_names_cannot_hold)
{
	static const char *const bad[] = { "", "a:b", "a\nb", "a b", "\xc3" };
	struct store s = { .n_wanted = 0 };
	struct error err = ERROR_INIT;
	struct fd_keeper *k = NULL;

	store_open(&s);
	cr_assert_eq(fd_keeper_open(&k, &err), 0, "%s", err.msg);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect_eq(fd_keeper_put(k, bad[i], 0, &err), -EINVAL, "'%s'",
			     bad[i]);
	fd_keeper_close(k);
	(void)close(s.sock);
}

Test(keeper, without_a_store_keeps_nothing_and_says_so)
{
	struct error err = ERROR_INIT;
	struct fd_keeper *k = NULL;

	(void)unsetenv("NOTIFY_SOCKET");
	cr_assert_eq(fd_keeper_open(&k, &err), 0, "%s", err.msg);
	cr_expect_not(fd_keeper_is_durable(k));
	cr_expect_eq(fd_keeper_put(k, "x", 0, &err), 0);
	cr_expect_eq(fd_keeper_drop(k, "x", &err), 0);
	cr_expect_eq(fd_keeper_take(k, "x"), -1);
	fd_keeper_close(k);
}

/* In a process of its own, for its descriptors 3 and 4 are ours to choose. */
static int take_in_child(pid_t listen_pid)
{
	struct fd_keeper *k = NULL;
	char pid[24];
	int a = memfd_create("a", 0), b = memfd_create("b", 0), got;

	a = fcntl(a, F_DUPFD, 100);
	b = fcntl(b, F_DUPFD, 100);
	if (fs_write_full(b, "bee", 3) < 0 || dup2(a, 3) < 0 || dup2(b, 4) < 0)
		return 1;
	(void)snprintf(pid, sizeof(pid), "%d",
		       (int)(listen_pid ? listen_pid : getpid()));
	(void)setenv("LISTEN_PID", pid, 1);
	(void)setenv("LISTEN_FDS", "2", 1);
	(void)setenv("LISTEN_FDNAMES", "ay:bee", 1);
	(void)unsetenv("NOTIFY_SOCKET");
	if (fd_keeper_open(&k, NULL) < 0)
		return 2;
	if (fd_keeper_take(k, "other") >= 0)
		return 3;
	got = fd_keeper_take(k, "bee");
	if (listen_pid)
		return got == -1 ? 0 : 4;
	if (got != 4 || lseek(got, 0, SEEK_END) != 3)
		return 5;
	if (!(fcntl(got, F_GETFD) & FD_CLOEXEC))
		return 6;
	return fd_keeper_take(k, "bee") == -1 ? 0 : 7;
}

static int status_of(pid_t pid)
{
	int status = -1;

	cr_assert_eq(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Test(keeper, takes_what_was_kept_by_name_and_once)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(take_in_child(0));
	cr_expect_eq(status_of(pid), 0);
}

Test(keeper, leaves_alone_what_was_meant_for_another_process)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(take_in_child(1));
	cr_expect_eq(status_of(pid), 0);
}

/* ------------------------------------------------------------------ hold --- */

static pid_t hold(const char *script, const char *arg)
{
	pid_t pid = fork();

	if (pid == 0) {
		char *argv[] = { strdup("sh"), strdup("-c"), strdup(script),
				 strdup("sh"), strdup(arg),  NULL };
		int rc = hold_run(argv, NULL);

		_exit(rc < 0 ? 99 : rc);
	}
	return pid;
}

Test(hold, ends_as_its_child_does)
{
	cr_expect_eq(status_of(hold("exit 0", "")), 0);
	cr_expect_eq(status_of(hold("exit 3", "")), 3);
	cr_expect_eq(status_of(hold("exec /nonexistent", "")), 127);
}

Test(hold, starts_a_killed_child_again)
{
	char dir[] = "/tmp/bootseer-hold.XXXXXX";
	struct error err = ERROR_INIT;

	cr_assert_not_null(mkdtemp(dir));
	/* Dies at the first two starts. */
	cr_expect_eq(status_of(hold("mkdir \"$1/a\" 2>/dev/null && kill -9 $$;"
				    "mkdir \"$1/b\" 2>/dev/null && kill -9 $$;"
				    "mkdir \"$1/c\"; exit 0",
				    dir)),
		     0);
	cr_assert_eq(chdir(dir), 0);
	cr_expect_eq(access("c", F_OK), 0);
	cr_expect_eq(fs_remove_tree(dir, &err), 0, "%s", err.msg);
}

/* Whoever knows the address "@..." can do so. */
static int send_to_holder(const char *address)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	size_t len = offsetof(struct sockaddr_un, sun_path) + strlen(address);
	int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), peer;

	memcpy(sa.sun_path + 1, address + 1, strlen(address) - 1);
	cr_assert_eq(connect(sock, (void *)&sa, (socklen_t)len), 0);
	peer = lingering_send(sock);
	cr_assert_geq(peer, 0);
	(void)close(sock);
	return peer;
}

Test(hold, nobody_else_gives_it_what_takes_long_to_close)
{
	char dir[] = "/tmp/bootseer-hold.XXXXXX", fifo[64], line[64] = "";
	struct error err = ERROR_INIT;
	int fd, peer = -1;
	pid_t pid;

	cr_assert_not_null(mkdtemp(dir));
	(void)snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
	cr_assert_eq(mkfifo(fifo, 0600), 0);
	pid = hold("echo \"a$NOTIFY_SOCKET\" >$1; exec tail -f /dev/null",
		   fifo);
	fd = open(fifo, O_RDONLY);
	cr_assert_gt(read(fd, line, sizeof(line) - 1), 0);
	(void)close(fd);
	line[strcspn(line, "\n")] = '\0';
	if (line[1])
		peer = send_to_holder(line + 1);
	cr_assert_eq(kill(pid, SIGTERM), 0);
	cr_expect_eq(status_of(pid), 128 + SIGTERM);
	cr_expect_str_eq(line, "a", "it has no address");
	if (peer >= 0)
		(void)close(peer);
	cr_expect_eq(fs_remove_tree(dir, &err), 0, "%s", err.msg);
}

Test(hold, asks_less_often_for_what_fails_for_long)
{
	int sum_ms = 0, before_ms = 0;

	cr_expect_eq(hold_delay_ms(0), 0, "a crash now and then is no fault");
	for (unsigned int n = 0; n < HOLD_QUICK_TRIES; n++) {
		cr_expect_geq(hold_delay_ms(n), before_ms);
		cr_expect_leq(hold_delay_ms(n), 2000);
		before_ms = hold_delay_ms(n);
		sum_ms += before_ms;
	}
	cr_expect_geq(sum_ms, 50000);
	cr_expect_eq(hold_delay_ms(HOLD_QUICK_TRIES), 30000);
	cr_expect_eq(hold_delay_ms(UINT_MAX), 30000);
}

Test(hold, passes_on_the_order_to_end)
{
	char dir[] = "/tmp/bootseer-hold.XXXXXX", fifo[64];
	struct error err = ERROR_INIT;
	char c;
	pid_t pid;
	int fd;

	cr_assert_not_null(mkdtemp(dir));
	(void)snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
	cr_assert_eq(mkfifo(fifo, 0600), 0);
	pid = hold("trap 'exit 5' TERM; echo up >$1; while :; do read x <$1;"
		   " done",
		   fifo);
	fd = open(fifo, O_RDONLY);
	cr_assert_eq(read(fd, &c, 1), 1);
	(void)close(fd);
	cr_assert_eq(kill(pid, SIGTERM), 0);
	cr_expect_eq(status_of(pid), 5);
	cr_expect_eq(fs_remove_tree(dir, &err), 0, "%s", err.msg);
}
