// SPDX-License-Identifier: Apache-2.0
/* Checks names and reads times of Kubernetes objects. */
#include <string.h>
#include <time.h>

#include "profiler/ops/kube_priv.h"

bool ops_kube_is_name(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789.-");

	return n && n < OPS_KUBE_NAME_MAX && s[n] == '\0';
}

int64_t ops_kube_time(const char *text)
{
	struct tm tm = { .tm_isdst = 0 };
	const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	int64_t at = end && strchr(end, 'Z') ? (int64_t)timegm(&tm) : 0;

	return at > 0 && at < OPS_TIME_MAX ? at : 0;
}
