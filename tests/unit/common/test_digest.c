// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>

#include "common/digest.h"

TestSuite(digest, .timeout = 120);

/* FIPS 180-2, appendix B.1 */
static const char abc[] = "sha256:ba7816bf8f01cfea414140de5dae2223"
			  "b00361a396177a9cb410ff61f20015ad";

Test(digest, of_abc_is_the_standards_example)
{
	char text[DIGEST_STR_MAX];
	struct digest d;

	cr_assert_eq(digest_of("abc", 3, &d), 0);
	digest_format(&d, text);
	cr_expect_str_eq(text, abc);
}

Test(digest, parse_gives_back_what_format_wrote)
{
	struct error err = ERROR_INIT;
	struct digest d, e;

	cr_assert_eq(digest_of("abc", 3, &d), 0);
	cr_assert_eq(digest_parse(abc, &e, &err), 0, "%s", err.msg);
	cr_expect(digest_equal(&d, &e));
}

Test(digest, parse_refuses_other_algorithms_lengths_and_upper_case)
{
	static const char *const bad[] = {
		"",
		"sha256:",
		"sha512:00",
		"sha256:BA7816BF8F01CFEA414140DE5DAE2223"
		"B00361A396177A9CB410FF61F20015AD",
		"sha256:ba7816bf8f01cfea414140de5dae2223"
		"b00361a396177a9cb410ff61f20015a",
		"sha256:ba7816bf8f01cfea414140de5dae2223"
		"b00361a396177a9cb410ff61f20015ad0",
	};
	struct error err = ERROR_INIT;
	struct digest d;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect_eq(digest_parse(bad[i], &d, &err), -EINVAL, "%s",
			     bad[i]);
}

Test(digest, hasher_starts_afresh_after_final)
{
	AUTO(hasher) h = hasher_new();
	struct digest one, two, want;

	cr_assert_not_null(h);
	cr_assert_eq(digest_of("abc", 3, &want), 0);
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(hasher_update(h, "a", 1), 0);
		cr_assert_eq(hasher_update(h, "bc", 2), 0);
		cr_assert_eq(hasher_final(h, i ? &two : &one), 0);
	}
	cr_expect(digest_equal(&one, &want));
	cr_expect(digest_equal(&two, &want));
}

Test(digest, of_a_file_is_of_all_of_it_or_of_a_piece_at_each_step)
{
	static const char text[] = "0123456789abcdefghij";
	AUTO(hasher) h = hasher_new();
	struct digest is, wanted;
	FILE *f = tmpfile();

	cr_assert(h && f);
	cr_assert_eq(fwrite(text, 1, 20, f), 20);
	cr_assert_eq(fflush(f), 0);
	cr_assert_eq(hasher_update_file(h, fileno(f), 3, 0), 0);
	cr_assert_eq(hasher_final(h, &is), 0);
	cr_assert_eq(digest_of(text, 20, &wanted), 0);
	cr_expect(digest_equal(&is, &wanted));
	cr_assert_eq(hasher_update_file(h, fileno(f), 2, 8), 0);
	cr_assert_eq(hasher_final(h, &is), 0);
	cr_assert_eq(digest_of("0189gh", 6, &wanted), 0);
	cr_expect(digest_equal(&is, &wanted));
	cr_expect_eq(hasher_update_file(h, -1, 2, 8), -EBADF);
	(void)fclose(f);
}
