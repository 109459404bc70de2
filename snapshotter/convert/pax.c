// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/convert/pax.h"

#include <string.h>

#define LENGTH_DIGITS 9 /* digits of a record's length; no header is longer */

/* A record is "30 mtime=1350244992.023960108
 * ", where 30 is its whole length. */
bool pax_next(const uint8_t *records, size_t len, size_t *at,
	      struct pax_text *ret_key, struct pax_text *ret_value)
{
	size_t left = len - *at, digits = 0, n = 0;
	const uint8_t *p, *equals;

	if (left == 0)
		return false;
	p = records + *at;
	while (digits < LENGTH_DIGITS && digits < left && p[digits] >= '0' &&
	       p[digits] <= '9')
		n = n * 10 + p[digits++] - '0';
	if (digits == 0 || n > left || n < digits + 3 || p[digits] != ' ' ||
	    p[n - 1] != '\n')
		return false;
	digits++;
	equals = memchr(p + digits, '=', n - 1 - digits);
	if (!equals || memchr(p + digits, '\0', (size_t)(equals - p) - digits))
		return false;
	ret_key->data = p + digits;
	ret_key->len = (size_t)(equals - ret_key->data);
	ret_value->data = equals + 1;
	ret_value->len = (size_t)(p + n - 1 - ret_value->data);
	*at += n;
	return true;
}

bool pax_is_whole(const uint8_t *records, size_t len)
{
	struct pax_text key, value;
	size_t at = 0;

	while (pax_next(records, len, &at, &key, &value))
		;
	return at == len;
}

struct pax_text pax_find(const uint8_t *records, size_t len, const char *key)
{
	struct pax_text found = { .data = NULL }, k, v;
	size_t at = 0, key_len = strlen(key);

	while (pax_next(records, len, &at, &k, &v)) {
		if (k.len == key_len && memcmp(k.data, key, key_len) == 0)
			found = v;
	}
	return found;
}
