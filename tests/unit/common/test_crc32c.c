// SPDX-License-Identifier: Apache-2.0
#include "common/crc32c.h"

#include <criterion/criterion.h>
#include <string.h>

/* Examples of RFC 3720, B.4. */
Test(crc32c, is_that_of_the_standard)
{
	unsigned char data[32] = { 0 };

	cr_expect_eq(crc32c(0, data, 32), 0x8a9136aau);
	memset(data, 0xff, 32);
	cr_expect_eq(crc32c(0, data, 32), 0x62a8ab43u);
	for (unsigned char i = 0; i < 32; i++)
		data[i] = i;
	cr_expect_eq(crc32c(0, data, 32), 0x46dd794eu);
	cr_expect_eq(crc32c(0, "123456789", 9), 0xe3069283u);
	cr_expect_eq(crc32c(0, "", 0), 0);
}

Test(crc32c, goes_on)
{
	for (size_t i = 0; i <= 9; i++)
		cr_expect_eq(crc32c(crc32c(0, "123456789", i), &"123456789"[i],
				    9 - i),
			     0xe3069283u);
}

/* Long data is computed in three lanes.  At any length and position, the result must equal that of
 * single bytes. */
Test(crc32c, of_long_parts_is_that_of_their_bytes)
{
	enum { LONGEST = 3 * 12288 + 21 };
	static unsigned char data[LONGEST];
	uint32_t crc = 0;

	for (size_t i = 0; i < LONGEST; i++)
		data[i] = (unsigned char)((i * 2654435761u) >> 13);
	for (size_t i = 0; i < LONGEST; i++) {
		crc = crc32c(crc, &data[i], 1);
		if ((i + 1) % 4096 < 9)
			cr_assert_eq(crc32c(0, data, i + 1), crc, "%zu bytes",
				     i + 1);
	}
	for (size_t from = 1; from < 9; from++)
		cr_assert_eq(crc32c(crc32c(0, data, from), &data[from],
				    LONGEST - from),
			     crc);
}

/* Compare tables with what this machine uses, at any length and position. */
Test(crc32c, is_by_tables_what_it_is_by_the_instruction)
{
	enum { LONGEST = 3 * 12288 + 21 };
	static unsigned char data[LONGEST];

	for (size_t i = 0; i < LONGEST; i++)
		data[i] = (unsigned char)((i * 2654435761u) >> 11);
	cr_expect_eq(crc32c_by_table(0, "123456789", 9), 0xe3069283u);
	for (size_t from = 0; from < 9; from++)
		for (size_t len = 0; len <= LONGEST - from;
		     len += len < 40 ? 1 : 4091)
			cr_assert_eq(crc32c_by_table(7, &data[from], len),
				     crc32c(7, &data[from], len),
				     "%zu bytes from %zu", len, from);
}
