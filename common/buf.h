// SPDX-License-Identifier: Apache-2.0
/* A growable run of bytes with a limit; always NUL-terminated when not empty. */
#ifndef BOOTSEER_COMMON_BUF_H
#define BOOTSEER_COMMON_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cleanup.h"

struct buf {
	char *data;     /* NULL while nothing was appended; NUL after `len` */
	size_t len;     /* bytes used, without the NUL */
	size_t cap;     /* bytes allocated */
	size_t limit;   /* `len` never grows past this; 0 is no limit */
	bool is_secret; /* memory is overwritten before it is given back */
};

#define BUF_INIT \
	{ \
		.data = NULL \
	}
/* For passwords, tokens and keys: the memory is overwritten before it is freed. */
#define BUF_SECRET_INIT \
	{ \
		.is_secret = true \
	}
#define AUTO_BUF __attribute__((cleanup(buf_fini))) struct buf

/* Release the memory; `b` is then empty, with its limit and its secrecy. */
void buf_fini(struct buf *b);

/* Forget the content, keep the memory. */
void buf_reset(struct buf *b);

/* Make room for `more` bytes after `len`.  -ENOMEM, -EFBIG past the limit. */
int buf_reserve(struct buf *b, size_t more) MUST_CHECK;

/* Append.  0, -ENOMEM or -EFBIG; on failure the content is unchanged. */
int buf_append(struct buf *b, const void *data, size_t len) MUST_CHECK;
int buf_puts(struct buf *b, const char *s) MUST_CHECK;
int buf_printf(struct buf *b, const char *fmt, ...) PRINTF(2, 3) MUST_CHECK;

/* The content as a NUL-terminated string that the caller owns, or NULL when
 * memory is short; `b` is then empty. */
char *buf_steal(struct buf *b) MUST_CHECK;

#endif
