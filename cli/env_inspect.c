// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>

#include "cli/env.h"
#include "common/progress.h"
#include "common/text.h"

struct env_inspect_config {
	struct store_access access;
	struct env_service_access service;
};

static const struct option_spec options[] = {
	ENV_SERVICE_OPTIONS(struct env_inspect_config),
	ENV_ACCESS_OPTIONS(struct env_inspect_config),
	{ .key = NULL },
};

static void print_snapshot(const struct env_snapshot *s)
{
	char hex[ENV_KEY_HEX], when[ENV_TIME_ROOM], text[DIGEST_STR_MAX];
	char files[PROGRESS_BYTES_MAX], stored[PROGRESS_BYTES_MAX];

	env_key_hex(&s->key.digest, hex);
	env_format_time(s->made_ms, when);
	digest_format(&s->manifest, text);
	progress_format_bytes(s->bytes, files);
	progress_format_bytes(s->stored, stored);
	text_make_printable(s->program);
	text_make_printable(s->by);
	printf("key       %s\nmade      %s by %s on %s\n", hex, when,
	       s->program, s->by);
	printf("changed   %" PRIu64 " names, %s of files, %s stored\n",
	       s->n_changed, files, stored);
	printf("removed   %" PRIu64 " names\nartifact  %s\n", s->n_deleted,
	       text);
	for (size_t i = 0; i < s->key.n; i++) {
		const struct env_item *it = &s->key.items[i];

		env_key_hex(&it->value, hex);
		text_make_printable(it->name);
		if (it->shown)
			text_make_printable(it->shown);
		printf("  %-12s  %s%s%s\n", it->kind, it->name,
		       *it->name ? "  " : "", it->shown ? it->shown : hex);
	}
}

static int run_env_inspect(const void *config, char **args, struct error *err)
{
	const struct env_inspect_config *c = config;
	AUTO_FINI(env_opened) o = { .store = NULL };
	struct env_snapshot snap;
	struct digest key;
	int rc = env_open(&c->access, &c->service, args[0],
			  "bootseer env inspect", 0, &o, err);

	if (rc == 0)
		rc = env_catalog_find(o.catalog, args[1], &key, err);
	if (rc == 0)
		rc = env_catalog_get(o.catalog, &key, &snap, err);
	if (rc == 0) {
		print_snapshot(&snap);
		env_snapshot_fini(&snap);
	}
	return rc;
}

const struct command env_inspect_command = {
	.brief = "Show what an environment is of",
	.program = {
		.name = "bootseer env inspect",
		.usage = "[OPTIONS] STORE KEY",
		.summary = "Show a snapshot and what its key was made of. Words "
			   "of the command and values are secret to who "
			   "typed them: of those a digest is kept.",
		.options = options,
		.min_args = 2,
	},
	.config_size = sizeof(struct env_inspect_config),
	.check = env_check_first,
	.run = run_env_inspect,
};
