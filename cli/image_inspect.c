// SPDX-License-Identifier: Apache-2.0
#include "cli/command.h"
#include "cli/image.h"

struct inspect_config {
	struct image_access access;
	char *platform, *artifact;
};

static const struct option_spec options[] = {
	IMAGE_ARTIFACT_OPTION(struct inspect_config,
			      "Which artifact, of an image that has several; "
			      "default is the one that a node without keys "
			      "takes."),
	IMAGE_PLATFORM_OPTION(struct inspect_config,
			      "Which image of an index; default is this "
			      "machine's."),
	IMAGE_ACCESS_OPTIONS(struct inspect_config),
	{ .key = NULL },
};

static int run_image_inspect(const void *config, char **args, struct error *err)
{
	const struct inspect_config *c = config;
	AUTO(image_target) t = NULL;
	AUTO_FREE char *text = NULL;
	const struct digest *artifact;
	struct digest named;
	int rc = image_artifact_parse(c->artifact, &named, &artifact, err);

	if (rc == 0)
		rc = image_target_new(args[0], &c->access, &t, err);
	if (rc == 0)
		rc = image_inspect(&t->ref, &t->config, c->platform, artifact,
				   &text, err);
	if (rc == 0)
		puts(text);
	return rc;
}

static int check_image_inspect(const void *config, char **args,
			       struct error *err)
{
	const struct inspect_config *c = config;
	const struct digest *artifact;
	struct digest named;
	int rc = image_artifact_parse(c->artifact, &named, &artifact, err);

	return rc < 0 ? rc : image_ref_check(args[0], err);
}

const struct command image_inspect_command = {
	.brief = "Describe the blocks of an image, as JSON",
	.program = {
		.name = "bootseer image inspect",
		.usage = "[OPTIONS] REF",
		.summary = "Describe the blocks of the image REF as JSON.",
		.options = options,
		.min_args = 1,
	},
	.config_size = sizeof(struct inspect_config),
	.check = check_image_inspect,
	.run = run_image_inspect,
};
