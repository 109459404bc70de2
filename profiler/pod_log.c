// SPDX-License-Identifier: Apache-2.0
#include "profiler/pod_log.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/digest.h"

#define LOG_SUFFIX ".log"
#define DIGEST_CHARS 16

/* Is it a Kubernetes name? Such names have no underscore, so the parts of a folder's name are
 * unambiguous. */
static bool is_kube_name(const char *s, size_t n, bool has_dots)
{
	for (size_t i = 0; i < n; i++) {
		bool ok = islower((unsigned char)s[i]) ||
			  isdigit((unsigned char)s[i]) || s[i] == '-' ||
			  (has_dots && s[i] == '.');

		if (!ok)
			return false;
	}
	return n > 0 && isalnum((unsigned char)s[0]) &&
	       isalnum((unsigned char)s[n - 1]);
}

static bool take_name(char *to, size_t max, const char *s, size_t n,
		      bool has_dots)
{
	if (n > max || !is_kube_name(s, n, has_dots))
		return false;
	memcpy(to, s, n);
	to[n] = '\0';
	return true;
}

bool pod_name_parse(const char *folder, struct pod_name *ret)
{
	const char *pod = strchr(folder, '_');
	const char *uid = pod ? strchr(pod + 1, '_') : NULL;

	return uid &&
	       take_name(ret->namespace, POD_NAMESPACE_MAX, folder,
			 (size_t)(pod - folder), false) &&
	       take_name(ret->pod, POD_NAME_MAX, pod + 1,
			 (size_t)(uid - pod - 1), true) &&
	       take_name(ret->uid, POD_UID_MAX, uid + 1, strlen(uid + 1),
			 false);
}

bool pod_is_container(const char *name)
{
	size_t n = strlen(name);

	return n <= POD_CONTAINER_MAX && is_kube_name(name, n, false);
}

static bool is_rotated(const char *s)
{
	for (size_t i = 0; i < POD_ROTATED_LEN; i++)
		if (i == 8 ? s[i] != '-' : !isdigit((unsigned char)s[i]))
			return false;
	return true;
}

bool pod_log_name_parse(const char *name, struct pod_log_name *ret)
{
	size_t digits = strspn(name, "0123456789");
	const char *p = name + digits;

	*ret = (struct pod_log_name){ .restart = 0 };
	if (digits < 1 || digits > 9 ||
	    strncmp(p, LOG_SUFFIX, strlen(LOG_SUFFIX)) != 0)
		return false;
	for (const char *d = name; d < p; d++)
		ret->restart = ret->restart * 10 + (uint32_t)(*d - '0');
	p += strlen(LOG_SUFFIX);
	if (!*p)
		return true;
	if (*p != '.' || strlen(p + 1) < POD_ROTATED_LEN || !is_rotated(p + 1))
		return false;
	memcpy(ret->rotated, p + 1, POD_ROTATED_LEN);
	p += 1 + POD_ROTATED_LEN;
	ret->is_gz = strcmp(p, ".gz") == 0;
	return !*p || ret->is_gz;
}

int pod_job(const struct pod_name *p, struct stage_text said,
	    char ret[STAGE_JOB_MAX + 1])
{
	size_t n = strlen(p->namespace);
	bool is_whole = said.n > n + 1 && said.s[n] == '/' &&
			memcmp(said.s, p->namespace, n) == 0;
	AUTO_BUF job = BUF_INIT;
	char hex[DIGEST_CHARS + 1];
	struct digest d;
	int rc = is_whole ? 0 : buf_printf(&job, "%s/", p->namespace);

	if (rc == 0)
		rc = said.n ? buf_append(&job, said.s, said.n)
			    : buf_puts(&job, p->pod);
	if (rc < 0)
		return rc;
	if (job.len <= STAGE_JOB_MAX) {
		memcpy(ret, job.data, job.len + 1);
		return 0;
	}
	rc = digest_of(job.data, job.len, &d);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < DIGEST_CHARS / 2; i++)
		(void)snprintf(hex + 2 * i, 3, "%02x", d.b[i]);
	(void)snprintf(ret, STAGE_JOB_MAX + 1, "%.*s-%s",
		       (int)(STAGE_JOB_MAX - 1 - DIGEST_CHARS), job.data, hex);
	return 0;
}

int64_t pod_event_id(const struct pod_name *p, const char *container,
		     uint32_t restart, const struct stage_event *e,
		     uint64_t place)
{
	AUTO_BUF b = BUF_INIT;
	struct digest d;
	uint64_t v;
	int64_t own = e->id >= 0 ? e->id : stage_event_make_id(e, place);

	if (own < 0 ||
	    buf_printf(&b, "%s/%s/%" PRIu32 " %" PRId64, p->uid, container,
		       restart, own) < 0 ||
	    digest_of(b.data, b.len, &d) < 0)
		return STAGE_NONE;
	memcpy(&v, d.b, sizeof(v));
	return (int64_t)(v & INT64_MAX);
}
