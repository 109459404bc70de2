// SPDX-License-Identifier: Apache-2.0
#include "cli/store_access.h"

#include <errno.h>
#include <unistd.h>

#include "cli/plain_output.h"
#include "common/registry_host.h"
#include "common/text.h"

int store_access_check(const char *url, struct error *err)
{
	if (registry_host_is_store(url))
		return 0;
	return error_set(err, EINVAL,
			 "'%.200s' is no store: say file:///DIR, "
			 "s3://BUCKET/PREFIX, hdfs://HOST:PORT/DIR or "
			 "docker://REGISTRY/REPOSITORY",
			 url);
}

/* Print a message, over a progress bar if one is on the line. */
static void print_store_silent(void *arg, const char *line)
{
	(void)arg;
	if (isatty(STDERR_FILENO))
		fputs("\r\033[K", plain_output_bar());
	fprintf(stderr, "bootseer: %s\n", line);
}

int store_access_open(const struct store_access *a, const char *url,
		      struct object_store_config *cfg,
		      struct object_store **ret, struct error *err)
{
	AUTO(object_store) s = NULL;
	int rc;

	cfg->ca_file = a->ca_file;
	object_store_set_timeout(cfg, a->timeout_ns);
	rc = object_store_open(url, cfg, &s, err);
	if (rc == 0)
		rc = object_store_watch(s, print_store_silent, NULL, err);
	if (rc == 0)
		*ret = steal_ptr(&s);
	return rc;
}
