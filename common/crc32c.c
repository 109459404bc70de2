// SPDX-License-Identifier: Apache-2.0
/* By the processor's instruction where there is one, else by tables, eight bytes at a
 * time. */
#include "common/crc32c.h"

#include <pthread.h>
#include <string.h>

#include "common/bytes.h"

#define POLYNOMIAL 0x82F63B78u /* reversed */

static uint32_t table[8][256];

static void fill_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;

		for (int k = 0; k < 8; k++)
			c = c >> 1 ^ (c & 1 ? POLYNOMIAL : 0);
		table[0][i] = c;
	}
	for (uint32_t i = 0; i < 256; i++)
		for (int k = 1; k < 8; k++)
			table[k][i] = table[k - 1][i] >> 8 ^
				      table[0][table[k - 1][i] & 0xff];
}

static uint32_t by_table(uint32_t crc, const uint8_t *p, size_t len)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, fill_table);
	for (; len >= 8; p += 8, len -= 8) {
		uint64_t v = get_le64(p) ^ crc;

		crc = 0;
		for (int k = 0; k < 8; k++)
			crc ^= table[7 - k][v >> 8 * k & 0xff];
	}
	for (; len; p++, len--)
		crc = crc >> 8 ^ table[0][(crc ^ *p) & 0xff];
	return crc;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t
by_instruction(uint32_t crc, const uint8_t *p, size_t len)
{
	uint64_t c = crc;

	for (; len >= 8; p += 8, len -= 8)
		c = __builtin_ia32_crc32di(c, get_le64(p));
	crc = (uint32_t)c;
	for (; len; p++, len--)
		crc = __builtin_ia32_crc32qi(crc, *p);
	return crc;
}

static int has_instruction(void)
{
	return __builtin_cpu_supports("sse4.2");
}
#else
static uint32_t by_instruction(uint32_t crc, const uint8_t *p, size_t len)
{
	return by_table(crc, p, len);
}

static int has_instruction(void)
{
	return 0;
}
#endif

uint32_t crc32c(uint32_t crc, const void *data, size_t len)
{
	return ~(has_instruction() ? by_instruction(~crc, data, len)
				   : by_table(~crc, data, len));
}
