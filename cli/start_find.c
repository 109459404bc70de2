// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/node_ask.h"
#include "cli/start.h"

double start_number(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

int start_check(const void *config, char **args, struct error *err)
{
	const struct start_config *c = config;

	for (; *args; args++)
		if (!stage_is_job(stage_text(*args)))
			return error_set(err, EINVAL,
					 "'%s' is no name of a job", *args);
	return service_where_check(&c->where, err);
}

int start_ask(struct service_client *c, const char *path, uint64_t limit,
	      const char *job, json_t **ret, struct error *err)
{
	AUTO_BUF full = BUF_INIT;
	struct service_request r = { .method = "GET" };

	if (buf_printf(&full, "%s?limit=%llu", path,
		       (unsigned long long)limit) < 0 ||
	    service_client_param(&full, "job", job) < 0)
		return error_nomem(err);
	r.path = full.data;
	return service_ask(c, &r, ret, err);
}

static bool is_id(const char *s)
{
	size_t n = strspn(s, "0123456789");

	return n >= 1 && n <= 18 && !s[n];
}

int start_find_id(struct service_client *c, const char *what, long long *ret,
		  struct error *err)
{
	AUTO_JSON *reply = NULL;
	const json_t *first;
	int rc = 0;

	if (is_id(what)) {
		*ret = strtoll(what, NULL, 10);
		return 0;
	}
	rc = start_ask(c, "/v1/starts", 1, what, &reply, err);
	if (rc < 0)
		return rc;
	first = json_array_get(json_object_get(reply, "starts"), 0);
	if (first)
		*ret = reply_number(first, "id");
	else
		rc = error_set(err, ENOENT,
			       "no start of job '%s' is known: see 'bootseer "
			       "start ls'",
			       what);
	return rc;
}
