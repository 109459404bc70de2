// SPDX-License-Identifier: Apache-2.0
/* `bootseer ckpt adopt`: convert plain files to striped ones in place, or back. */
#include <errno.h>
#include <inttypes.h>

#include "cli/ckpt.h"
#include "cli/plain_output.h"
#include "common/progress.h"

struct ckpt_adopt_config {
	struct ckpt_access access;
	uint64_t columns, threshold, uid, gid;
	bool plain, drop_attributes, dry_run;
};

static const struct option_spec options[] = {
	{ .key = "columns",
	  .type = OPTION_INTEGER,
	  .def = "0",
	  .min = "0",
	  .max = "64",
	  .offset = offsetof(struct ckpt_adopt_config, columns),
	  .help = "Objects that a file is striped over; 0: by its size, 8 from "
		  "64 MiB on." },
	{ .key = "threshold",
	  .type = OPTION_SIZE,
	  .def = "4M",
	  .offset = offsetof(struct ckpt_adopt_config, threshold),
	  .help = "Plain files that are not longer stay as they are." },
	{ .key = "plain",
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct ckpt_adopt_config, plain),
	  .help = "The other way: make striped files plain objects, for other "
		  "programs." },
	{ .key = "drop-attributes",
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct ckpt_adopt_config, drop_attributes),
	  .help = "With --plain: also files that lose by it what a plain "
		  "object cannot keep: permissions, owner, extended "
		  "attributes." },
	{ .key = "uid",
	  .type = OPTION_INTEGER,
	  .def = "0",
	  .max = "4294967294",
	  .offset = offsetof(struct ckpt_adopt_config, uid),
	  .help = "Owner of files that were plain." },
	{ .key = "gid",
	  .type = OPTION_INTEGER,
	  .def = "0",
	  .max = "4294967294",
	  .offset = offsetof(struct ckpt_adopt_config, gid),
	  .help = "Group of files that were plain." },
	{ .key = "dry-run",
	  .letter = 'n',
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct ckpt_adopt_config, dry_run),
	  .help = "Say what would be changed." },
	CKPT_ACCESS_OPTIONS,
	{ .key = NULL },
};

struct ckpt_adoption {
	const struct ckpt_adopt_config *cfg;
	struct object_store *store;
	struct ckpt_bar bar;
	uint64_t n_files, n_bytes, n_busy;
};

static int adopt_file(void *arg, const char *path, struct error *err)
{
	struct ckpt_adoption *x = arg;
	const struct ckpt_progress progress = { ckpt_bar_step, &x->bar };
	struct ckpt_adopt a = {
		.to_plain = x->cfg->plain,
		.threshold = x->cfg->threshold,
		.columns = (uint32_t)x->cfg->columns,
		.uid = (uint32_t)x->cfg->uid,
		.gid = (uint32_t)x->cfg->gid,
		.may_lose = x->cfg->drop_attributes,
		.dry_run = x->cfg->dry_run,
	};
	int rc;

	x->bar.what = path;
	rc = ckpt_adopt(x->store, path, &a, &progress, err);
	if (rc == -ENOTSUP && x->cfg->plain)
		return error_wrap(err, rc, "see --drop-attributes");
	/* A file that changes meanwhile is left as it is; the other files are not affected. */
	if (rc == -ESTALE) {
		fprintf(stderr, "bootseer: left as it is: %s\n", err->msg);
		x->n_busy++;
		return 0;
	}
	if (rc == 0 && a.is_changed) {
		x->bar.before += a.size;
		x->n_bytes += a.size;
		x->n_files++;
	}
	return rc == -ENOENT ? 0 : rc; /* removed since it was listed */
}

static void print_adopted(const struct ckpt_adoption *x)
{
	char bytes[PROGRESS_BYTES_MAX], files[PROGRESS_COUNT_MAX];

	progress_format_bytes(x->n_bytes, bytes);
	progress_format_count(x->n_files, "file", files);
	printf("%s, %s %s %s\n", files, bytes,
	       x->cfg->dry_run ? "would be made" : "made",
	       x->cfg->plain ? "plain" : "striped");
}

static int run_ckpt_adopt(const void *config, char **args, struct error *err)
{
	const struct ckpt_adopt_config *c = config;
	struct ckpt_adoption x = { .cfg = c };
	const char *path = args[1] ? ckpt_store_path(args[1]) : "";
	AUTO(object_store) s = c->access.store;
	struct ckpt_stat st;
	int rc = c->dry_run ? 0 : object_store_probe(s, err);

	/* A missing name is a mistake; it must not pass as an empty folder. */
	if (rc == 0 && *path)
		rc = ckpt_stat(s, path, &st, err);
	if (rc == -EISDIR)
		rc = 0;
	if (rc < 0)
		return rc;
	x.store = s;
	x.bar.bar = progress_new(plain_output_bar());
	rc = ckpt_walk(s, path, adopt_file, &x, err);
	progress_free(x.bar.bar);
	if (rc < 0)
		return rc;
	print_adopted(&x);
	return x.n_busy ? error_set(err, EBUSY,
				    "%" PRIu64 " of them were written "
				    "meanwhile: try those again",
				    x.n_busy)
			: 0;
}

const struct command ckpt_adopt_command = {
	.brief = "Make plain files of a store striped, or back",
	.program = {
		.name = "bootseer ckpt adopt",
		.usage = "[OPTIONS] STORE [PATH]",
		.summary = "Make a plain file that other programs wrote striped, "
			   "or all files of a folder or of the store; with "
			   "--plain the other way. Each is read and written in "
			   "parallel, and is there all the time, as it was or "
			   "as it becomes. One that is written meanwhile is "
			   "left as its writer leaves it. Times are kept when "
			   "files become striped.",
		.options = options,
		.examples = "bootseer ckpt adopt --columns=16 "
			    "s3://bucket/run7 step-100\n"
			    "bootseer ckpt adopt --plain file:///mnt/nfs/ckpt "
			    "step-100/model.pt\n",
		.min_args = 1,
		.max_args = 2,
	},
	.config_size = sizeof(struct ckpt_adopt_config),
	.open = ckpt_open_first,
	.run = run_ckpt_adopt,
};
