// SPDX-License-Identifier: Apache-2.0
/* The control socket with real connections; what it answers is made up. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "snapshotter/client.h"
#include "snapshotter/control.h"
#include "snapshotter/node/server.h"

TestSuite(control_server, .timeout = 30);

#define LINE_MAX_TEST 4096

static char dir[32];
static char path[64];
static struct loop *loop;
static struct pool *pool;
static struct server *server;
static pthread_t thread;
static atomic_int at_once, most;
static atomic_int strangers; /* lines that another process is said to say */
static pthread_barrier_t both;

/* "wait" returns when two are inside at once; everything else at once. */
static int answer(void *arg, const struct server_peer *peer, const char *line,
		  size_t len, struct buf *reply)
{
	struct control_request r;
	struct error err = ERROR_INIT;
	AUTO_JSON *result = NULL;
	int n = atomic_fetch_add(&at_once, 1) + 1;

	(void)arg;
	if (n > atomic_load(&most))
		atomic_store(&most, n);
	if (control_request_parse(line, len, &r, &err) < 0) {
		atomic_fetch_sub(&at_once, 1);
		return control_error_format(&err, reply, NULL);
	}
	if (strcmp(r.method, "wait") == 0)
		pthread_barrier_wait(&both);
	if (peer->pid != getpid() ||
	    (peer->pidfd >= 0 &&
	     pidfd_send_signal(peer->pidfd, 0, NULL, 0) < 0))
		atomic_fetch_add(&strangers, 1);
	result = json_pack("{s:s}", "method", r.method);
	control_request_fini(&r);
	atomic_fetch_sub(&at_once, 1);
	return control_reply_format(result, reply, NULL);
}

static void *run_loop(void *arg)
{
	(void)arg;
	(void)!loop_run(loop, NULL);
	server_stop(server);
	pool_free(pool);
	loop_free(loop);
	server_free(server);
	return NULL;
}

