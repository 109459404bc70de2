// SPDX-License-Identifier: Apache-2.0
/* `bootseer image sign` and `verify`.  Verify always compares blocks with layers; sign only does
 * so if no trusted key has signed the artifact before. */

#include "cli/command.h"
#include "cli/image.h"
#include "cli/image_differs.h"
#include "cli/signer.h"
#include "common/clock.h"

struct sign_config {
	struct image_access access;
	char *platform, *artifact, *key, *trusted, *repository;
	int64_t expires;
};

static const struct option_spec options[] = {
	{ .key = "key",
	  .letter = 'k',
	  .type = OPTION_FILE,
	  .absent = SIGNER_ABSENT,
	  .offset = offsetof(struct sign_config, key),
	  .help = "The private key (PEM, Ed25519); default is the user's own, "
		  "~/.config/bootseer/sign.key." },
	SIGNER_OPTIONS(struct sign_config),
	IMAGE_ARTIFACT_OPTION(struct sign_config,
			      "Which artifact, of an image that has several; "
			      "you answer for it. Default is what the key, or "
			      "one of --trusted, has signed, else the only "
			      "one."),
	{ .key = "trusted",
	  .type = OPTION_FILE,
	  .absent = "it is a list of keys as nodes have it, or a key's .pub",
	  .offset = offsetof(struct sign_config, trusted),
	  .help = "Public keys, the last one when keys change: what they "
		  "signed is taken as signed by the key." },
	IMAGE_PLATFORM_OPTION(struct sign_config,
			      "Which image of an index; default is this "
			      "machine's."),
	IMAGE_ACCESS_OPTIONS(struct sign_config),
	{ .key = NULL },
};

static int check_image_sign(const void *config, char **args, struct error *err)
{
	const struct sign_config *c = config;
	char pattern[TRUST_PATTERN_MAX + 1];
	AUTO(image_target) t = NULL;
	const struct digest *artifact;
	struct digest named;
	int rc = image_artifact_parse(c->artifact, &named, &artifact, err);

	if (rc == 0)
		rc = image_target_new(args[0], &c->access, &t, err);
	return rc < 0 ? rc
		      : signer_pattern(c->repository, &t->ref, pattern, err);
}

/* The keys of a command, and the requirements for signatures. */
struct sign_terms_owned {
	struct sign_key *key;
	struct trust_keys *trusted; /* or NULL */
	struct digest named;
	char pattern[TRUST_PATTERN_MAX + 1];
};

static int load_terms(const struct sign_config *c, const struct oci_ref *ref,
		      bool verify, struct sign_terms_owned *o,
		      struct sign_options *opt, struct error *err)
{
	int rc = signer_pattern(c->repository, ref, o->pattern, err);

	if (rc == 0)
		rc = image_artifact_parse(c->artifact, &o->named,
					  &opt->check.artifact, err);
	if (rc == 0)
		rc = signer_load(c->key,
				 verify ? TRUST_USE_VERIFY : TRUST_USE_SIGN,
				 &o->key, err);
	if (rc == 0 && c->trusted)
		rc = trust_keys_load(c->trusted, &o->trusted, err);
	opt->claim = verify ? TRUST_CLAIM_VERIFIED : TRUST_CLAIM_SIGNED;
	opt->trusted = o->trusted;
	opt->terms = (struct sign_terms){
		.key = o->key,
		.repository = o->pattern,
		.valid_s = c->expires / NS_PER_S,
	};
	return rc;
}

static int sign_with(struct sign_options *opt, const char *ref,
		     const struct image_target *t, struct error *err)
{
	struct image_progress progress;
	struct image_differs differs;
	struct sign_result r = { .compared = false };
	char digest[DIGEST_STR_MAX];
	int rc;

	image_differs_start(&differs);
	opt->check.against_layers = &differs.base;
	image_progress_start(&progress);
	opt->check.progress = &progress.base;
	rc = image_sign(&t->ref, opt, &r, err);
	image_progress_stop(&progress);
	image_differs_print(&differs);
	if (rc < 0)
		return rc;
	digest_format(&r.artifact, digest);
	printf("%s: %s artifact %s for %s\n", ref,
	       r.compared ? "it is what the layers hold; signed" : "signed",
	       digest, opt->terms.repository);
	return 0;
}

static int sign_image(const struct sign_config *c, const char *ref, bool verify,
		      struct error *err)
{
	struct sign_terms_owned own = { .key = NULL };
	struct sign_options opt = { .check.platform = c->platform };
	AUTO(image_target) t = NULL;
	int rc = image_target_new(ref, &c->access, &t, err);

	if (rc < 0)
		return rc;
	opt.check.config = t->config;
	rc = load_terms(c, &t->ref, verify, &own, &opt, err);
	if (rc == 0)
		rc = sign_with(&opt, ref, t, err);
	trust_keys_free(own.trusted);
	sign_key_free(own.key);
	return rc;
}

static int run_sign(const void *config, char **args, struct error *err)
{
	return sign_image(config, args[0], false, err);
}

static int run_verify(const void *config, char **args, struct error *err)
{
	return sign_image(config, args[0], true, err);
}

const struct command image_sign_command = {
	.brief = "Answer for the blocks of an image with a signature",
	.program = {
		.name = "bootseer image sign",
		.usage = "[OPTIONS] REF",
		.summary =
			"Sign what was stored of the image REF, so that nodes "
			"with the key's public half take it. What neither "
			"the key nor one of --trusted has signed before is "
			"compared with the image's layers first, unless "
			"--artifact names it.",
		.options = options,
		.examples = "bootseer image sign --expires 90d "
			    "docker://reg.example/app:1\n",
		.see_also = "bootseer(1), bootseerd(8)",
		.min_args = 1,
	},
	.config_size = sizeof(struct sign_config),
	.check = check_image_sign,
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
	},
	.config_size = sizeof(struct sign_config),
	.check = check_image_sign,
	.run = run_verify,
};
