// SPDX-License-Identifier: Apache-2.0
#include "net/grpc_wire.h"

#include <errno.h>

#include "common/clock.h"

#define TIMEOUT_MAX_S INT64_C(3155760000) /* 100 years */
#define TIMEOUT_DIGITS_MAX 8

/* The status that a client sees for an errno. Codes not in the table are internal errors. */
static const struct {
	int code;
	enum grpc_status status;
} statuses[] = {
	{ ENOENT, GRPC_STATUS_NOT_FOUND },
	{ EEXIST, GRPC_STATUS_ALREADY_EXISTS },
	{ EINVAL, GRPC_STATUS_INVALID_ARGUMENT },
	{ EBUSY, GRPC_STATUS_FAILED_PRECONDITION },
	{ EALREADY, GRPC_STATUS_ABORTED },
	{ ETIMEDOUT, GRPC_STATUS_DEADLINE_EXCEEDED },
	{ ECANCELED, GRPC_STATUS_CANCELLED },
	{ EPERM, GRPC_STATUS_PERMISSION_DENIED },
	{ EACCES, GRPC_STATUS_PERMISSION_DENIED },
	{ ENOMEM, GRPC_STATUS_RESOURCE_EXHAUSTED },
	{ ENOSPC, GRPC_STATUS_RESOURCE_EXHAUSTED },
	{ EDQUOT, GRPC_STATUS_RESOURCE_EXHAUSTED },
	{ EMSGSIZE, GRPC_STATUS_RESOURCE_EXHAUSTED },
	{ EFBIG, GRPC_STATUS_RESOURCE_EXHAUSTED },
	{ EAGAIN, GRPC_STATUS_RESOURCE_EXHAUSTED },
	{ ENOSYS, GRPC_STATUS_UNIMPLEMENTED },
	{ ECONNREFUSED, GRPC_STATUS_UNAVAILABLE },
	{ ECONNRESET, GRPC_STATUS_UNAVAILABLE },
	{ ENOTCONN, GRPC_STATUS_UNAVAILABLE },
	{ EHOSTDOWN, GRPC_STATUS_UNAVAILABLE },
	{ ESTALE, GRPC_STATUS_UNAVAILABLE },
	{ EINPROGRESS, GRPC_STATUS_UNAVAILABLE },
};

enum grpc_status grpc_status_of_errno(int code)
{
	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++)
		if (statuses[i].code == code)
			return statuses[i].status;
	return GRPC_STATUS_INTERNAL;
}

void grpc_prefix_write(uint8_t out[GRPC_PREFIX_SIZE], uint32_t len)
{
	out[0] = 0;
	out[1] = (uint8_t)(len >> 24);
	out[2] = (uint8_t)(len >> 16);
	out[3] = (uint8_t)(len >> 8);
	out[4] = (uint8_t)len;
}

void grpc_message_fini(struct grpc_message *m)
{
	buf_fini(&m->body);
	m->n_prefix = 0;
	m->len = 0;
}

static int check_prefix(struct grpc_message *m, size_t max, struct error *err)
{
	const uint8_t *p = m->prefix;

	m->len = (uint32_t)p[1] << 24 | (uint32_t)p[2] << 16 |
		 (uint32_t)p[3] << 8 | p[4];
	if (p[0] != 0)
		return error_set(err, ENOSYS,
				 "compressed messages are not supported");
	if (m->len > max)
		return error_set(err, EMSGSIZE,
				 "the request of %u bytes is longer than %zu",
				 m->len, max);
	return 0;
}

int grpc_message_feed(struct grpc_message *m, const uint8_t *data, size_t len,
		      size_t max, struct error *err)
{
	int rc;

	while (len > 0 && m->n_prefix < GRPC_PREFIX_SIZE) {
		m->prefix[m->n_prefix++] = *data++;
		len--;
		if (m->n_prefix < GRPC_PREFIX_SIZE)
			continue;
		rc = check_prefix(m, max, err);
		if (rc < 0)
			return rc;
	}
	if (len == 0)
		return 0;
	if (len > m->len - m->body.len)
		return error_set(err, EINVAL,
				 "the request has more than one message");
	if (buf_append(&m->body, data, len) < 0)
		return error_nomem(err);
	return 0;
}

int grpc_message_check_end(const struct grpc_message *m, struct error *err)
{
	if (m->n_prefix < GRPC_PREFIX_SIZE || m->body.len < m->len)
		return error_set(err, EINVAL,
				 "the request ends before its message does");
	return 0;
}

static int64_t timeout_unit_ns(char unit)
{
	switch (unit) {
	case 'H':
		return 3600 * NS_PER_S;
	case 'M':
		return 60 * NS_PER_S;
	case 'S':
		return NS_PER_S;
	case 'm':
		return 1000000;
	case 'u':
		return 1000;
	case 'n':
		return 1;
	default:
		return 0;
	}
}

int grpc_timeout_parse(const char *text, size_t len, int64_t *ret_ns)
{
	int64_t unit, value = 0;

	if (len < 2 || len > TIMEOUT_DIGITS_MAX + 1)
		return -EINVAL;
	unit = timeout_unit_ns(text[len - 1]);
	if (unit == 0)
		return -EINVAL;
	for (size_t i = 0; i < len - 1; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -EINVAL;
		value = value * 10 + (text[i] - '0');
	}
	if (value > TIMEOUT_MAX_S * NS_PER_S / unit)
		value = TIMEOUT_MAX_S * NS_PER_S / unit;
	*ret_ns = value * unit;
	return 0;
}

int grpc_percent_encode(const char *text, struct buf *ret)
{
	int rc = 0;

	for (; *text && rc == 0; text++) {
		unsigned char c = (unsigned char)*text;

		if (c >= 0x20 && c < 0x7f && c != '%')
			rc = buf_append(ret, text, 1);
		else
			rc = buf_printf(ret, "%%%02X", c);
	}
	return rc;
}
