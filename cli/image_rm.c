// SPDX-License-Identifier: Apache-2.0
#include "cli/command.h"
#include "cli/image.h"

struct image_rm_config {
	struct image_access access;
	char *platform;
};

static const struct option_spec options[] = {
	IMAGE_PLATFORM_OPTION(struct image_rm_config,
			      "Which image of an index; default is this "
			      "machine's."),
	IMAGE_ACCESS_OPTIONS(struct image_rm_config),
	{ .key = NULL },
};

static int run_image_rm(const void *config, char **args, struct error *err)
{
	const struct image_rm_config *c = config;
	AUTO(image_target) t = NULL;
	int rc = image_target_new(args[0], &c->access, &t, err);

	if (rc == 0)
		rc = image_remove(&t->ref, &t->config, c->platform, err);
	if (rc == 0)
		printf("%s: its blocks are removed; the registry's garbage "
		       "collection frees their space\n"
		       "  nodes pull the image in full from now on, and those "
		       "that run it lazily can read what they have not fetched "
		       "until that collection only: 'bootseer image prefetch "
		       "--all %s' on them before it has the rest there\n",
		       args[0], args[0]);
	return rc;
}

const struct command image_rm_command = {
	.brief = "Remove what was stored of an image; the image stays",
	.program = {
		.name = "bootseer image rm",
		.usage = "[OPTIONS] REF",
		.summary = "Remove what 'bootseer image convert' stored of the "
			   "image REF; the image itself stays. Nodes pull it in "
			   "full then. A container that runs from the blocks "
			   "reads those that its node has not fetched until the "
			   "registry's garbage collection only: let it end, or "
			   "run 'bootseer image prefetch --all' there first.",
		.options = options,
		.min_args = 1,
	},
	.config_size = sizeof(struct image_rm_config),
	.check = image_check_first,
	.run = run_image_rm,
};
