// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "registry/routes.h"

#define HEX "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

TestSuite(route, .timeout = 120);

static const struct route *r;
static const char *values[ROUTE_PARAMS_MAX];
static char path[256];

static int find(enum httpd_method method, const char *text)
{
	snprintf(path, sizeof(path), "%s", text);
	memset(values, 0, sizeof(values));
	return route_find(routes, n_routes, method, path, &r, values);
}

/* Check the parameters of a request to the route that find() found. */
static int check(const char *query, const char *node)
{
	static char copy[1024];
	struct httpd_head h = { .query = copy };

	snprintf(copy, sizeof(copy), "%s", query);
	if (node) {
		h.headers[0] = (struct httpd_field){ "Bootseer-Node", node };
		h.n_headers = 1;
	}
	return route_params(r, &h, values, NULL);
}

Test(route, finds_by_method_and_path)
{
	cr_assert_eq(find(HTTPD_GET, "/v1/traces/sha256%3Aab"), 0);
	cr_expect_str_eq(r->id, "getTrace");
	cr_expect_str_eq(values[0], "sha256:ab");
	cr_assert_eq(find(HTTPD_GET, "/"), 0);
	cr_assert_eq(find(HTTPD_HEAD, "/healthz"), 0);
	cr_expect_str_eq(r->id, "health");
	cr_assert_eq(find(HTTPD_POST, "/v1/traces/x"), 0);
	cr_expect_str_eq(r->id, "addRecording");
}

Test(route, refuses_other_paths_and_methods)
{
	struct buf allow = BUF_INIT;

	cr_expect_eq(find(HTTPD_GET, "/nothing"), 404);
	cr_expect_eq(find(HTTPD_GET, "/v1/traces/"), 404);
	cr_expect_eq(find(HTTPD_GET, "/v1/traces/a/b"), 404);
	cr_expect_eq(find(HTTPD_GET, "/healthz/"), 404);
	cr_expect_eq(find(HTTPD_GET, "/v1/traces/%zz"), 400);
	cr_expect_eq(find(HTTPD_METHOD_OTHER, "/v1/traces/a"), 405);
	cr_expect_eq(find(HTTPD_PUT, "/v1/traces/a"), 405);
	cr_assert_eq(route_allow(routes, n_routes, r, &allow), 0);
	cr_expect_str_eq(allow.data, "GET, HEAD, POST, DELETE");
	buf_fini(&allow);
}

Test(route, checks_parameters_by_its_table)
{
	cr_assert_eq(find(HTTPD_POST, "/v1/traces/sha256:" HEX), 0);
	cr_expect_eq(check("workload=a", "n1"), 0);
	cr_expect_eq(check("workload=a&repo=h/r", "n1"), 0);
	cr_expect_str_eq(values[route_param(r, "repo")], "h/r");
	cr_assert_eq(find(HTTPD_POST, "/v1/traces/sha256:" HEX), 0);
	cr_expect_eq(check("", "n1"), -EINVAL);
	cr_expect_eq(check("workload=a", NULL), -EINVAL);
	cr_expect_eq(check("workload=a", "a b"), -EINVAL);
	cr_expect_eq(check("workload=a%20b", "n1"), -EINVAL);
	cr_expect_eq(check("workload=", "n1"), -EINVAL);
	cr_expect_eq(check("workload=a&other=1", "n1"), -EINVAL);
	cr_expect_eq(check("workload=a&digest=1", "n1"), -EINVAL);
	cr_expect_eq(check("workload=a&Bootseer-Node=1", "n1"), -EINVAL);
	cr_assert_eq(find(HTTPD_POST, "/v1/traces/sha256:ABC"), 0);
	cr_expect_eq(check("workload=a", "n1"), -EINVAL);
	cr_assert_eq(find(HTTPD_GET, "/v1/traces"), 0);
	cr_expect_eq(check("repo=a&limit=1001", NULL), -EINVAL);
	cr_expect_eq(check("repo=a&limit=0", NULL), -EINVAL);
	cr_expect_eq(check("repo=a&limit=1000", NULL), 0);
}

Test(route, describes_each_route)
{
	struct buf text = BUF_INIT;

	cr_assert_eq(openapi_make(routes, n_routes, &text, NULL), 0);
	for (size_t i = 0; i < n_routes; i++) {
		cr_expect(strstr(text.data, routes[i].path));
		cr_expect(strstr(text.data, routes[i].id));
	}
	buf_fini(&text);
}
