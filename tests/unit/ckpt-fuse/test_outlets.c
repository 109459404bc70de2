// SPDX-License-Identifier: Apache-2.0
/* Tests a mount's figures over HTTP, and the end of the mount. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ckpt-fuse/mount/outlets.h"
#include "net/pool.h"

TestSuite(outlets, .timeout = 120);

static sem_t asked, may_go_on;

/* Replaces the function of the mount. */
int __wrap_ckpt_mount_metrics(struct ckpt_mount *m, struct buf *ret);
int __wrap_ckpt_mount_metrics(struct ckpt_mount *m, struct buf *ret)
{
	(void)m;
	(void)sem_post(&asked);
	while (sem_wait(&may_go_on) < 0)
		;
	return buf_puts(ret, "figure 1\n");
}

/* The figures arrive when the mount's end waits for them. */
void __real_pool_free(struct pool *p);
void __wrap_pool_free(struct pool *p);
void __wrap_pool_free(struct pool *p)
{
	/* lld also wraps the calls within pool.c, with NULL. */
	if (p)
		(void)sem_post(&may_go_on);
	__real_pool_free(p);
}

Test(outlets, end_while_figures_are_summed_up)
{
	static const char head[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
	static char dir[] = "/tmp/bootseer-outlets.XXXXXX",
		    at[] = "127.0.0.1:0";
	static struct ckpt_mount_config cfg = { .run_dir = dir, .metrics = at };
	static struct ckpt_mount mount = { .cfg = &cfg };
	const struct outlets_config oc = { .mount = &mount, .path = "/mnt" };
	struct error err = ERROR_INIT;
	struct outlets *o = NULL;
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	char byte;
	int fd;

	cr_assert_eq(sem_init(&asked, 0, 0), 0);
	cr_assert_eq(sem_init(&may_go_on, 0, 0), 0);
	cr_assert(mkdtemp(dir));
	cr_assert_eq(outlets_new(&oc, &o, &err), 0, "%s", err.msg);
	to.sin_port = htons((uint16_t)outlets_port(o));
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_geq(fd, 0);
	cr_assert_eq(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
	cr_assert_eq(send(fd, head, strlen(head), 0), (ssize_t)strlen(head));
	while (sem_wait(&asked) < 0)
		;
	outlets_free(o);
	/* The client got no answer. */
	cr_expect_leq(recv(fd, &byte, 1, 0), 0);
	(void)close(fd);
	cr_expect_eq(rmdir(dir), 0);
}
