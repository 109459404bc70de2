// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>

#include "cli/ckpt.h"
#include "common/json.h"

struct ckpt_stat_config {
	struct ckpt_access access;
};

static const struct option_spec options[] = {
	CKPT_ACCESS_OPTIONS,
	{ .key = NULL },
};

static json_t *layout_of(const struct ckpt_stat *st)
{
	if (!st->is_striped)
		return json_pack("{s:s}", "layout", "plain");
	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I}", "layout", "striped",
			 "generation", (json_int_t)st->generation, "chunk",
			 (json_int_t)st->chunk_size, "unit",
			 (json_int_t)st->chunk_size *
				 (json_int_t)st->unit_chunks,
			 "columns", (json_int_t)st->columns, "segments",
			 (json_int_t)st->n_segments);
}

static int print_stat(const char *path, const struct ckpt_stat *st,
		      struct error *err)
{
	char mode[8];
	AUTO_JSON *layout = layout_of(st);
	AUTO_JSON *all = NULL;
	int rc;

	(void)snprintf(mode, sizeof(mode), "%04" PRIo32, st->attr.mode & 07777);
	all = json_pack("{s:s, s:I, s:s, s:I, s:I, s:I}", "path", path, "size",
			(json_int_t)st->size, "mode", mode, "uid",
			(json_int_t)st->attr.uid, "gid",
			(json_int_t)st->attr.gid, "mtime_ns",
			(json_int_t)st->attr.mtime_ns);
	rc = all && layout ? json_object_update(all, layout) : -1;
	if (rc == 0)
		rc = json_dumpf(all, stdout, JSON_INDENT(2));
	(void)putchar('\n');
	return rc == 0 ? 0 : error_nomem(err);
}

static int run_ckpt_stat(const void *config, char **args, struct error *err)
{
	const struct ckpt_stat_config *c = config;
	const char *path = ckpt_store_path(args[1]);
	AUTO(object_store) s = c->access.store;
	struct ckpt_stat st;
	int rc = ckpt_stat(s, path, &st, err);

	return rc == 0 ? print_stat(path, &st, err) : rc;
}

const struct command ckpt_stat_command = {
	.brief = "Show what a file of a store is, as JSON",
	.program = {
		.name = "bootseer ckpt stat",
		.usage = "[OPTIONS] STORE PATH",
		.summary = "Show size, attributes and layout of a file of the "
			   "store, as JSON.",
		.options = options,
		.min_args = 2,
	},
	.config_size = sizeof(struct ckpt_stat_config),
	.open = ckpt_open_first,
	.run = run_ckpt_stat,
};
