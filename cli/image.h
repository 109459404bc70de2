// SPDX-License-Identifier: Apache-2.0
/* Functions that the commands on images share. */
#ifndef BOOTSEER_CLI_IMAGE_H
#define BOOTSEER_CLI_IMAGE_H

#include "common/option.h"
#include "snapshotter/convert.h"

/* How to reach a registry; member `access` of a command's configuration. */
struct image_access {
	char *auth_file;
	char *ca_file;
	bool plain_http;
};

#define IMAGE_ACCESS_OPTIONS(config) \
	{ .key = "auth-file", \
	  .type = OPTION_FILE, \
	  .absent = "'docker login' makes one, ~/.docker/config.json", \
	  .offset = offsetof(config, access.auth_file), \
	  .help = "Credentials, as docker's config.json has them; default " \
		  "is that file at its usual places." }, \
		{ .key = "ca-file", \
		  .type = OPTION_FILE, \
		  .absent = "ask who runs the registry for its authority's " \
			    "certificate", \
		  .offset = offsetof(config, access.ca_file), \
		  .help = "Certificates (PEM) to trust instead of the system's." }, \
	{ \
		.key = "plain-http", .type = OPTION_BOOL, \
		.offset = offsetof(config, access.plain_http), \
		.help = "Talk to registries without TLS." \
	}

#define IMAGE_PLAIN_HTTP_OPTION(at) \
	{ \
		.key = "plain-http", .type = OPTION_BOOL, .offset = (at), \
		.help = "Speak to the registry without TLS." \
	}

#define IMAGE_PLATFORM_OPTION(config, text) \
	{ \
		.key = "platform", .type = OPTION_STRING, .arg = "OS/ARCH", \
		.offset = offsetof(config, platform), .help = text \
	}

#define IMAGE_ARTIFACT_OPTION(config, text) \
	{ \
		.key = "artifact", .type = OPTION_STRING, .arg = "DIGEST", \
		.offset = offsetof(config, artifact), .help = text \
	}

/* Parse the digest of --artifact into `*room`; `*ret` is NULL when the option was not given. */
int image_artifact_parse(const char *option, struct digest *room,
			 const struct digest **ret,
			 struct error *err) MUST_CHECK;

/* Print on stderr that the image has `n` more artifacts than the one used; nothing if `n` is 0. */
void image_others_print(size_t n);

/* The image that a command works on. */
struct image_target {
	struct oci_ref ref;
	struct oci_config config; /* borrows from the struct image_access */
};
int image_target_new(const char *ref, const struct image_access *a,
		     struct image_target **ret, struct error *err) MUST_CHECK;
void image_target_free(struct image_target *t);
DEFINE_AUTO(image_target)

/* Check the form of an image reference; for struct command.check. */
int image_ref_check(const char *ref, struct error *err) MUST_CHECK;

/* Check the first operand, which is an image reference; for struct command.check. */
int image_check_first(const void *config, char **args,
		      struct error *err) MUST_CHECK;

/* Default number of threads that compress blocks. */
unsigned int image_default_jobs(void);

/* A progress line on stderr. */
struct image_progress {
	struct convert_progress base;
	struct progress *bar;
};
void image_progress_start(struct image_progress *p);
void image_progress_stop(struct image_progress *p);

#endif
