// SPDX-License-Identifier: Apache-2.0
/* Tests checks of the database while another check is running. */
#include <criterion/criterion.h>
#include <errno.h>

#include "registry/readiness.h"

TestSuite(readiness, .timeout = 60);

struct ping {
	struct readiness *r;
	int64_t now_ns; /* time of the second check */
	int rc, meanwhile;
	unsigned int n;
};

static int answer(void *arg, struct error *err)
{
	struct ping *p = arg;

	p->n++;
	return p->rc < 0 ? error_set(err, -p->rc, "it is gone") : 0;
}

/* A ping during which a second check is made. */
static int answer_late(void *arg, struct error *err)
{
	struct ping *p = arg;
	struct error other = ERROR_INIT;

	p->meanwhile = readiness_ask(p->r, p->now_ns, answer_late, arg, &other);
	return answer(arg, err);
}

Test(readiness, asks_once_at_a_time_and_tells_others_what_was_said_last)
{
	struct readiness r;
	struct ping p = { .r = &r };
	struct error err = ERROR_INIT;

	readiness_init(&r);
	cr_expect_eq(readiness_ask(&r, 0, answer_late, &p, &err), 0);
	cr_expect_eq(p.n, 1);
	cr_expect_eq(p.meanwhile, -EBUSY, "nothing was known");
	cr_expect_eq(readiness_ask(&r, 0, answer_late, &p, &err), 0);
	cr_expect_eq(p.n, 2);
	cr_expect_eq(p.meanwhile, 0);
	p.now_ns = READINESS_LATE_NS + 1;
	cr_expect_eq(readiness_ask(&r, 0, answer_late, &p, &err), 0);
	cr_expect_eq(p.meanwhile, -EBUSY, "it hangs");
	p.now_ns = 0;
	p.rc = -ECONNREFUSED;
	cr_expect_eq(readiness_ask(&r, 0, answer, &p, &err), -ECONNREFUSED);
	cr_expect_eq(readiness_ask(&r, 0, answer_late, &p, &err),
		     -ECONNREFUSED);
	cr_expect_eq(p.meanwhile, -ECONNREFUSED);
	readiness_fini(&r);
}