static void start(void)
{
	struct server_config cfg = { .line_max = LINE_MAX_TEST,
				     .answer = answer };
	struct error err = ERROR_INIT;

	strcpy(dir, "/tmp/server.XXXXXX");
	cr_assert(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/sock", dir);
	cr_assert_eq(pthread_barrier_init(&both, NULL, 2), 0);
	cr_assert_eq(loop_new(&loop, &err), 0);
	cr_assert_eq(pool_new(loop, 4, 0, &pool, &err), 0);
	cfg.path = path;
	cfg.loop = loop;
	cfg.pool = pool;
	cr_assert_eq(server_new(&cfg, &server, &err), 0, "%s", err.msg);
	cr_assert_eq(pthread_create(&thread, NULL, run_loop, NULL), 0);
}

static void stop(void)
{
	loop_stop(loop);
	pthread_join(thread, NULL);
	cr_expect_neq(access(path, F_OK), 0, "the socket is gone");
	rmdir(dir);
}

static int raw_connect(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(addr.sun_path, path);
	cr_assert_eq(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

/* Everything until the other side closes. */
static size_t read_all(int fd, char *out, size_t size)
{
	size_t n = 0;
	ssize_t k;

	while ((k = read(fd, out + n, size - 1 - n)) > 0)
		n += (size_t)k;
	out[n] = '\0';
	return n;
}

Test(control_server, answers_several_calls_of_one_connection)
{
	struct node_client *c = NULL;
	char *out = NULL;

	start();
	cr_assert_eq(node_client_open(path, 5000, &c, NULL), 0);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(node_call(c, "x.y", NULL, &out, NULL), 0);
		cr_expect_str_eq(out, "{\"method\":\"x.y\"}");
		free(out);
	}
	node_client_close(c);
	stop();
	cr_expect_eq(atomic_load(&strangers), 0);
}

static void *call_wait(void *arg)
{
	struct node_client *c = NULL;
	char *out = NULL;
	int rc = node_client_open(path, 20000, &c, NULL);

	(void)arg;
	if (rc == 0)
		rc = node_call(c, "wait", NULL, &out, NULL);
	free(out);
	node_client_close(c);
	return rc == 0 ? arg : NULL;
}

Test(control_server, works_for_several_connections_at_once)
{
	pthread_t t[2];
	void *ok;
	int token;

	start();
	for (int i = 0; i < 2; i++)
		cr_assert_eq(pthread_create(&t[i], NULL, call_wait, &token), 0);
	for (int i = 0; i < 2; i++) {
		pthread_join(t[i], &ok);
		cr_expect_not_null(ok);
	}
	cr_expect_eq(atomic_load(&most), 2);
	stop();
}

Test(control_server, answers_lines_that_came_together_in_order)
{
	static const char two[] = "{\"bootseer\":1,\"method\":\"a\"}\n"
				  "{\"bootseer\":1,\"method\":\"b\"}\n";
	char out[1024];
	size_t n = 0;
	int fd;

	start();
	fd = raw_connect();
	cr_assert_eq(write(fd, two, sizeof(two) - 1), (ssize_t)sizeof(two) - 1);
	while (n == 0 || !strstr(out, "\"b\"")) {
		ssize_t k = read(fd, out + n, sizeof(out) - 1 - n);

		cr_assert_gt(k, 0);
		n += (size_t)k;
		out[n] = '\0';
	}
	cr_expect_lt((void *)strstr(out, "\"a\""),
		     (void *)strstr(out, "\"b\""));
	close(fd);
	stop();
}

Test(control_server, refuses_a_line_that_is_too_long_and_closes)
{
	char line[2 * LINE_MAX_TEST], out[1024];
	int fd;

	start();
	fd = raw_connect();
	memset(line, 'x', sizeof(line));
	cr_assert_eq(write(fd, line, sizeof(line)), (ssize_t)sizeof(line));
	read_all(fd, out, sizeof(out));
	cr_expect(strstr(out, "too long"), "%s", out);
	close(fd);
	stop();
}

Test(control_server, survives_peers_that_leave_in_the_middle)
{
	struct node_client *c = NULL;
	char *out = NULL;
	int fd;

	start();
	for (int i = 0; i < 20; i++) {
		fd = raw_connect();
		cr_assert_gt(write(fd, "{\"bootseer\":1,\"method\":\"z\"}\n{",
				   30),
			     0);
		close(fd);
	}
	cr_assert_eq(node_client_open(path, 5000, &c, NULL), 0);
	cr_expect_eq(node_call(c, "still", NULL, &out, NULL), 0);
	free(out);
	node_client_close(c);
	stop();
}

Test(control_server, closes_what_is_beyond_its_connections)
{
	int fds[SERVER_CONNECTIONS_MAX + 1];
	char byte;
	int i;

	start();
	for (i = 0; i <= SERVER_CONNECTIONS_MAX; i++)
		fds[i] = raw_connect();
	cr_expect_eq(read(fds[SERVER_CONNECTIONS_MAX], &byte, 1), 0);
	for (i = 0; i <= SERVER_CONNECTIONS_MAX; i++)
		close(fds[i]);
	stop();
}

/* A second server beside the one of start(), on its own loop. */
static int second_server(struct error *err)
{
	struct server_config cfg = { .answer = answer,
				     .line_max = 100,
				     .path = path };
	struct server *s = NULL;
	int rc;

	cr_assert_eq(loop_new(&cfg.loop, NULL), 0);
	cr_assert_eq(pool_new(cfg.loop, 1, 0, &cfg.pool, NULL), 0);
	rc = server_new(&cfg, &s, err);
	if (rc == 0)
		server_stop(s);
	pool_free(cfg.pool);
	loop_free(cfg.loop);
	server_free(s);
	return rc;
}

Test(control_server, takes_over_a_socket_that_a_crash_left_but_no_other)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct error err = ERROR_INIT;
	int fd;

	start();
	cr_expect_eq(second_server(&err), -EADDRINUSE);
	stop();

	cr_assert(mkdir(dir, 0700) == 0);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	strcpy(addr.sun_path, path);
	cr_assert_eq(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	close(fd);
	cr_expect_eq(second_server(&err), 0, "%s", err.msg);
	rmdir(dir);
}
