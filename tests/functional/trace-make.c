// SPDX-License-Identifier: Apache-2.0
/*
 * trace-make IMAGE WORKLOAD REPO ENTRIES COMMON SEED: an encoded recording on
 * stdout.  Its first COMMON entries are the same whatever the SEED.  With "-" for
 * WORKLOAD or REPO it does not say which.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "recorder/trace.h"

static int add(struct trace_builder *b, unsigned long i, unsigned long common,
	       const char *seed, struct error *err)
{
	char path[256], name[128];
	struct trace_entry e = {
		.path = path,
		.len = 4096 + (uint32_t)(i * 7919 % 100000),
		.at_ms = (uint32_t)(i * 3),
		.csize = 20000 + (uint32_t)(i % 9999),
		.confidence = TRACE_CERTAIN,
	};

	snprintf(name, sizeof(name), "%lu.%s", i, i < common ? "" : seed);
	snprintf(path, sizeof(path),
		 "/usr/lib/python3/site-packages/package_%lu/sub/module_%s.py",
		 i / 40, name);
	if (digest_of(name, strlen(name), &e.block) < 0)
		return error_nomem(err);
	return trace_builder_add(b, &e, err);
}

static int make(char **arg, struct buf *ret, struct error *err)
{
	struct trace_info info = {
		.workload = strcmp(arg[2], "-") != 0 ? arg[2]
						     : arg[0] + strlen(arg[0]),
		.repo = strcmp(arg[3], "-") != 0 ? arg[3]
						 : arg[0] + strlen(arg[0]),
		.created_at = 1767225600,
		.window_ms = 120000,
		.ready_ms = 8000,
		.runs = 1,
	};
	unsigned long n = strtoul(arg[4], NULL, 10);
	unsigned long common = strtoul(arg[5], NULL, 10);
	AUTO(trace_builder) b = NULL;
	AUTO(trace) t = NULL;
	int rc = digest_parse(arg[1], &info.image, err);

	if (rc == 0)
		rc = trace_builder_new(&info, &b, err);
	for (unsigned long i = 0; i < n && rc == 0; i++)
		rc = add(b, i, common, arg[6], err);
	if (rc == 0)
		rc = trace_builder_finish(steal_ptr(&b), &t, err);
	return rc == 0 ? trace_encode(t, ret, err) : rc;
}

int main(int argc, char **argv)
{
	struct error err = ERROR_INIT;
	AUTO_BUF text = BUF_INIT;

	if (argc != 7) {
		fprintf(stderr, "usage: trace-make IMAGE WORKLOAD REPO ENTRIES "
				"COMMON SEED\n");
		return 2;
	}
	if (make(argv, &text, &err) < 0) {
		fprintf(stderr, "trace-make: %s\n", err.msg);
		return 1;
	}
	return fwrite(text.data, 1, text.len, stdout) == text.len ? 0 : 1;
}
