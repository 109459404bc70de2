// SPDX-License-Identifier: Apache-2.0
/* Tests with a service that returns an impossible time. */
#include <criterion/criterion.h>
#include <errno.h>

#include "common/buf.h"
#include "profiler/send/send.h"
#include "tests/unit/one_answer.h"

TestSuite(stage_send, .timeout = 60);

Test(stage_send, is_not_set_to_a_clock_that_makes_no_sense)
{
	static const char *const clocks[] = {
		"{\"now_ns\":-9223372036854775808}", "{\"now_ns\":0}", "{}",
		"[]"
	};

	for (size_t i = 0; i < ARRAY_SIZE(clocks); i++) {
		struct service_client_config cfg = { .timeout_ms = 10000 };
		AUTO(service_client) client = NULL;
		struct error err = ERROR_INIT;
		AUTO_BUF clock = BUF_INIT;
		struct one_answer s;

		one_answer_start(&s, clocks[i]);
		cfg.url = s.url;
		cr_assert_eq(service_client_new(&cfg, &client, &err), 0, "%s",
			     err.msg);
		cr_expect_eq(stage_clock_exchange(client, "n", &clock, &err),
			     -EPROTO, "%zu", i);
		one_answer_end(&s);
	}
}
