// SPDX-License-Identifier: Apache-2.0
#include "cli/env.h"
#include "common/progress.h"

struct env_ls_config {
	struct env_access access;
	struct env_service_access service;
};

static const struct option_spec options[] = {
	ENV_SERVICE_OPTIONS(struct env_ls_config),
	ENV_ACCESS_OPTIONS(struct env_ls_config),
	{ .key = NULL },
};

struct env_ls {
	struct env_catalog *catalog;
};

static int show(void *arg, const struct digest *key,
		const struct env_snapshot *s, const struct error *why,
		struct error *err)
{
	char hex[ENV_KEY_HEX], when[ENV_TIME_ROOM], bytes[PROGRESS_BYTES_MAX];
	char names[PROGRESS_COUNT_MAX];
	const struct env_ls *l = arg;
	struct env_marks m;

	env_key_hex(key, hex);
	if (!s) {
		printf("%.12s  cannot be read: %s\n", hex, why->msg);
		return 0;
	}
	env_format_time(s->made_ms, when);
	progress_format_bytes(s->stored, bytes);
	progress_format_count(s->n_changed, "name", names);
	if (env_catalog_marks(l->catalog, s, &m, err) < 0)
		return -err->code;
	printf("%.12s  %s  %10s  %12s  %s on %s%s%s%s\n", hex, when, bytes,
	       names, s->program, s->by, m.is_pinned ? "  pinned" : "",
	       m.is_bad ? "  bad" : "", m.is_bad ? m.bad_why : "");
	return 0;
}

static int run(const void *config, char **args, struct error *err)
{
	const struct env_ls_config *c = config;
	struct env_opened o = { .store = NULL };
	int rc = env_open(&c->access, &c->service, args[0], "bootseer env ls",
			  0, &o, err);
	struct env_ls l = { .catalog = o.catalog };

	if (rc == 0)
		rc = env_catalog_list(o.catalog, show, &l, err);
	env_opened_fini(&o);
	return rc;
}

const struct command env_ls_command = {
	.brief = "List the environments in a store",
	.program = {
		.name = "bootseer env ls",
		.usage = "[OPTIONS] STORE",
		.summary = "List the snapshots in the store: key, time, size "
			   "as stored, names, and what made it where.",
		.options = options,
		.see_also = "bootseer(1)",
		.min_args = 1,
		.max_args = 1,
	},
	.config_size = sizeof(struct env_ls_config),
	.check = env_check_first,
	.run = run,
};
