// SPDX-License-Identifier: Apache-2.0
/* Calls of an unreachable service of indexes: a port where no process listens. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "snapshotter/node/offers/offers_priv.h"

TestSuite(offers_call, .timeout = 60);

/* Bind a local port, which refuses connections as long as the socket is open. */
static int bind_port(char *url, size_t size)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_geq(fd, 0);
	cr_assert_eq(bind(fd, (struct sockaddr *)&a, len), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	(void)snprintf(url, size, "http://127.0.0.1:%u", ntohs(a.sin_port));
	return fd;
}

static int call(struct offers *o, const char *method)
{
	static const struct digest image;
	const struct offer_call c = {
		.method = method, .below = "", .image = &image, .repo = "h/app"
	};
	AUTO_BUF answer = { .limit = 4096 };

	return offers_call(o, &c, &answer, NULL);
}

Test(offers_call,
     a_silent_service_is_left_alone_by_starts_and_not_by_what_is_sent)
{
	char url[64];
	int fd = bind_port(url, sizeof(url));
	const struct service_client_config cfg = { .url = url,
						   .timeout_ms = 30000 };
	struct offers o = { .name = "n" };

	(void)pthread_mutex_init(&o.lock, NULL);
	cr_assert_eq(service_client_new(&cfg, &o.client, NULL), 0);
	cr_expect_eq(call(&o, "PUT"), -ECONNREFUSED);
	cr_expect_eq(call(&o, "GET"), -EBUSY);
	/* PUT is tried even if the service was silent a moment ago: its data took up to an hour
	 * to make. */
	cr_expect_eq(call(&o, "PUT"), -ECONNREFUSED);
	cr_expect_eq(call(&o, "POST"), -ECONNREFUSED);
	o.silent_until_ns = 0;
	cr_expect_eq(call(&o, "GET"), -ECONNREFUSED);
	cr_expect_eq(call(&o, "GET"), -EBUSY);
	service_client_free(o.client);
	(void)pthread_mutex_destroy(&o.lock);
	(void)close(fd);
}
