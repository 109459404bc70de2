// SPDX-License-Identifier: Apache-2.0
/* image sign, image verify: the second compares before. */
#include <inttypes.h>

#include "cli/command.h"
#include "cli/image.h"
#include "cli/image_differs.h"
#include "cli/signer.h"
#include "common/clock.h"

struct sign_config {
	struct image_access access;
	char *platform, *key, *repository;
	int64_t expires;
};

static const struct option_spec options[] = {
	{ .key = "key",
	  .letter = 'k',
	  .type = OPTION_FILE,
	  .arg = "FILE",
	  .absent = SIGNER_ABSENT,
	  .offset = offsetof(struct sign_config, key),
	  .help = "The private key (PEM, Ed25519); default is the user's own, "
		  "~/.config/bootseer/sign.key." },
	SIGNER_OPTIONS(struct sign_config),
	IMAGE_PLATFORM_OPTION(struct sign_config,
			      "Which image of an index; default is this "
			      "machine's."),
	IMAGE_ACCESS_OPTIONS(struct sign_config),
	{ .key = NULL },
};

static int check(const void *config, char **args, struct error *err)
{
	const struct sign_config *c = config;
	char pattern[TRUST_PATTERN_MAX + 1];
	AUTO(image_target) t = NULL;
	int rc = image_target_new(args[0], &c->access, &t, err);

	return rc < 0 ? rc
		      : signer_pattern(c->repository, &t->ref, pattern, err);
}

static int sign(const struct sign_config *c, const char *ref, bool verify,
		struct error *err)
{
	char pattern[TRUST_PATTERN_MAX + 1], digest[DIGEST_STR_MAX];
	struct image_progress progress;
	struct image_differs differs;
	struct sign_options opt = { .claim = TRUST_CLAIM_SIGNED };
	AUTO(image_target) t = NULL;
	AUTO(sign_key) key = NULL;
	struct digest artifact;
	int rc = image_target_new(ref, &c->access, &t, err);

	if (rc == 0)
		rc = signer_pattern(c->repository, &t->ref, pattern, err);
	if (rc == 0)
		rc = signer_load(c->key,
				 verify ? TRUST_USE_VERIFY : TRUST_USE_SIGN,
				 &key, err);
	if (rc < 0)
		return rc;
	opt.terms = (struct sign_terms){
		.key = key,
		.repository = pattern,
		.valid_s = c->expires / NS_PER_S,
	};
	opt.check.config = t->config;
	opt.check.platform = c->platform;
	image_differs_start(&differs);
	if (verify) {
		opt.claim = TRUST_CLAIM_VERIFIED;
		opt.check.against_layers = &differs.base;
	}
	image_progress_start(&progress);
	opt.check.progress = &progress.base;
	rc = image_sign(&t->ref, &opt, &artifact, err);
	image_progress_stop(&progress);
	image_differs_print(&differs);
	if (rc < 0)
		return rc;
	digest_format(&artifact, digest);
	printf("%s: %s artifact %s for %s\n", ref,
	       verify ? "it is what the layers hold; signed" : "signed", digest,
	       pattern);
	return 0;
}

static int run_sign(const void *config, char **args, struct error *err)
{
	return sign(config, args[0], false, err);
}

static int run_verify(const void *config, char **args, struct error *err)
{
	return sign(config, args[0], true, err);
}

const struct command image_sign_command = {
	.brief = "Answer for the blocks of an image with a signature",
	.program = {
		.name = "bootseer image sign",
		.usage = "[OPTIONS] REF",
		.summary =
			"Sign what was stored of the image REF, so that nodes "
			"with the key's public half take it. Nothing is "
			"compared: 'bootseer image verify' does.",
		.options = options,
		.examples = "bootseer image sign --expires 90d "
			    "docker://reg.example/app:1\n",
		.see_also = "bootseer(1), bootseerd(8)",
		.min_args = 1,
		.max_args = 1,
	},
	.config_size = sizeof(struct sign_config),
	.check = check,
	.run = run_sign,
};

const struct command image_verify_command = {
	.brief = "Compare blocks of an image with its layers, and sign",
	.program = {
		.name = "bootseer image verify",
		.usage = "[OPTIONS] REF",
		.summary =
			"Compare what was stored of the image REF with the "
			"image's own layers, every path, attribute and byte, "
			"and sign that they are the same. Whoever may push can "
			"then convert images; nodes take what was verified.",
		.options = options,
		.examples = "bootseer image verify --key /etc/bootseer/"
			    "verify.key docker://reg.example/app:1\n",
		.see_also = "bootseer(1), bootseerd(8)",
		.min_args = 1,
		.max_args = 1,
	},
	.config_size = sizeof(struct sign_config),
	.check = check,
	.run = run_verify,
};
