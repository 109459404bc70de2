// SPDX-License-Identifier: Apache-2.0
/* Reads /etc/ld.so.cache: glibc's present format, alone or behind the old format. */
#include <string.h>

#include "common/bytes.h"
#include "image/closure/closure_priv.h"

#define MAGIC "glibc-ld.so.cache1.1"
#define HEAD_SIZE 48u
#define ENTRY_SIZE 24u
#define TEXT_MAX 256u
#define ENTRIES_MAX (1u << 17)

/* A NUL-terminated text within the file and of limited length, or NULL. */
static const char *cache_text(const uint8_t *p, size_t len, uint32_t at)
{
	size_t most = at < len ? len - at : 0;

	most = most < TEXT_MAX ? most : TEXT_MAX;
	return most && memchr(p + at, '\0', most) ? (const char *)p + at : NULL;
}

const char *ld_cache_find(const void *data, size_t len, const char *name)
{
	const uint8_t *p = len ? memmem(data, len, MAGIC, strlen(MAGIC)) : NULL;
	uint32_t n;

	if (!p)
		return NULL;
	len -= (size_t)(p - (const uint8_t *)data);
	if (len < HEAD_SIZE)
		return NULL;
	n = get_le32(p + 20);
	if (n > ENTRIES_MAX || n > (len - HEAD_SIZE) / ENTRY_SIZE)
		return NULL;
	for (uint32_t i = 0; i < n; i++) {
		const uint8_t *e = p + HEAD_SIZE + (size_t)i * ENTRY_SIZE;
		const char *key = cache_text(p, len, get_le32(e + 4));

		/* Entries with hardware capabilities, for newer processors, are skipped:
		 * each library has a common entry too. */
		if (key && strcmp(key, name) == 0 && get_le64(e + 16) == 0)
			return cache_text(p, len, get_le32(e + 8));
	}
	return NULL;
}
