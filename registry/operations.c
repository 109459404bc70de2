// SPDX-License-Identifier: Apache-2.0
/* /v1/operations: the output of `bootseer ops report`, for the web page. */
#include <errno.h>

#include "common/fs.h"
#include "registry/call.h"
#include "registry/routes.h"
#include "registry/service.h"

#define REPORT_MAX (16u << 20)

int operations_get(struct call *c, struct error *err)
{
	const char *path = c->service->cfg->operations;
	struct error why = ERROR_INIT;
	/* The report shows jobs of the whole cluster, so refuse tokens that are bound to a
	 * repository. */
	int rc = call_check_repo(c, "", err);

	if (rc < 0)
		return rc;
	if (!path)
		return call_fail(
			c, HTTPD_NOT_FOUND, NULL, err,
			"no report of operations is kept here: "
			"bootseer-registry --operations FILE, which "
			"'bootseer ops report --out FILE.json' writes");
	rc = fs_read_file(path, REPORT_MAX, &c->reply.body, &why);
	if (rc == -ENOENT)
		return call_fail(c, HTTPD_NOT_FOUND, NULL, err,
				 "no report of operations was written yet: "
				 "bootseer ops report --out FILE.json");
	if (rc < 0)
		return error_set(err, EIO, "%s", why.msg);
	c->reply.type = "application/json";
	return call_send_if_new(c, err);
}
