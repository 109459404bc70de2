// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <inttypes.h>

#include "cli/env.h"
#include "common/progress.h"

struct env_verify_config {
	struct store_access access;
};

static const struct option_spec options[] = {
	ENV_ACCESS_OPTIONS(struct env_verify_config),
	{ .key = NULL },
};

struct env_verify {
	struct object_store *store;
	uint64_t n, n_bad;
};

static int verify_snapshot(void *arg, const struct digest *key,
			   const struct env_snapshot *s,
			   const struct error *why, struct error *err)
{
	struct env_verify *v = arg;
	struct error own = ERROR_INIT;
	char hex[ENV_KEY_HEX];

	env_key_hex(key, hex);
	v->n++;
	if (s && env_snapshot_verify(v->store, s, &own) == 0) {
		printf("%.12s  good\n", hex);
		return 0;
	}
	v->n_bad++;
	printf("%.12s  bad: %s\n", hex, s ? own.msg : why->msg);
	return 0;
}

static int verify_one(struct env_verify *v, const char *text, struct error *err)
{
	struct error why = ERROR_INIT;
	struct env_snapshot snap;
	struct digest key;
	int rc = env_key_find(v->store, text, &key, err);

	if (rc < 0)
		return rc;
	rc = env_snapshot_get(v->store, &key, &snap, &why);
	if (rc < 0)
		return verify_snapshot(v, &key, NULL, &why, err);
	rc = verify_snapshot(v, &key, &snap, NULL, err);
	env_snapshot_fini(&snap);
	return rc;
}

static int run_env_verify(const void *config, char **args, struct error *err)
{
	const struct env_verify_config *c = config;
	struct env_verify v = { .n = 0 };
	AUTO(object_store) s = NULL;
	int rc = env_store_open(&c->access, args[0], &s, err);

	v.store = s;
	if (rc == 0 && !args[1])
		rc = env_snapshot_list(s, verify_snapshot, &v, err);
	for (char **key = args + 1; rc == 0 && args[1] && *key; key++)
		rc = verify_one(&v, *key, err);
	if (rc == 0 && v.n_bad)
		rc = error_set(err, EBADMSG,
			       "%" PRIu64 " of %" PRIu64 " are bad: remove "
			       "them with 'bootseer env rm'",
			       v.n_bad, v.n);
	return rc;
}

const struct command env_verify_command = {
	.brief = "Check every byte of environments in a store",
	.program = {
		.name = "bootseer env verify",
		.usage = "[OPTIONS] STORE [KEY...]",
		.summary = "Read snapshots, or all in the store, and check "
			   "every byte against its digest.",
		.options = options,
		.min_args = 1,
		.max_args = -1,
	},
	.config_size = sizeof(struct env_verify_config),
	.check = env_check_first,
	.run = run_env_verify,
};
