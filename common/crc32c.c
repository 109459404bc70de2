// SPDX-License-Identifier: Apache-2.0
/* CRC-32C by the processor's instruction where it has one, else by tables, eight bytes at a
 * time. */
#include "common/crc32c.h"

#include <pthread.h>
#include <stdbool.h>
#ifdef __aarch64__
#include <sys/auxv.h>
#endif

#include "common/bytes.h"

#define POLYNOMIAL 0x82F63B78u /* polynomial of CRC-32C, bits reversed */

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

static uint32_t add_by_table(uint32_t crc, const uint8_t *p, size_t len)
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

#if defined(__x86_64__)
#define WITH_INSTRUCTION __attribute__((target("sse4.2")))

WITH_INSTRUCTION static inline uint32_t add_eight(uint32_t crc, uint64_t v)
{
	return (uint32_t)__builtin_ia32_crc32di(crc, v);
}

WITH_INSTRUCTION static inline uint32_t add_one(uint32_t crc, uint8_t v)
{
	return __builtin_ia32_crc32qi(crc, v);
}

static bool has_instruction(void)
{
	return __builtin_cpu_supports("sse4.2");
}
#elif defined(__aarch64__)
/* Allow the CRC extension for this instruction only: it is optional before ARMv8.1, and one build
 * shall run on processors with and without it. */
#define WITH_INSTRUCTION
#define EXTENSION ".arch_extension crc\n\t"

static inline uint32_t add_eight(uint32_t crc, uint64_t v)
{
	__asm__(EXTENSION "crc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(v));
	return crc;
}

static inline uint32_t add_one(uint32_t crc, uint8_t v)
{
	__asm__(EXTENSION "crc32cb %w0, %w0, %w1" : "+r"(crc) : "r"(v));
	return crc;
}

static bool has_instruction(void)
{
	return getauxval(AT_HWCAP) & HWCAP_CRC32;
}
#else
/* Placeholders, never called on this processor: has_instruction() is false. */
#define WITH_INSTRUCTION
#define add_eight(crc, v) (crc)
#define add_one(crc, v) (crc)

static bool has_instruction(void)
{
	return false;
}
#endif

/* The instruction takes three cycles, and one can start in each cycle.  So three checksums, of
 * three neighbouring lanes, are computed at once in the time of one. */
#define LANE 4096u

/* Table to move a checksum past LANE bytes of 0: XOR the entries of its four bytes. */
static uint32_t past_lane[4][256];

WITH_INSTRUCTION static uint32_t one_by_one(uint32_t crc, const uint8_t *p,
					    size_t len)
{
	for (; len >= 8; p += 8, len -= 8)
		crc = add_eight(crc, get_le64(p));
	for (; len; p++, len--)
		crc = add_one(crc, *p);
	return crc;
}

static void fill_lane_tables(void)
{
	static const uint8_t zeros[LANE];

	for (uint32_t i = 0; i < 4; i++)
		for (uint32_t v = 0; v < 256; v++)
			past_lane[i][v] = one_by_one(v << 8 * i, zeros, LANE);
}

static uint32_t advance_crc_by_lane(uint32_t crc)
{
	return past_lane[0][crc & 0xff] ^ past_lane[1][crc >> 8 & 0xff] ^
	       past_lane[2][crc >> 16 & 0xff] ^ past_lane[3][crc >> 24];
}

WITH_INSTRUCTION static uint32_t three_lanes(uint32_t crc, const uint8_t *p)
{
	uint32_t a = crc, b = 0, c = 0;

	for (size_t i = 0; i < LANE; i += 8) {
		a = add_eight(a, get_le64(p + i));
		b = add_eight(b, get_le64(p + LANE + i));
		c = add_eight(c, get_le64(p + 2 * LANE + i));
	}
	return advance_crc_by_lane(advance_crc_by_lane(a) ^ b) ^ c;
}

static uint32_t add_by_instruction(uint32_t crc, const uint8_t *p, size_t len)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	const size_t lanes = 3 * LANE;

	if (len >= lanes)
		(void)pthread_once(&once, fill_lane_tables);
	for (; len >= lanes; p += lanes, len -= lanes)
		crc = three_lanes(crc, p);
	return one_by_one(crc, p, len);
}

uint32_t crc32c(uint32_t crc, const void *data, size_t len)
{
	return ~(has_instruction() ? add_by_instruction(~crc, data, len)
				   : add_by_table(~crc, data, len));
}

uint32_t crc32c_by_table(uint32_t crc, const void *data, size_t len)
{
	return ~add_by_table(~crc, data, len);
}
