// SPDX-License-Identifier: Apache-2.0
#include "common/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

void buf_fini(struct buf *b)
{
	if (b->is_secret && b->data)
		explicit_bzero(b->data, b->cap);
	free(b->data);
	b->data = NULL;
	b->len = 0;
	b->cap = 0;
}

void buf_reset(struct buf *b)
{
	if (b->is_secret && b->data)
		explicit_bzero(b->data, b->len);
	b->len = 0;
	if (b->data)
		b->data[0] = '\0';
}

/* Allocate and copy secrets by hand: realloc would leave the old copy in freed memory. */
static char *grow_memory(struct buf *b, size_t cap)
{
	struct buf old = *b;
	char *p;

	if (!b->is_secret)
		return realloc(b->data, cap);
	p = malloc(cap);
	if (!p)
		return NULL;
	if (b->data)
		memcpy(p, b->data, b->len);
	buf_fini(&old);
	return p;
}

int buf_reserve(struct buf *b, size_t more)
{
	size_t want, cap;
	char *p;

	if (more > SIZE_MAX - b->len - 1)
		return -EFBIG;
	want = b->len + more + 1;
	if (b->limit && want - 1 > b->limit)
		return -EFBIG;
	if (want <= b->cap)
		return 0;
	cap = b->cap ? b->cap : 64;
	while (cap < want)
		cap = cap > SIZE_MAX / 2 ? want : cap * 2;
	p = grow_memory(b, cap);
	if (!p)
		return -ENOMEM;
	b->data = p;
	b->cap = cap;
	b->data[b->len] = '\0';
	return 0;
}

int buf_append(struct buf *b, const void *data, size_t len)
{
	int rc = buf_reserve(b, len);

	if (rc < 0)
		return rc;
	if (len)
		memcpy(b->data + b->len, data, len);
	b->len += len;
	b->data[b->len] = '\0';
	return 0;
}

int buf_puts(struct buf *b, const char *s)
{
	return buf_append(b, s, strlen(s));
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	int n, rc;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		return -EINVAL;
	rc = buf_reserve(b, (size_t)n);
	if (rc < 0)
		return rc;
	va_start(ap, fmt);
	(void)vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
	return 0;
}

char *buf_steal(struct buf *b)
{
	char *p;

	if (!b->data && buf_reserve(b, 0) < 0)
		return NULL;
	p = b->data;
	b->data = NULL;
	b->len = 0;
	b->cap = 0;
	return p;
}
