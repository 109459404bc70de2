// SPDX-License-Identifier: Apache-2.0
#include "cli/env_pod.h"
#include "common/buf.h"
#include "net/control.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

TestSuite(env_pod, .timeout = 60);

/* Call a peer that sends SAID, if anything, and closes before the request.  Returns the call's
 * result. */
static int call_one_that_left(const char *said, struct error *err)
{
	json_t *params = json_object();
	int ends[2];
	int rc;

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends),
		     0);
	if (said)
		cr_assert_eq(write(ends[1], said, strlen(said)),
			     (ssize_t)strlen(said));
	cr_assert_eq(close(ends[1]), 0);
	rc = env_pod_call(ends[0], "environment.open", params, 10, NULL, err);
	json_decref(params);
	cr_assert_eq(close(ends[0]), 0);
	return rc;
}

Test(env_pod, the_reason_of_one_that_takes_no_question_is_read)
{
	const struct error why = { .code = EPERM, .msg = "for containers" };
	struct error err = ERROR_INIT;
	struct buf line = BUF_INIT;

	cr_assert_eq(control_error_format(&why, &line, NULL), 0);
	cr_assert_eq(buf_append(&line, "", 1), 0);
	cr_assert_lt(call_one_that_left(line.data, &err), 0);
	cr_assert(strstr(err.msg, "for containers"), "%s", err.msg);
	buf_fini(&line);
}

Test(env_pod, one_that_left_without_a_word_took_no_question)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(call_one_that_left(NULL, &err), -EPIPE);
	cr_assert(strstr(err.msg, "no line is taken"), "%s", err.msg);
}
