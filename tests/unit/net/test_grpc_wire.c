// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "net/grpc_wire.h"

TestSuite(grpc_wire, .timeout = 120);

Test(grpc_wire, a_message_is_collected_from_pieces_of_any_size)
{
	static const uint8_t bytes[] = "\0\0\0\0\3abc";

	for (size_t piece = 1; piece <= 8; piece++) {
		struct grpc_message m = { .n_prefix = 0 };

		for (size_t i = 0; i < 8; i += piece) {
			size_t n = 8 - i < piece ? 8 - i : piece;

			cr_assert_eq(grpc_message_feed(&m, bytes + i, n, 100,
						       NULL),
				     0);
		}
		cr_expect_eq(grpc_message_check_end(&m, NULL), 0);
		cr_assert_eq(m.body.len, 3);
		cr_expect_eq(memcmp(m.body.data, "abc", 3), 0);
		grpc_message_fini(&m);
	}
}

static int feed(const void *bytes, size_t len, size_t max)
{
	struct grpc_message m = { .n_prefix = 0 };
	int rc = grpc_message_feed(&m, bytes, len, max, NULL);

	grpc_message_fini(&m);
	return rc;
}

Test(grpc_wire, bad_messages_are_refused)
{
	cr_expect_eq(feed("\1\0\0\0\0", 5, 100), -ENOSYS);
	cr_expect_eq(feed("\0\0\0\0\3", 5, 2), -EMSGSIZE);
	cr_expect_eq(feed("\0\xff\xff\xff\xff", 5, 1 << 20), -EMSGSIZE);
	cr_expect_eq(feed("\0\0\0\0\1ab", 7, 100), -EINVAL);
	cr_expect_eq(feed("\0\0\0\0\0\0", 6, 100), -EINVAL);
}

Test(grpc_wire, an_incomplete_message_is_told)
{
	struct grpc_message m = { .n_prefix = 0 };
	const uint8_t *bytes = (const uint8_t *)"\0\0\0\0\2a";

	cr_expect_eq(grpc_message_check_end(&m, NULL), -EINVAL);
	cr_assert_eq(grpc_message_feed(&m, bytes, 5, 100, NULL), 0);
	cr_expect_eq(grpc_message_check_end(&m, NULL), -EINVAL);
	cr_assert_eq(grpc_message_feed(&m, bytes + 5, 1, 100, NULL), 0);
	cr_expect_eq(grpc_message_check_end(&m, NULL), -EINVAL);
	grpc_message_fini(&m);
}

static int64_t timeout(const char *text)
{
	int64_t ns = -1;
	int rc = grpc_timeout_parse(text, strlen(text), &ns);

	return rc < 0 ? rc : ns;
}

Test(grpc_wire, timeouts_have_units_and_a_bound)
{
	cr_expect_eq(timeout("120994m"), INT64_C(120994000000));
	cr_expect_eq(timeout("1S"), INT64_C(1000000000));
	cr_expect_eq(timeout("5u"), 5000);
	cr_expect_eq(timeout("7n"), 7);
	cr_expect_eq(timeout("2M"), INT64_C(120000000000));
	cr_expect_eq(timeout("0S"), 0);
	cr_expect_gt(timeout("99999999H"), 0);
	cr_expect_eq(timeout("S"), -EINVAL);
	cr_expect_eq(timeout("1"), -EINVAL);
	cr_expect_eq(timeout("-1S"), -EINVAL);
	cr_expect_eq(timeout("1s"), -EINVAL);
	cr_expect_eq(timeout("123456789S"), -EINVAL);
}

Test(grpc_wire, messages_are_percent_encoded)
{
	AUTO_BUF b = BUF_INIT;

	cr_assert_eq(grpc_percent_encode("a b%\n\xc3\xa4", &b), 0);
	cr_expect_str_eq(b.data, "a b%25%0A%C3%A4");
}

Test(grpc_wire, errors_have_the_status_that_containerd_expects)
{
	cr_expect_eq(grpc_status_of_errno(ENOENT), GRPC_STATUS_NOT_FOUND);
	cr_expect_eq(grpc_status_of_errno(EEXIST), GRPC_STATUS_ALREADY_EXISTS);
	cr_expect_eq(grpc_status_of_errno(EBUSY),
		     GRPC_STATUS_FAILED_PRECONDITION);
	cr_expect_eq(grpc_status_of_errno(EHOSTDOWN), GRPC_STATUS_UNAVAILABLE);
	cr_expect_eq(grpc_status_of_errno(EIO), GRPC_STATUS_INTERNAL);
}
