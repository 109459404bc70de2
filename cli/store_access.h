// SPDX-License-Identifier: Apache-2.0
/* How commands open an object store. */
#ifndef BOOTSEER_CLI_STORE_ACCESS_H
#define BOOTSEER_CLI_STORE_ACCESS_H

#include "cli/command.h"
#include "objects/store_patience.h"

/* Member of the configuration of such a command. */
struct store_access {
	char *ca_file;
	int64_t timeout_ns;
};

#define STORE_ACCESS_OPTIONS(config_type, member, timeout) \
	STORE_TIMEOUT_OPTION(offsetof(config_type, member.timeout_ns), \
			     timeout), \
	{ \
		.key = "ca-file", .type = OPTION_FILE, \
		.offset = offsetof(config_type, member.ca_file), \
		.help = "Certificates (PEM) that the store's server is " \
			"checked with, instead of the system's." \
	}

/* -EINVAL: `url` is not of a known kind of store. */
int store_access_check(const char *url, struct error *err) MUST_CHECK;
/* Open the store by `cfg`, completed from the options.  If the store does not answer, a line on
 * stderr says so. */
int store_access_open(const struct store_access *a, const char *url,
		      struct object_store_config *cfg,
		      struct object_store **ret, struct error *err) MUST_CHECK;

#endif
