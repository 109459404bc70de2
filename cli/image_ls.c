// SPDX-License-Identifier: Apache-2.0
#include "cli/command.h"
#include "cli/image.h"

struct image_ls_config {
	struct image_access access;
};

static const struct option_spec options[] = {
	IMAGE_ACCESS_OPTIONS(struct image_ls_config),
	{ .key = NULL },
};

static int run_image_ls(const void *config, char **args, struct error *err)
{
	const struct image_ls_config *c = config;
	AUTO(image_target) t = NULL;
	AUTO_FREE char *text = NULL;
	int rc = image_target_new(args[0], &c->access, &t, err);

	if (rc == 0)
		rc = image_list(&t->ref, &t->config, &text, err);
	if (rc == 0)
		puts(text);
	return rc;
}

const struct command image_ls_command = {
	.brief = "List the tags of a repository or folder, as JSON",
	.program = {
		.name = "bootseer image ls",
		.usage = "[OPTIONS] REF",
		.summary = "List the tags of the repository or folder REF and "
			   "which of them were converted, as JSON.",
		.options = options,
		.min_args = 1,
	},
	.config_size = sizeof(struct image_ls_config),
	.check = image_check_first,
	.run = run_image_ls,
};
