// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/clock.h"
#include "net/listen_address.h"
#include "net/listener.h"
#include "tests/unit/accepts.h"

TestSuite(listener, .timeout = 120);

struct guests {
	struct listener listener;
	struct loop *loop;
	struct loop_timer look;
	char dir[32], path[64];
	int n;          /* accepted */
	int stop_at;    /* accepted: ends the loop */
	bool has_pause; /* that one pauses the listener, too */
	int starve_to; /* accepts that found no descriptor: the same; 0: none */
};

static void on_accepted(struct listener *l, int fd,
			const struct sockaddr_storage *from)
{
	struct guests *g = container_of(l, struct guests, listener);

	cr_expect_eq(from->ss_family, AF_UNIX);
	cr_expect(fcntl(fd, F_GETFL) & O_NONBLOCK);
	cr_expect(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
	if (++g->n < g->stop_at)
		return;
	loop_stop(g->loop);
	if (g->has_pause)
		listener_pause(l);
}

static void on_look(struct loop_timer *t)
{
	struct guests *g = container_of(t, struct guests, look);

	if (atomic_load(&accepts_starved) >= g->starve_to)
		loop_stop(g->loop);
	else
		cr_assert_eq(loop_timer_start(g->loop, t, 1000000, NULL), 0);
}

static void begin(struct guests *g)
{
	struct error err = ERROR_INIT;
	int fd = -1;

	strcpy(g->dir, "/tmp/listener.XXXXXX");
	cr_assert(mkdtemp(g->dir));
	(void)snprintf(g->path, sizeof(g->path), "%s/sock", g->dir);
	cr_assert_eq(loop_new(&g->loop, &err), 0);
	g->listener.name = "guests";
	g->listener.accepted = on_accepted;
	g->look.fn = on_look;
	cr_assert_eq(listener_open_unix(g->path, 0600, 64, "", &fd, &err), 0,
		     "%s", err.msg);
	cr_assert_eq(listener_start(&g->listener, g->loop, fd, &err), 0, "%s",
		     err.msg);
}

static void end(struct guests *g)
{
	listener_stop(&g->listener);
	listener_stop(&g->listener);
	loop_timer_stop(&g->look);
	loop_free(g->loop);
	cr_expect_eq(unlink(g->path), 0);
	cr_expect_eq(rmdir(g->dir), 0, "nothing else was left there");
}

static int guest_new(int flags)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);

	cr_assert_geq(fd, 0);
	return fd;
}

static int call(int fd, const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	strcpy(addr.sun_path, path);
	return connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ? -errno
								       : 0;
}

static void run(struct guests *g)
{
	cr_assert_eq(loop_run(g->loop, NULL), 0);
}

/* ------------------------------------------------------------- accepting --- */

Test(listener, accepts_all_that_wait)
{
	struct guests g = { .stop_at = 3 };
	int fds[3];

	begin(&g);
	for (int i = 0; i < 3; i++) {
		fds[i] = guest_new(0);
		cr_assert_eq(call(fds[i], g.path), 0);
	}
	run(&g);
	cr_expect_eq(g.n, 3);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	end(&g);
}

static int lines_in(int fd)
{
	char text[4096];
	ssize_t len = read(fd, text, sizeof(text));
	int n = 0;

	for (ssize_t i = 0; i < len; i++)
		n += text[i] == '\n';
	return n;
}

Test(listener, pauses_while_descriptors_are_short_and_says_so_once)
{
	struct guests g = { .starve_to = 4, .stop_at = 1 };
	int fd = guest_new(0), log[2], stderr_copy = dup(STDERR_FILENO);
	int64_t begun;

	begin(&g);
	cr_assert_eq(call(fd, g.path), 0);
	cr_assert_eq(pipe2(log, O_CLOEXEC | O_NONBLOCK), 0);
	cr_assert_geq(dup2(log[1], STDERR_FILENO), 0);
	accepts_starve();
	begun = clock_now_ns();
	on_look(&g.look);
	run(&g);
	/* Between two of them there is a pause: a time of load only adds. */
	cr_expect_geq(clock_now_ns() - begun,
		      (atomic_load(&accepts_starved) - 1) * SHORTAGE_PAUSE_NS);
	cr_expect_eq(g.n, 0);
	accepts_feed();
	run(&g);
	cr_expect_eq(g.n, 1);
	cr_expect_eq(g.listener.shortage.total, 4);
	cr_assert_geq(dup2(stderr_copy, STDERR_FILENO), 0);
	cr_expect_eq(lines_in(log[0]), 1);
	close(log[0]);
	close(log[1]);
	close(stderr_copy);
	close(fd);
	end(&g);
}

