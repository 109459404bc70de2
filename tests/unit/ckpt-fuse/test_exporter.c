// SPDX-License-Identifier: Apache-2.0
/* A mount's figures over HTTP, and the mount's end. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ckpt-fuse/mount/exporter.h"
#include "net/pool.h"

TestSuite(exporter, .timeout = 120);

static sem_t asked, may_go_on;

/* Instead of the mount's. */
int __wrap_ckpt_mount_metrics(struct ckpt_mount *m, struct buf *ret);
int __wrap_ckpt_mount_metrics(struct ckpt_mount *m, struct buf *ret)
{
	(void)m;
	(void)sem_post(&asked);
	while (sem_wait(&may_go_on) < 0)
		;
	return buf_puts(ret, "figure 1\n");
}

/* A port that was free a moment ago. */
static struct sockaddr_in free_port(char text[32])
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_geq(fd, 0);
	cr_assert_eq(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	(void)close(fd);
	(void)snprintf(text, 32, "127.0.0.1:%u", ntohs(at.sin_port));
	return at;
}

/* The figures come when the mount's end waits for them. */
void __real_pool_free(struct pool *p);
void __wrap_pool_free(struct pool *p);
void __wrap_pool_free(struct pool *p)
{
	(void)sem_post(&may_go_on);
	__real_pool_free(p);
}

Test(exporter, ends_while_its_figures_are_summed_up)
{
	static const char head[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
	struct error err = ERROR_INIT;
	struct exporter *e = NULL;
	struct sockaddr_in to;
	char at[32];
	int fd;

	cr_assert_eq(sem_init(&asked, 0, 0), 0);
	cr_assert_eq(sem_init(&may_go_on, 0, 0), 0);
	to = free_port(at);
	cr_assert_eq(exporter_new(at, NULL, &e, &err), 0, "%s", err.msg);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_geq(fd, 0);
	cr_assert_eq(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
	cr_assert_eq(send(fd, head, strlen(head), 0), (ssize_t)strlen(head));
	while (sem_wait(&asked) < 0)
		;
	exporter_free(e);
	/* Nobody was answered. */
	cr_expect_leq(recv(fd, at, 1, 0), 0);
	(void)close(fd);
}
