// SPDX-License-Identifier: Apache-2.0
#include "cli/command.h"
#include "cli/image.h"

struct config {
	struct image_access access;
};

static const struct option_spec options[] = {
	IMAGE_ACCESS_OPTIONS(struct config),
	{ .key = NULL },
};

static int run(const void *config, char **args, struct error *err)
{
	const struct config *c = config;
	AUTO_FREE char *text = NULL;
	struct oci_config oci;
	struct oci_ref ref;
	int rc = oci_ref_parse(args[0], &ref, err);

	if (rc < 0)
		return rc;
	image_access_apply(&c->access, &oci);
	rc = image_list(&ref, &oci, &text, err);
	oci_ref_fini(&ref);
	if (rc == 0)
		puts(text);
	return rc;
}

const struct command image_ls_command = {
	.program = {
		.name = "bootseer image ls",
		.usage = "[OPTIONS] REF",
		.summary = "List the tags of the repository or folder REF and "
			   "which of them were converted, as JSON.",
		.options = options,
		.see_also = "bootseer(1)",
		.min_args = 1,
		.max_args = 1,
	},
	.config_size = sizeof(struct config),
	.run = run,
};
