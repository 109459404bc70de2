// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/one_answer.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void *answer_one(void *arg)
{
	const struct one_answer *s = arg;
	int c = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC);
	char text[8192];
	size_t n = 0;
	ssize_t k = 1;

	text[0] = '\0';
	while (k > 0 && !strstr(text, "\r\n\r\n")) {
		k = read(c, text + n, sizeof(text) - 1 - n);
		n += k > 0 ? (size_t)k : 0;
		text[n] = '\0';
	}
	cr_expect_gt(
		dprintf(c,
			"HTTP/1.1 200 OK\r\nContent-Type: "
			"application/json\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
			strlen(s->json), s->json),
		0);
	/* A body that came behind the head would reset the connection. */
	(void)shutdown(c, SHUT_WR);
	while (read(c, text, sizeof(text)) > 0)
		;
	close(c);
	return NULL;
}

void one_answer_start(struct one_answer *s, const char *json)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);

	(void)setenv("no_proxy", "*", 1);
	s->json = json;
	s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(s->fd, (struct sockaddr *)&a, len), 0);
	cr_assert_eq(listen(s->fd, 4), 0);
	cr_assert_eq(getsockname(s->fd, (struct sockaddr *)&a, &len), 0);
	(void)snprintf(s->url, sizeof(s->url), "http://127.0.0.1:%u",
		       ntohs(a.sin_port));
	cr_assert_eq(pthread_create(&s->thread, NULL, answer_one, s), 0);
}

void one_answer_end(struct one_answer *s)
{
	cr_assert_eq(pthread_join(s->thread, NULL), 0);
	close(s->fd);
}
