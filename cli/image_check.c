// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <inttypes.h>

#include "cli/command.h"
#include "cli/image.h"
#include "cli/image_differs.h"
#include "common/progress.h"

struct check_config {
	struct image_access access;
	char *platform, *artifact, *meta_to, *data_to;
	bool against_layers;
};

static const struct option_spec options[] = {
	{ .key = "against-layers",
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct check_config, against_layers),
	  .help = "Compare it with the image's own layers, too: every path, "
		  "attribute and byte. What differs is listed." },
	{ .key = "extract-metadata",
	  .type = OPTION_STRING,
	  .arg = "FILE",
	  .offset = offsetof(struct check_config, meta_to),
	  .help = "Write the EROFS metadata image to this file." },
	{ .key = "extract-data",
	  .type = OPTION_STRING,
	  .arg = "FILE",
	  .offset = offsetof(struct check_config, data_to),
	  .help = "Write the data device to this file, sparsely; with it the "
		  "metadata image can be mounted (-o device=FILE)." },
	IMAGE_ARTIFACT_OPTION(struct check_config,
			      "Which artifact, of an image that has several; "
			      "default is the one that a node without keys "
			      "takes."),
	IMAGE_PLATFORM_OPTION(struct check_config,
			      "Which image of an index; default is this "
			      "machine's."),
	IMAGE_ACCESS_OPTIONS(struct check_config),
	{ .key = NULL },
};

static int run_image_check(const void *config, char **args, struct error *err)
{
	const struct check_config *c = config;
	struct image_progress progress;
	struct image_differs differs;
	struct check_options opt = {
		.platform = c->platform,
		.metadata_to = c->meta_to,
		.data_to = c->data_to,
	};
	AUTO(image_target) t = NULL;
	struct digest named;
	struct check_result r = { .n_others = 0 };
	int rc = image_artifact_parse(c->artifact, &named, &opt.artifact, err);

	if (rc == 0)
		rc = image_target_new(args[0], &c->access, &t, err);
	if (rc < 0)
		return rc;
	opt.config = t->config;
	image_differs_start(&differs);
	if (c->against_layers)
		opt.against_layers = &differs.base;
	image_progress_start(&progress);
	opt.progress = &progress.base;
	rc = image_check(&t->ref, &opt, &r, err);
	image_progress_stop(&progress);
	image_differs_print(&differs);
	if (rc == 0 && differs.base.n)
		rc = error_set(err, EBADMSG,
			       "%s: it is not what the image's layers hold, in "
			       "%" PRIu64 " places: 'bootseer image convert "
			       "--force' replaces it",
			       args[0], differs.base.n);
	if (rc == 0)
		printf("%s: every block is there and right%s\n", args[0],
		       c->against_layers ? ", and what the layers hold" : "");
	image_others_print(r.n_others);
	if (r.is_by_tag)
		fputs("the registry has no referrers API: its artifacts are "
		      "untagged, and garbage collection of what is untagged "
		      "(distribution 2.8: --delete-untagged) would remove "
		      "them\n",
		      stderr);
	return rc;
}

static int check_image_check(const void *config, char **args, struct error *err)
{
	const struct check_config *c = config;
	const struct digest *artifact;
	struct digest named;
	int rc = image_artifact_parse(c->artifact, &named, &artifact, err);

	return rc < 0 ? rc : image_ref_check(args[0], err);
}

const struct command image_check_command = {
	.brief = "Read and check all that was stored of an image",
	.program = {
		.name = "bootseer image check",
		.usage = "[OPTIONS] REF",
		.summary = "Read all that was stored of the image REF and check "
			   "it: digests, block map, metadata, every block.",
		.options = options,
		.min_args = 1,
	},
	.config_size = sizeof(struct check_config),
	.check = check_image_check,
	.run = run_image_check,
};
