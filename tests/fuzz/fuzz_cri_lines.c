// SPDX-License-Identifier: Apache-2.0
/*
 * A container's log: what a pod writes, behind the runtime's header.  Lines are handed
 * over whole and bounded; names of logs are read in one way.
 */
#include <string.h>

#include "profiler/cri_lines.h"
#include "profiler/pod_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void must(bool holds)
{
	if (!holds)
		__builtin_trap();
}

static int each(void *arg, const char *line, size_t len, uint64_t offset)
{
	uint64_t *last = arg;

	must(len > 0 && memchr(line, '\n', len) == NULL);
	must(offset < *last);
	return 0;
}

static void read_name(const char *name)
{
	struct pod_log_name n;
	struct pod_name p;
	char job[STAGE_JOB_MAX + 1];

	if (pod_log_name_parse(name, &n))
		must(!strchr(name, '/') && (!n.is_gz || *n.rotated));
	if (pod_name_parse(name, &p)) {
		must(!strchr(name, '/') && name[0] != '.');
		must(pod_job(&p, stage_text("x"), job) == 0);
		must(stage_is_job(stage_text(job)) &&
		     strncmp(job, p.namespace, strlen(p.namespace)) == 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct cri_lines c = { .lines = 0 };
	const char *p = (const char *)data, *end = p + len;
	uint64_t offset = 0;
	char name[300];

	while (p < end) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t n = nl ? (size_t)(nl - p) : (size_t)(end - p);

		offset += n + 1;
		must(cri_lines_feed(&c, p, n, offset - n - 1, each, &offset) ==
		     0);
		must(cri_lines_begin(&c, offset) <= offset);
		if (n < sizeof(name)) {
			memcpy(name, p, n);
			name[n] = '\0';
			read_name(name);
		}
		p += n + 1;
	}
	cri_lines_fini(&c);
	return 0;
}
