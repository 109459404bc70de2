// SPDX-License-Identifier: Apache-2.0
/* A name that nobody looks up in time: getaddrinfo() is this test's. */
#include <criterion/criterion.h>
#include <errno.h>
#include <netdb.h>
#include <semaphore.h>

#include "net/http.h"

TestSuite(http_name, .timeout = 60);

static sem_t asked, may_answer;

int getaddrinfo(const char *node, const char *service,
		const struct addrinfo *hints, struct addrinfo **ret)
{
	(void)sem_post(&asked);
	(void)sem_wait(&may_answer);
	return EAI_AGAIN;
}

Test(http_name, a_deadline_holds_while_a_name_is_looked_up)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	struct http_config cfg = { .allow_plain = true,
				   .is_direct = true,
				   .connect_timeout_ms = 100 };
	struct http_request req = { .method = "GET",
				    .url = "http://slow.example/" };
	struct error err = ERROR_INIT;
	struct http *c;

	cr_assert_eq(sem_init(&asked, 0, 0), 0);
	cr_assert_eq(sem_init(&may_answer, 0, 0), 0);
	cr_assert_eq(http_new(&cfg, &c, &err), 0, "%s", err.msg);
	cr_expect_eq(http_do(c, &req, &r, &err), -ETIMEDOUT, "%s", err.msg);
	http_free(c);
	cr_assert_eq(sem_wait(&asked), 0);
	cr_assert_eq(sem_post(&may_answer), 0);
	http_response_fini(&r);
}