Test(listener, leaves_connections_waiting_while_it_pauses)
{
	struct guests g = { .stop_at = 1, .has_pause = true };
	int fds[2];

	begin(&g);
	for (int i = 0; i < 2; i++) {
		fds[i] = guest_new(0);
		cr_assert_eq(call(fds[i], g.path), 0);
	}
	run(&g);
	cr_expect_eq(g.n, 1);
	g.stop_at = 2;
	listener_resume(&g.listener);
	run(&g);
	cr_expect_eq(g.n, 2);
	for (int i = 0; i < 2; i++)
		close(fds[i]);
	end(&g);
}

/* --------------------------------------------------------------- sockets --- */

Test(listener, takes_no_socket_that_is_served_even_if_its_queue_is_full)
{
	char dir[] = "/tmp/listener.XXXXXX", path[64];
	struct error err = ERROR_INIT;
	int fd = -1, second = -1, fds[3], n = 0;

	cr_assert(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/sock", dir);
	cr_assert_eq(listener_open_unix(path, 0600, 0, "", &fd, &err), 0, "%s",
		     err.msg);
	do {
		cr_assert_lt(n, 3);
		fds[n] = guest_new(SOCK_NONBLOCK);
	} while (call(fds[n++], path) == 0);
	cr_expect_eq(listener_open_unix(path, 0600, 0, "name another", &second,
					&err),
		     -EADDRINUSE);
	cr_expect(strstr(err.msg, path) && strstr(err.msg, "name another"),
		  "%s", err.msg);
	while (n--)
		close(fds[n]);
	close(fd);
	unlink(path);
	rmdir(dir);
}

Test(listener, replaces_a_socket_that_is_left_with_the_mode_that_is_wanted)
{
	char dir[] = "/tmp/listener.XXXXXX", path[64];
	struct error err = ERROR_INIT;
	struct stat st;
	int fd = -1, guest = guest_new(0);

	cr_assert(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/sock", dir);
	cr_assert_eq(listener_open_unix(path, 0600, 1, "", &fd, &err), 0);
	cr_assert_eq(stat(path, &st), 0);
	cr_expect_eq(st.st_mode & 07777, 0600);
	close(fd);
	cr_assert_eq(listener_open_unix(path, 0666, 1, "", &fd, &err), 0, "%s",
		     err.msg);
	cr_assert_eq(stat(path, &st), 0);
	cr_expect_eq(st.st_mode & 07777, 0666);
	cr_expect_eq(call(guest, path), 0);
	close(guest);
	close(fd);
	cr_expect_eq(unlink(path), 0);
	cr_expect_eq(rmdir(dir), 0, "its other name is gone");
}

Test(listener, removes_nothing_that_is_no_socket)
{
	char dir[] = "/tmp/listener.XXXXXX", path[200];
	struct error err = ERROR_INIT;
	int fd = -1, file;

	cr_assert(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/sock", dir);
	file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	cr_assert_geq(file, 0);
	close(file);
	cr_expect_eq(listener_open_unix(path, 0600, 1, "", &fd, &err), -EEXIST);
	cr_expect_eq(unlink(path), 0);
	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	cr_expect_eq(listener_open_unix(path, 0600, 1, "a cure", &fd, &err),
		     -ENAMETOOLONG);
	cr_expect(strstr(err.msg, "a cure"), "%s", err.msg);
	rmdir(dir);
}

Test(listener, says_which_option_names_an_address_that_is_taken)
{
	AUTO(loop) loop = NULL;
	struct listener l = { .name = "tcp", .accepted = on_accepted };
	struct error err = ERROR_INIT;
	struct sockaddr_storage addr;
	char taken[32];
	socklen_t len;
	int fd = -1;

	cr_assert_eq(loop_new(&loop, &err), 0);
	cr_assert_eq(listen_address_parse("--a", "127.0.0.1:0", &addr, &len,
					  &err),
		     0);
	cr_assert_eq(listener_open_tcp(&addr, len, 1, "--a", "127.0.0.1:0", &fd,
				       &err),
		     0);
	cr_assert_eq(listener_start(&l, loop, fd, &err), 0);
	(void)snprintf(taken, sizeof(taken), "127.0.0.1:%u", listener_port(&l));
	cr_assert_eq(listen_address_parse("--a", taken, &addr, &len, &err), 0);
	cr_expect_eq(listener_open_tcp(&addr, len, 1, "--a", taken, &fd, &err),
		     -EADDRINUSE);
	cr_expect(strstr(err.msg, "--a") && strstr(err.msg, taken), "%s",
		  err.msg);
	listener_stop(&l);
}
