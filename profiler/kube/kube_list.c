// SPDX-License-Identifier: Apache-2.0
/* Lists of objects, page by page. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/json.h"
#include "net/service_client.h"
#include "profiler/kube/kube.h"

/* Read one page. `more` is the token where the page begins, and then that of the next page; NULL:
 * the first page; none follows. */
static int read_page(struct kube *k, const char *path, unsigned int page,
		     char **more, kube_item_fn *fn, void *arg,
		     struct error *err)
{
	AUTO_BUF url = BUF_INIT;
	AUTO_JSON *answer = NULL;
	const char *next;
	char limit[16];
	json_t *item;
	size_t i;
	int rc;

	(void)snprintf(limit, sizeof(limit), "%u", page);
	if (buf_puts(&url, path) < 0 ||
	    service_client_param(&url, "limit", limit) < 0 ||
	    service_client_param(&url, "continue", *more) < 0)
		return error_nomem(err);
	rc = kube_do(k,
		     &(struct kube_call){ .method = "GET", .path = url.data },
		     &answer, err);
	if (rc < 0)
		return rc;
	json_array_foreach(json_object_get(answer, "items"), i, item)
	{
		rc = fn(arg, item, err);
		if (rc < 0)
			return rc;
	}
	free(*more);
	*more = NULL;
	next = json_string_value(
		json_object_get(json_object_get(answer, "metadata"),
				"continue"));
	if (next && *next && !(*more = strdup(next)))
		return error_nomem(err);
	return 0;
}

int kube_list(struct kube *k, const char *path, unsigned int page,
	      kube_item_fn *fn, void *arg, struct error *err)
{
	AUTO_FREE char *more = NULL;
	int rc;

	do
		rc = read_page(k, path, page, &more, fn, arg, err);
	while (rc == 0 && more);
	return rc;
}
