// SPDX-License-Identifier: Apache-2.0
/* Base 64 (RFC 4648, section 4). */
#ifndef BOOTSEER_COMMON_BASE64_H
#define BOOTSEER_COMMON_BASE64_H

#include "common/buf.h"

/* Append the text form of the data to `ret`.  Returns 0, -ENOMEM or -EFBIG. */
int base64_encode(const void *data, size_t len, struct buf *ret) MUST_CHECK;

/* Append the decoded bytes to `ret`; -EINVAL when the text is not base 64. */
int base64_decode(const char *text, size_t len, struct buf *ret) MUST_CHECK;

#endif
