// SPDX-License-Identifier: Apache-2.0
#include "common/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"

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

int error_errno(struct error *err, int code, const char *fmt, ...)
{
	char what[ERROR_MSG_MAX];
	int saved = errno;
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	errno = saved;
	return error_set(err, code, "%s: %s", what, strerror(code));
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

int error_listen(struct error *err, int code, const char *where,
		 const char *option)
{
	static const struct {
		int code;
		const char *cure;
	} cures[] = {
		{ EADDRINUSE, "a program listens there already (ss -ltnp "
			      "shows which): end it, or choose another port" },
		{ EADDRNOTAVAIL, "it is no address of this machine (ip addr "
				 "shows them)" },
		{ EACCES, "ports below 1024 are for root" },
	};

	for (size_t k = 0; k < ARRAY_SIZE(cures); k++)
		if (cures[k].code == code)
			return error_set(err, code, "%s %s: %s: %s", option,
					 where, strerror(code), cures[k].cure);
	return error_set(err, code, "%s %s: %s", option, where, strerror(code));
}
