// SPDX-License-Identifier: Apache-2.0
/* The seeded hash: multiply each word to 128 bits, then XOR the two halves. */
#include "common/hash.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

int hash_seed_new(struct hash_seed *ret, struct error *err)
{
	if (getrandom(ret, sizeof(*ret), 0) != (ssize_t)sizeof(*ret))
		return error_errno(err, errno, "random seed");
	ret->factor |= 1;
	return 0;
}

static uint64_t hash_mix(uint64_t a, uint64_t b)
{
	__extension__ unsigned __int128 m = (unsigned __int128)a * b;

	return (uint64_t)m ^ (uint64_t)(m >> 64);
}

uint64_t hash_seeded(const struct hash_seed *s, const void *data, size_t len)
{
	const uint8_t *p = data;
	uint64_t h = s->start ^ len, w;

	for (; len > 8; p += 8, len -= 8) {
		memcpy(&w, p, 8);
		h = hash_mix(h ^ w, s->factor);
	}
	w = 0;
	memcpy(&w, p, len);
	return hash_mix(h ^ w, s->factor);
}
