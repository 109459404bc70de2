// SPDX-License-Identifier: Apache-2.0
/* GET /metrics while the figures take their time. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <sys/socket.h>

#include "net/control_server.h"
#include "net/pool.h"

TestSuite(metrics, .timeout = 60);

static sem_t asked, may_go_on;
static struct loop *loop;

/* The figures come when the loop has done something else. */
static int slow_text(void *arg, struct buf *ret)
{
	(void)sem_post(&asked);
	while (sem_wait(&may_go_on) < 0)
		;
	return buf_puts(ret, "figure 1\n");
}

static int answer(void *arg, struct control_call *call, struct buf *reply)
{
	return control_figures(call, slow_text, arg, reply);
}

static struct pool *pool;
static struct control_server *server;

static void server_start(void)
{
	struct control_server_config cfg = { .name = "metrics",
					     .listen = "127.0.0.1:0",
					     .option = "--metrics",
					     .answer = answer };
	struct error err = ERROR_INIT;

	cr_assert_eq(loop_new(&loop, &err), 0, "%s", err.msg);
	cr_assert_eq(pool_new(loop, 1, 64, &pool, &err), 0, "%s", err.msg);
	cfg.loop = loop;
	cfg.pools[CONTROL_QUICK] = pool;
	cr_assert_eq(control_server_new(&cfg, &server, &err), 0, "%s", err.msg);
}

static void server_end(void)
{
	control_server_stop(server);
	pool_free(pool);
	loop_free(loop);
	control_server_free(server);
}

static void let_go_on(struct loop_call *c)
{
	(void)sem_post(&may_go_on);
}

static int ask(unsigned int port)
{
	static const char head[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n"
				   "Connection: close\r\n\r\n";
	const struct sockaddr_in to = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_geq(fd, 0);
	cr_assert_eq(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
	cr_assert_eq(send(fd, head, strlen(head), 0), (ssize_t)strlen(head));
	return fd;
}

struct client {
	unsigned int port;
	char text[1024];
};

static void *client_main(void *arg)
{
	static struct loop_call call = { .fn = let_go_on };
	struct client *c = arg;
	int fd = ask(c->port);
	size_t n = 0;
	ssize_t got;

	while (sem_wait(&asked) < 0)
		;
	loop_post(loop, &call);
	while ((got = recv(fd, c->text + n, sizeof(c->text) - 1 - n, 0)) > 0)
		n += (size_t)got;
	(void)close(fd);
	loop_stop(loop);
	return NULL;
}

Test(metrics, figures_that_take_long_keep_nothing_else_waiting)
{
	struct error err = ERROR_INIT;
	struct client c = { .port = 0 };
	pthread_t thread;

	cr_assert_eq(sem_init(&asked, 0, 0), 0);
	cr_assert_eq(sem_init(&may_go_on, 0, 0), 0);
	server_start();
	c.port = control_server_port(server);
	cr_assert_eq(pthread_create(&thread, NULL, client_main, &c), 0);
	cr_assert_eq(loop_run(loop, &err), 0, "%s", err.msg);
	(void)pthread_join(thread, NULL);
	server_end();
	cr_expect(strstr(c.text, "200 OK") && strstr(c.text, "figure 1"), "%s",
		  c.text);
}

/* Whoever asked has left, and the daemon ends. */
Test(metrics, an_answer_that_nobody_takes_is_dropped_at_the_end)
{
	struct error err = ERROR_INIT;
	struct client c = { .port = 0 };
	pthread_t thread;

	cr_assert_eq(sem_init(&asked, 0, 0), 0);
	cr_assert_eq(sem_init(&may_go_on, 0, 2), 0);
	server_start();
	c.port = control_server_port(server);
	cr_assert_eq(pthread_create(&thread, NULL, client_main, &c), 0);
	cr_assert_eq(loop_run(loop, &err), 0, "%s", err.msg);
	(void)pthread_join(thread, NULL);
	(void)close(ask(c.port));
	server_end();
}
