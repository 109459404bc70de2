// SPDX-License-Identifier: Apache-2.0
/* Functions of the commands that send requests to bootseer-registry. */
#ifndef BOOTSEER_CLI_SERVICE_H
#define BOOTSEER_CLI_SERVICE_H

#include <jansson.h>

#include "common/option.h"
#include "net/service_client.h"

/* First member of the configuration of such a command. */
struct service_where {
	char *service, *token_file, *ca_file;
};

#define SERVICE_WHERE_OPTIONS(config) \
	{ .key = "service", \
	  .type = OPTION_STRING, \
	  .arg = "URL", \
	  .offset = offsetof(config, where.service), \
	  .help = "The bootseer-registry; default is $BOOTSEER_SERVICE." }, \
		{ .key = "token-file", \
		  .type = OPTION_FILE, \
		  .offset = offsetof(config, where.token_file), \
		  .help = "The bearer token for --service." }, \
	{ \
		.key = "ca-file", .type = OPTION_FILE, \
		.offset = offsetof(config, where.ca_file), \
		.help = "Certificates (PEM) to trust instead of the " \
			"system's." \
	}

/* -EINVAL: no service is named. */
int service_where_check(const struct service_where *w,
			struct error *err) MUST_CHECK;
int service_open(const struct service_where *w, struct service_client **ret,
		 struct error *err) MUST_CHECK;

/* Send a request with a JSON reply, which the caller owns. */
int service_ask(struct service_client *c, const struct service_request *r,
		json_t **ret, struct error *err) MUST_CHECK;

#endif
