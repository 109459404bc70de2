// SPDX-License-Identifier: Apache-2.0
/* Copy environments between a store and a folder; the folder is used as a store, too. */
#include <errno.h>
#include <stdlib.h>

#include "cli/env.h"
#include "common/buf.h"

struct env_copy_config {
	struct store_access access;
};

static const struct option_spec options[] = {
	ENV_ACCESS_OPTIONS(struct env_copy_config),
	{ .key = NULL },
};

static int folder_open(const struct env_copy_config *c, const char *dir,
		       struct object_store **ret, struct error *err)
{
	AUTO_FREE char *path = realpath(dir, NULL);
	AUTO_BUF url = BUF_INIT;

	if (!path)
		return error_set(err, errno, "'%.300s': %s", dir,
				 errno == ENOENT ? "no such folder: make it"
						 : "it cannot be opened");
	/* Escape characters that objects/ would interpret in a URL. */
	if (buf_printf(&url, "file://") < 0)
		return error_nomem(err);
	for (const char *p = path; *p; p++)
		if (buf_printf(&url,
			       *p == '%' || *p == '?' || *p == '#' ? "%%%02x"
								   : "%c",
			       (unsigned char)*p) < 0)
			return error_nomem(err);
	return env_store_open(&c->access, url.data, ret, err);
}

static int copy_and_report(struct object_store *from, struct object_store *to,
			   const struct digest *key, struct error *err)
{
	char hex[ENV_KEY_HEX];
	int rc = env_snapshot_copy(from, to, key, err);

	env_key_hex(key, hex);
	if (rc == 0 || rc == -EEXIST)
		printf("%.12s %s\n", hex, rc == 0 ? "copied" : "is there");
	return rc == -EEXIST ? 0 : error_wrap(err, rc, "snapshot %.12s", hex);
}

struct env_copy_all {
	struct object_store *from, *to;
};

static int copy_listed_snapshot(void *arg, const struct digest *key,
				const struct env_snapshot *s,
				const struct error *why, struct error *err)
{
	const struct env_copy_all *c = arg;

	return copy_and_report(c->from, c->to, key, err);
}

static int copy_keys(struct object_store *from, struct object_store *to,
		     char **keys, struct error *err)
{
	struct env_copy_all all = { from, to };
	int rc = 0;

	if (!*keys)
		return env_snapshot_list(from, copy_listed_snapshot, &all, err);
	for (; rc == 0 && *keys; keys++) {
		struct digest key;

		rc = env_key_find(from, *keys, &key, err);
		if (rc == 0)
			rc = copy_and_report(from, to, &key, err);
	}
	return rc;
}

static int copy_snapshots(const struct env_copy_config *c, char **args,
			  bool is_export, struct error *err)
{
	AUTO(object_store) store = NULL;
	AUTO(object_store) folder = NULL;
	int rc = env_store_open(&c->access, args[0], &store, err);

	if (rc == 0)
		rc = folder_open(c, args[1], &folder, err);
	if (rc < 0)
		return rc;
	return is_export ? copy_keys(store, folder, args + 2, err)
			 : copy_keys(folder, store, args + 2, err);
}

static int run_export(const void *config, char **args, struct error *err)
{
	return copy_snapshots(config, args, true, err);
}

static int run_import(const void *config, char **args, struct error *err)
{
	return copy_snapshots(config, args, false, err);
}

const struct command env_export_command = {
	.brief = "Copy environments from a store into a folder",
	.program = {
		.name = "bootseer env export",
		.usage = "[OPTIONS] STORE DIR [KEY...]",
		.summary = "Copy snapshots, or all in the store, into a folder, "
			   "to take them elsewhere. Every byte is checked.",
		.options = options,
		.min_args = 2,
		.max_args = -1,
	},
	.config_size = sizeof(struct env_copy_config),
	.check = env_check_first,
	.run = run_export,
};

const struct command env_import_command = {
	.brief = "Copy environments from a folder into a store",
	.program = {
		.name = "bootseer env import",
		.usage = "[OPTIONS] STORE DIR [KEY...]",
		.summary = "Copy snapshots, or all in the folder, which "
			   "'bootseer env export' wrote, into a store. Every "
			   "byte is checked.",
		.options = options,
		.min_args = 2,
		.max_args = -1,
	},
	.config_size = sizeof(struct env_copy_config),
	.check = env_check_first,
	.run = run_import,
};
