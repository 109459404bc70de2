// SPDX-License-Identifier: Apache-2.0
/* Functions that the commands on environment snapshots share. */
#ifndef BOOTSEER_CLI_ENV_H
#define BOOTSEER_CLI_ENV_H

#include "cli/store_access.h"
#include "envcache/catalog.h"
#include "envcache/work.h"

/* A short timeout: a command that creates its environment anew does not need the store. */
#define ENV_ACCESS_OPTIONS(config_type) \
	STORE_ACCESS_OPTIONS(config_type, access, "10s")

/* The service that keeps the index; another member. */
struct env_service_access {
	char *service, *token_file, *ca_file;
};

#define ENV_SERVICE_OPTIONS(config_type) \
	{ .key = "service", \
	  .type = OPTION_STRING, \
	  .arg = "URL", \
	  .offset = offsetof(config_type, service.service), \
	  .help = "The bootseer-registry that keeps the index of the store's " \
		  "snapshots; else the store does." }, \
		{ .key = "token-file", \
		  .type = OPTION_FILE, \
		  .offset = offsetof(config_type, service.token_file), \
		  .help = "The bearer token for --service." }, \
	{ \
		.key = "service-ca-file", .type = OPTION_FILE, \
		.offset = offsetof(config_type, service.ca_file), \
		.help = "Certificates (PEM) that --service is checked with, " \
			"instead of the system's." \
	}

/* Options for a member of type struct env_parts. */
#define ENV_PARTS_OPTIONS(config_type) \
	{ .key = "target", \
	  .type = OPTION_LIST, \
	  .offset = offsetof(config_type, parts.targets), \
	  .arg = "DIR", \
	  .help = "A folder that the command installs into: its changes are " \
		  "the environment. Default: /usr, /etc, /opt, the records " \
		  "of dpkg, rpm and apk, folders of $PATH and of ldconfig, " \
		  "and packages of the Pythons there." }, \
		{ .key = "key", \
		  .type = OPTION_LIST, \
		  .offset = offsetof(config_type, parts.values), \
		  .arg = "NAME=VALUE", \
		  .help = "Another value is another environment; for what the " \
			  "command depends on and BootSeer does not see." }, \
		{ .key = "key-file", \
		  .type = OPTION_LIST, \
		  .offset = offsetof(config_type, parts.files), \
		  .arg = "FILE", \
		  .help = "Another content is another environment: a " \
			  "requirements or lock file." }, \
		{ .key = "no-auto-key", \
		  .type = OPTION_BOOL, \
		  .offset = offsetof(config_type, parts.no_auto), \
		  .help = "Put into the key only what these options name and " \
			  "the words of the command: no files that it names, " \
			  "lock files, variables of package managers, or GPU." }, \
		{ .key = "merge", \
		  .type = OPTION_BOOL, \
		  .offset = offsetof(config_type, parts.merge), \
		  .help = "A cache that many nodes add to: put what it has and " \
			  "the targets lack there, run the command always, and " \
			  "add what is new then. The key is what these options " \
			  "name, and the GPU; no command." }, \
	{ \
		.key = "image", .type = OPTION_STRING, \
		.offset = offsetof(config_type, parts.image), .arg = "DIGEST", \
		.help = "Digest of the container's image; another image is " \
			"another environment." \
	}

/* -EINVAL: `--service` is not an address, or the token must not be sent to it. */
int env_check_service(const struct env_service_access *v,
		      struct error *err) MUST_CHECK;
/* Check the options that make up a key, without looking at files.  For struct command.check. */
int env_check_parts(const struct env_parts *p, struct error *err) MUST_CHECK;
/* -EINVAL: `url` is no URL of a store. */
int env_check_store(const char *url, struct error *err) MUST_CHECK;
/* For struct command.check: the first operand is a store. */
int env_check_first(const void *config, char **args,
		    struct error *err) MUST_CHECK;

int env_store_open(const struct store_access *a, const char *url,
		   struct object_store **ret, struct error *err) MUST_CHECK;

/* A store, and the catalog of what is in it. */
struct env_opened {
	struct object_store *store;
	struct env_catalog *catalog;
	/* The client of the service; NULL where there is none. */
	struct service_client *client;
	char *repo;
};
/* Open a store and its catalog.  `who` (borrowed) is the command named in the message when the
 * service does not answer; new snapshots expire after `ttl_ms`. */
int env_open(const struct store_access *a, const struct env_service_access *v,
	     const char *url, const char *who, int64_t ttl_ms,
	     struct env_opened *ret, struct error *err) MUST_CHECK;
void env_opened_fini(struct env_opened *o);

/* Format a time as "2026-11-23 16:05", or "-" for none. */
#define ENV_TIME_ROOM 32
void env_format_time(int64_t ms, char ret[ENV_TIME_ROOM]);

#endif
