// SPDX-License-Identifier: Apache-2.0
#include "image/writer/spill.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "common/buf.h"

TestSuite(spill, .timeout = 120);

#define PUTS 100000 /* of 1000 bytes: more than one mapping */

static uint8_t byte_of(size_t put, size_t at)
{
	return (uint8_t)(put * 31 + at);
}

static void expect_put(const uint8_t *p, size_t put, size_t len)
{
	for (size_t i = 0; i < len; i++)
		cr_assert_eq(p[i], byte_of(put, i), "%zu at %zu", put, i);
}

Test(spill, gives_back_what_was_put_forgotten_or_not)
{
	AUTO_FREE const uint8_t **at = calloc(PUTS, sizeof(*at));
	AUTO(spill) s = NULL;
	struct error err;
	uint8_t data[1000];

	cr_assert_not_null(at);
	cr_assert_eq(spill_new(NULL, &s, &err), 0, "%s", err.msg);
	for (size_t k = 0; k < PUTS; k++) {
		size_t len = 1 + k % sizeof(data);

		for (size_t i = 0; i < len; i++)
			data[i] = byte_of(k, i);
		cr_assert_eq(spill_put(s, data, len, &at[k], &err), 0);
	}
	cr_assert_eq(spill_flush(s, &err), 0);
	for (size_t k = 0; k < PUTS; k++) {
		expect_put(at[k], k, 1 + k % sizeof(data));
		if (k % 1000 == 0)
			spill_forget(s);
	}
}

Test(spill, refuses_more_than_it_may_hold)
{
	AUTO_FREE uint8_t *data = calloc(1, SPILL_ONE_MAX + 1);
	const uint8_t *at;
	AUTO(spill) s = NULL;
	struct error err;

	cr_assert_not_null(data);
	cr_assert_eq(spill_new(NULL, &s, &err), 0);
	cr_expect_eq(spill_put(s, data, SPILL_ONE_MAX + 1, &at, &err), -EINVAL);
	cr_expect_eq(spill_put(s, data, SPILL_ONE_MAX, &at, &err), 0);
}

Test(spill, needs_a_folder)
{
	AUTO(spill) s = NULL;
	struct error err;

	cr_expect_eq(spill_new("/nowhere/at/all", &s, &err), -ENOENT);
}
