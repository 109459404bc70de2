// SPDX-License-Identifier: Apache-2.0
/* Replies of the service with absurd numbers. */
#include <criterion/criterion.h>

#include "common/clock.h"
#include "envcache/service_calls.h"
#include "net/service_client.h"
#include "tests/unit/one_answer.h"

TestSuite(env_service_calls, .timeout = 60);

#define CAPTURE "0123456789abcdef0123456789abcdef"
#define DIGEST "sha256:" CAPTURE CAPTURE
#define LEAST "-9223372036854775808"
#define MOST "9223372036854775807"

static void get_environment(const char *now, const char *made,
			    struct env_said *ret)
{
	struct service_client_config cfg = { .timeout_ms = 10000 };
	struct env_calls calls = { .repo = "r" };
	AUTO(service_client) client = NULL;
	struct error err = ERROR_INIT;
	struct one_answer s;
	struct digest key;
	char json[1024];

	(void)snprintf(json, sizeof(json),
		       "{\"now_ms\":%s,\"snapshot\":{\"key\":\"" DIGEST
		       "\",\"capture\":\"" CAPTURE
		       "\",\"description\":\"" DIGEST
		       "\",\"made_ms\":%s,\"used_ms\":%s}}",
		       now, made, made);
	cr_assert_eq(digest_parse(DIGEST, &key, &err), 0);
	one_answer_start(&s, json);
	cfg.url = s.url;
	cr_assert_eq(service_client_new(&cfg, &client, &err), 0, "%s", err.msg);
	calls.client = client;
	cr_expect_eq(env_calls_get(&calls, &key, ret, &err), 0, "%s", err.msg);
	one_answer_end(&s);
}

Test(env_service_calls, times_that_make_no_sense_are_counted_with)
{
	static const char *const times[][2] = {
		{ "7", LEAST },  { "7", MOST },     { LEAST, "7" },
		{ MOST, "7" },   { MOST, LEAST },   { LEAST, MOST },
		{ "\"\"", "7" }, { "null", "1.5" },
	};
	struct env_said said;

	get_environment("70", "7", &said);
	cr_expect_eq(said.age_ms, 63);
	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		int64_t at;

		get_environment(times[i][0], times[i][1], &said);
		/* Computed as in the catalog, with a clock other than the service's. */
		cr_expect_not(__builtin_sub_overflow(clock_wall_ms(),
						     said.age_ms, &at),
			      "%zu", i);
		cr_expect_not(__builtin_sub_overflow(clock_wall_ms(),
						     said.unused_ms, &at),
			      "%zu", i);
	}
}
