// SPDX-License-Identifier: Apache-2.0
#include "cli/env.h"

struct env_pin_config {
	struct store_access access;
	struct env_service_access service;
};

static const struct option_spec options[] = {
	ENV_SERVICE_OPTIONS(struct env_pin_config),
	ENV_ACCESS_OPTIONS(struct env_pin_config),
	{ .key = NULL },
};

static int pin_or_unpin_keys(const struct env_pin_config *c, char **args,
			     bool is_pinned, struct error *err)
{
	AUTO_FINI(env_opened) o = { .store = NULL };
	int rc = env_open(&c->access, &c->service, args[0],
			  is_pinned ? "bootseer env pin" : "bootseer env unpin",
			  0, &o, err);

	for (char **key = args + 1; rc == 0 && *key; key++) {
		char hex[ENV_KEY_HEX];
		struct digest d;

		rc = env_catalog_find(o.catalog, *key, &d, err);
		if (rc == 0)
			rc = env_catalog_pin(o.catalog, &d, is_pinned, err);
		if (rc < 0)
			break;
		env_key_hex(&d, hex);
		printf("%.12s %s\n", hex, is_pinned ? "pinned" : "unpinned");
	}
	return rc;
}

static int run_pin(const void *config, char **args, struct error *err)
{
	return pin_or_unpin_keys(config, args, true, err);
}

static int run_unpin(const void *config, char **args, struct error *err)
{
	return pin_or_unpin_keys(config, args, false, err);
}

const struct command env_pin_command = {
	.brief = "Keep environments from expiry",
	.program = {
		.name = "bootseer env pin",
		.usage = "[OPTIONS] STORE KEY...",
		.summary = "Keep snapshots from 'bootseer env gc' and from "
			   "'bootseer env run --ttl'.",
		.options = options,
		.min_args = 2,
		.max_args = -1,
	},
	.config_size = sizeof(struct env_pin_config),
	.check = env_check_first,
	.run = run_pin,
};

const struct command env_unpin_command = {
	.brief = "Let environments expire again",
	.program = {
		.name = "bootseer env unpin",
		.usage = "[OPTIONS] STORE KEY...",
		.summary = "Let snapshots expire that 'bootseer env pin' kept.",
		.options = options,
		.min_args = 2,
		.max_args = -1,
	},
	.config_size = sizeof(struct env_pin_config),
	.check = env_check_first,
	.run = run_unpin,
};
