// SPDX-License-Identifier: Apache-2.0
/* Lists of traces, and how the trace service writes them.  Pure. */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "common/array.h"
#include "recorder/store_priv.h"
#include "recorder/trace_priv.h"

int store_list_add(struct store_list *l, struct trace_info *info,
		   struct error *err)
{
	if (array_grow(&l->infos, l->n, &l->cap, 16) < 0) {
		trace_info_fini(info);
		return error_nomem(err);
	}
	l->infos[l->n++] = *info;
	return 0;
}

void store_list_fini(struct store_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		trace_info_fini(&l->infos[i]);
	free(l->infos);
	*l = (struct store_list){ .infos = NULL };
}

static int parse_info(const json_t *j, struct trace_info *ret,
		      struct error *err)
{
	const char *image, *repo, *workload;
	json_int_t runs, created, window, ready;
	struct trace_info info;
	int truncated, rc;

	if (json_unpack((json_t *)(uintptr_t)j,
			"{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:b}", "image",
			&image, "repo", &repo, "workload", &workload, "runs",
			&runs, "created_at", &created, "window_ms", &window,
			"ready_ms", &ready, "truncated", &truncated) < 0 ||
	    runs < 1 || runs > UINT32_MAX || created < 0 || window < 0 ||
	    window > UINT32_MAX || ready < 0 || ready > UINT32_MAX)
		return error_set(
			err, EINVAL,
			"the list is not as docs/formats/registry-api.md "
			"says");
	info = (struct trace_info){
		.repo = (char *)(uintptr_t)repo,
		.workload = (char *)(uintptr_t)workload,
		.created_at = (uint64_t)created,
		.window_ms = (uint32_t)window,
		.ready_ms = (uint32_t)ready,
		.runs = (uint32_t)runs,
		.truncated = truncated,
	};
	rc = digest_parse(image, &info.image, err);
	if (rc == 0)
		rc = trace_info_check(&info, err);
	return rc < 0 ? rc : trace_info_copy(&info, ret, err);
}

static int parse_all(const json_t *list, const char *workload,
		     struct store_list *ret, struct error *err)
{
	struct trace_info info;
	const json_t *j;
	size_t i;

	json_array_foreach(list, i, j)
	{
		int rc = parse_info(j, &info, err);

		if (rc < 0)
			return rc;
		if (workload && strcmp(workload, info.workload) != 0) {
			trace_info_fini(&info);
			continue;
		}
		rc = store_list_add(ret, &info, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int store_list_parse(const char *text, size_t len, const char *workload,
		     struct store_list *ret, struct error *err)
{
	json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	const json_t *list = json_object_get(root, "traces");
	struct store_list l = { .infos = NULL };
	int rc;

	if (json_is_array(list))
		rc = parse_all(list, workload, &l, err);
	else
		rc = error_set(err, EINVAL,
			       "the answer is no list of traces: is it a "
			       "bootseer-registry?");
	json_decref(root);
	if (rc < 0) {
		store_list_fini(&l);
		return rc;
	}
	*ret = l;
	return 0;
}
