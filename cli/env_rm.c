// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <string.h>

#include "cli/env.h"

struct env_rm_config {
	struct store_access access;
	struct env_service_access service;
};

static const struct option_spec options[] = {
	ENV_SERVICE_OPTIONS(struct env_rm_config),
	ENV_ACCESS_OPTIONS(struct env_rm_config),
	{ .key = NULL },
};

static int run_env_rm(const void *config, char **args, struct error *err)
{
	const struct env_rm_config *c = config;
	AUTO_FINI(env_opened) o = { .store = NULL };
	int rc = env_open(&c->access, &c->service, args[0], "bootseer env rm",
			  0, &o, err);

	for (char **key = args + 1; rc == 0 && *key; key++) {
		char hex[ENV_KEY_HEX];
		struct digest d;

		rc = env_catalog_find(o.catalog, *key, &d, err);
		/* A capture that was killed leaves blobs without an index; they are found by the
		 * full key. */
		if (rc == -ENOENT && strlen(*key) == ENV_KEY_HEX - 1) {
			char text[DIGEST_STR_MAX];

			(void)snprintf(text, sizeof(text), "sha256:%s", *key);
			rc = digest_parse(text, &d, err);
		}
		if (rc == 0)
			rc = env_catalog_remove(o.catalog, &d, err);
		if (rc < 0)
			break;
		env_key_hex(&d, hex);
		printf("%.12s removed\n", hex);
	}
	return rc;
}

const struct command env_rm_command = {
	.brief = "Remove environments from a store",
	.program = {
		.name = "bootseer env rm",
		.usage = "[OPTIONS] STORE KEY...",
		.summary = "Remove snapshots; the next 'bootseer env run' with "
			   "that key runs its command. One that is pinned "
			   "stays, until 'bootseer env unpin'. With a whole key, what "
			   "killed runs left of it is removed, too. Whoever "
			   "restores it at this moment runs the command.",
		.options = options,
		.min_args = 2,
		.max_args = -1,
	},
	.config_size = sizeof(struct env_rm_config),
	.check = env_check_first,
	.run = run_env_rm,
};
