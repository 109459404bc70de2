// SPDX-License-Identifier: Apache-2.0
#include "common/crc32c.h"

#include <criterion/criterion.h>
#include <string.h>

/* RFC 3720, B.4. */
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
