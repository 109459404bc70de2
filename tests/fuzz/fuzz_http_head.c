// SPDX-License-Identifier: Apache-2.0
/* Requests to bootseer-registry: the head, its route, its parameters. */
#include <assert.h>
#include <string.h>

#include "registry/routes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_FREE char *text = malloc(size + 1);
	const char *values[ROUTE_PARAMS_MAX] = { NULL };
	const struct route *r;
	struct httpd_head h;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	if (httpd_head_parse(text, size, &h, NULL) != 0)
		return 0;
	assert(h.path[0] == '/' && h.n_headers <= HTTPD_HEADERS_MAX);
	if (route_find(routes, n_routes, h.method, h.path, &r, values) != 0)
		return 0;
	if (route_params(r, &h, values, NULL) < 0)
		return 0;
	for (size_t i = 0; i < ROUTE_PARAMS_MAX && r->params[i].name; i++)
		assert(values[i] || !r->params[i].required);
	return 0;
}
