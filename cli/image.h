// SPDX-License-Identifier: Apache-2.0
/* What the commands on images have in common. */
#ifndef BOOTSEER_CLI_IMAGE_H
#define BOOTSEER_CLI_IMAGE_H

#include "common/option.h"
#include "snapshotter/convert.h"

/* How to reach a store; member `access` of a command's configuration. */
struct image_access {
	char *auth_file;
	char *ca_file;
	bool plain_http;
};

#define IMAGE_ACCESS_OPTIONS(config) \
	{ .key = "auth-file", \
	  .type = OPTION_STRING, \
	  .arg = "FILE", \
	  .offset = offsetof(config, access.auth_file), \
	  .help = "Credentials, as docker's config.json has them; default " \
		  "is that file at its usual places." }, \
		{ .key = "ca-file", \
		  .type = OPTION_STRING, \
		  .arg = "FILE", \
		  .offset = offsetof(config, access.ca_file), \
		  .help = "Certificates (PEM) to trust instead of the system's." }, \
	{ \
		.key = "plain-http", .type = OPTION_BOOL, \
		.offset = offsetof(config, access.plain_http), \
		.help = "Talk to registries without TLS." \
	}

#define IMAGE_PLATFORM_OPTION(config, text) \
	{ \
		.key = "platform", .type = OPTION_STRING, .arg = "OS/ARCH", \
		.offset = offsetof(config, platform), .help = text \
	}

void image_access_apply(const struct image_access *a, struct oci_config *ret);

/* A progress line on stderr. */
struct image_progress {
	struct convert_progress base;
	struct progress *bar;
};
void image_progress_start(struct image_progress *p);
void image_progress_stop(struct image_progress *p);

#endif
