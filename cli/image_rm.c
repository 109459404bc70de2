// SPDX-License-Identifier: Apache-2.0
#include "cli/command.h"
#include "cli/image.h"

struct config {
	struct image_access access;
	char *platform;
};

static const struct option_spec options[] = {
	IMAGE_PLATFORM_OPTION(struct config,
			      "Which image of an index; default is this "
			      "machine's."),
	IMAGE_ACCESS_OPTIONS(struct config),
	{ .key = NULL },
};

static int run(const void *config, char **args, struct error *err)
{
	const struct config *c = config;
	struct oci_config oci;
	struct oci_ref ref;
	int rc = oci_ref_parse(args[0], &ref, err);

	if (rc < 0)
		return rc;
	image_access_apply(&c->access, &oci);
	rc = image_remove(&ref, &oci, c->platform, err);
	oci_ref_fini(&ref);
	if (rc == 0)
		printf("%s: its blocks are removed; the registry's garbage "
		       "collection frees their space\n",
		       args[0]);
	return rc;
}

const struct command image_rm_command = {
	.program = {
		.name = "bootseer image rm",
		.usage = "[OPTIONS] REF",
		.summary = "Remove what 'bootseer image convert' stored of the "
			   "image REF; the image itself stays.",
		.options = options,
		.see_also = "bootseer(1)",
		.min_args = 1,
		.max_args = 1,
	},
	.config_size = sizeof(struct config),
	.run = run,
};
