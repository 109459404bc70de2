// SPDX-License-Identifier: Apache-2.0
#include "cli/ctr.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli/child.h"
#include "common/cleanup.h"
#include "common/text.h"

#define LIST_MAX (64u << 20)
#define ERRORS_MAX (64u << 10)

int ctr_run(const struct ctr_target *at, const char *const words[], int in,
	    int64_t timeout_ms, struct buf *ret, struct error *err)
{
	const size_t limit = ret && ret->limit ? ret->limit : LIST_MAX;
	AUTO_BUF said = { .limit = ERRORS_MAX };
	const char *argv[16] = { "ctr" };
	size_t n = 1;
	int status = 0, rc;

	if (at->address) {
		argv[n++] = "--address";
		argv[n++] = at->address;
	}
	if (at->namespace) {
		argv[n++] = "--namespace";
		argv[n++] = at->namespace;
	}
	for (size_t i = 0; words[i] && n + 1 < ARRAY_SIZE(argv); i++)
		argv[n++] = words[i];
	rc = child_read_output((char *const *)(uintptr_t)argv, NULL, in, limit,
			       timeout_ms, ret, &said, &status, err);
	if (rc < 0)
		return rc;
	if (status != 0)
		return error_set(
			err, EIO, "ctr %s: %s%s", words[0],
			child_last_line(&said),
			strstr(child_last_line(&said), "failed to dial")
				? ": see that containerd runs, and name its "
				  "socket by --containerd"
				: "");
	return 0;
}
