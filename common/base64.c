// SPDX-License-Identifier: Apache-2.0
#include "common/base64.h"

#include <errno.h>
#include <limits.h>
#include <openssl/evp.h>

int base64_encode(const void *data, size_t len, struct buf *ret)
{
	int n;

	if (len > INT_MAX / 2)
		return -EFBIG;
	if (buf_reserve(ret, (len + 2) / 3 * 4 + 1) < 0)
		return -ENOMEM;
	n = EVP_EncodeBlock((unsigned char *)ret->data + ret->len, data,
			    (int)len);
	ret->len += (size_t)n;
	return 0;
}

int base64_decode(const char *text, size_t len, struct buf *ret)
{
	size_t pad = 0;
	int n;

	if (len % 4 || len > INT_MAX)
		return -EINVAL;
	if (len == 0)
		return 0;
	while (pad < 2 && text[len - 1 - pad] == '=')
		pad++;
	if (buf_reserve(ret, len / 4 * 3 + 1) < 0)
		return -ENOMEM;
	n = EVP_DecodeBlock((unsigned char *)ret->data + ret->len,
			    (const unsigned char *)text, (int)len);
	if (n < 0)
		return -EINVAL;
	/* The decoder counts the padding as bytes. */
	ret->len += (size_t)n - pad;
	ret->data[ret->len] = '\0';
	return 0;
}
