// SPDX-License-Identifier: Apache-2.0
#include "common/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int error_set(struct error *err, int code, const char *fmt, ...)
{
	int saved = errno;
	va_list ap;

	if (err) {
		err->code = code;
		va_start(ap, fmt);
		(void)vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
		va_end(ap);
	}
	errno = saved;
	return -code;
}

int error_wrap(struct error *err, int rc, const char *fmt, ...)
{
	char old[ERROR_MSG_MAX];
	int saved = errno;
	va_list ap;
	int n;

	if (!err)
		return rc;
	memcpy(old, err->msg, sizeof(old));
	va_start(ap, fmt);
	n = vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < sizeof(err->msg) - 1)
		(void)snprintf(err->msg + n, sizeof(err->msg) - (size_t)n,
			       ": %s", old);
	errno = saved;
	return rc;
}

const char *error_root_hint(int code)
{
	return (code == EACCES || code == EPERM) && geteuid() != 0
		       ? ": run it as root, for example with sudo"
		       : "";
}

int error_nomem(struct error *err)
{
	return error_set(err, ENOMEM, "out of memory");
}
