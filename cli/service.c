// SPDX-License-Identifier: Apache-2.0
#include "cli/service.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define TIMEOUT_MS 30000
#define ANSWER_MAX (64u << 20)

static const char *service_url(const struct service_where *w)
{
	return w->service ? w->service : getenv("BOOTSEER_SERVICE");
}

int service_where_check(const struct service_where *w, struct error *err)
{
	const char *url = service_url(w);

	return url && *url ? 0
			   : error_set(err, EINVAL,
				       "name the bootseer-registry: --service "
				       "URL, or $BOOTSEER_SERVICE");
}

static void print_silence(const char *url, uint32_t timeout_ms)
{
	(void)fprintf(stderr,
		      "%s has not answered for %d s; waiting for %u s in all\n",
		      url, SERVICE_SILENT_MS / 1000, timeout_ms / 1000);
}

int service_open(const struct service_where *w, struct service_client **ret,
		 struct error *err)
{
	const struct service_client_config cfg = {
		.url = service_url(w),
		.token_file = w->token_file,
		.ca_file = w->ca_file,
		.timeout_ms = TIMEOUT_MS,
		.silent = print_silence,
	};

	return service_client_new(&cfg, ret, err);
}

int service_ask(struct service_client *c, const struct service_request *r,
		json_t **ret, struct error *err)
{
	AUTO_FINI(service_answer) a = { .head = HTTP_RESPONSE_INIT,
					.body = { .limit = ANSWER_MAX } };
	int rc = service_client_do(c, r, &a, err);

	if (rc == 0) {
		*ret = json_loadb(a.body.data ? a.body.data : "", a.body.len, 0,
				  NULL);
		rc = *ret ? 0
			  : error_set(err, EBADMSG,
				      "the service's answer is no JSON");
	}
	return rc;
}
