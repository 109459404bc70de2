// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "cli/command.h"
#include "cli/image.h"
#include "cli/signer.h"
#include "common/clock.h"
#include "common/progress.h"

struct convert_config {
	struct image_access access;
	char *platform, *form, *temp_dir;
	char *key, *repository;
	int64_t expires;
	uint64_t jobs, level;
	bool force, prune, no_sign;
};

static const char *const forms[] = { "referrer", "flat", "index", NULL };

static const struct option_spec options[] = {
	{ .key = "jobs",
	  .letter = 'j',
	  .type = OPTION_INTEGER,
	  .offset = offsetof(struct convert_config, jobs),
	  .min = "1",
	  .max = "64",
	  .help = "Threads that compress blocks, and layers that are read at "
		  "once, at most 4; default is one for each processor, at "
		  "most 8." },
	{ .key = "force",
	  .letter = 'f',
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct convert_config, force),
	  .help = "Convert again although the image was converted. Nodes take "
		  "the new artifact from then on." },
	{ .key = "prune",
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct convert_config, prune),
	  .help = "Remove artifacts of the image that another one replaces. "
		  "Nodes that run them may still need their blocks, which the "
		  "registry then collects." },
	{ .key = "form",
	  .type = OPTION_ENUM,
	  .values = forms,
	  .offset = offsetof(struct convert_config, form),
	  .def = "referrer",
	  .help = "referrer: the image untouched, its blocks beside it; flat: "
		  "an image of one merged layer that names its blocks; index: "
		  "the image untouched, beside it only where its blocks lie in "
		  "its own layers." },
	IMAGE_PLATFORM_OPTION(struct convert_config,
			      "Which image of an index, or 'all'; default is "
			      "this machine's."),
	{ .key = "level",
	  .type = OPTION_INTEGER,
	  .offset = offsetof(struct convert_config, level),
	  .min = "1",
	  .max = "19",
	  .help = "Level of zstd; default is 5. Higher ones "
		  "take fewer bytes, about the same time to read, more "
		  "time to convert, and from 12 on some 60 MiB for each of "
		  "--jobs. Blocks that are stored already stay as they "
		  "are." },
	{ .key = "temp-dir",
	  .type = OPTION_STRING,
	  .arg = "DIR",
	  .offset = offsetof(struct convert_config, temp_dir),
	  .help = "Where blobs lie until they are uploaded; default is the "
		  "folder DST, or $TMPDIR, or /var/tmp." },
	{ .key = "sign",
	  .type = OPTION_FILE,
	  .arg = "KEY",
	  .absent = SIGNER_ABSENT,
	  .offset = offsetof(struct convert_config, key),
	  .help = "Sign with the private key in this file. Default in a "
		  "registry is the user's own, ~/.config/bootseer/sign.key, "
		  "which is made when there is none." },
	{ .key = "no-sign",
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct convert_config, no_sign),
	  .help = "Sign nothing: nodes take it when somebody else signs it, or "
		  "when they trust the registry." },
	SIGNER_OPTIONS(struct convert_config),
	IMAGE_ACCESS_OPTIONS(struct convert_config),
	{ .key = NULL },
};

static enum convert_form form_of(const struct convert_config *c)
{
	if (strcmp(c->form, "index") == 0)
		return CONVERT_FORM_INDEX;
	return strcmp(c->form, "flat") == 0 ? CONVERT_FORM_FLAT
					    : CONVERT_FORM_REFERRER;
}

static void print_result(const struct convert_result *r, const char *dst)
{
	char digest[DIGEST_STR_MAX];
	char input[PROGRESS_BYTES_MAX], fresh[PROGRESS_BYTES_MAX];
	char old[PROGRESS_BYTES_MAX], meta[PROGRESS_BYTES_MAX];
	char blocks[PROGRESS_COUNT_MAX];

	digest_format(&r->artifact, digest);
	if (r->existed && r->blocks == 0) {
		printf("%s was converted before%s: artifact %s\n", dst,
		       r->compared ? ", and is what the layers hold" : "",
		       digest);
		return;
	}
	progress_format_bytes(r->input_bytes, input);
	progress_format_bytes(r->new_bytes, fresh);
	progress_format_bytes(r->old_bytes, old);
	progress_format_bytes(r->meta_bytes, meta);
	progress_format_count(r->blocks, "block", blocks);
	printf("%s: artifact %s\n"
	       "  %s of layers, files and folders: %" PRIu64 "\n"
	       "  %s, new: %" PRIu64 "; %s stored, %s shared with earlier "
	       "images\n"
	       "  %s of metadata\n",
	       dst, digest, input, r->n_inodes, blocks, r->new_blocks, fresh,
	       old, meta);
}

static void print_signed(const struct sign_key *key, const char *pattern)
{
	char id[DIGEST_STR_MAX];

	digest_format(sign_key_id(key), id);
	printf("  signed with key %.19s for %s\n", id, pattern);
}

/* Sign only what goes to a registry, where nodes read it, or when a key was given: images in a
 * folder are signed when they are copied to a registry. */
static bool is_signed(const struct convert_config *c, const struct oci_ref *dst)
{
	return !c->no_sign &&
	       (c->key || dst->transport == OCI_TRANSPORT_REGISTRY);
}

static int check_signing(const struct convert_config *c,
			 const struct oci_ref *dst, struct error *err)
{
	char pattern[TRUST_PATTERN_MAX + 1];

	if (c->no_sign && (c->key || c->repository || c->expires))
		return error_set(err, EINVAL,
				 "--no-sign, and how to sign: one of them is "
				 "too much");
	if (is_signed(c, dst))
		return signer_pattern(c->repository, dst, pattern, err);
	if (c->repository || c->expires)
		return error_set(err, EINVAL,
				 "--repository and --expires are of a "
				 "signature: what goes to a folder is signed "
				 "with --sign KEY");
	return 0;
}

static int check_image_convert(const void *config, char **args,
			       struct error *err)
{
	const struct convert_config *c = config;
	const struct convert_options opt = {
		.platform = c->platform,
		.form = form_of(c),
	};
	AUTO(image_target) dst = NULL;
	int rc = image_ref_check(args[0], err);

	if (rc == 0)
		rc = image_target_new(args[1], &c->access, &dst, err);
	if (rc == 0)
		rc = image_convert_check(&dst->ref, &opt, err);
	return rc < 0 ? rc : check_signing(c, &dst->ref, err);
}

/* Load the key to sign with; a NULL key: do not sign. */
static int load_key(const struct convert_config *c, const struct oci_ref *dst,
		    struct signer_new *ret, struct error *err)
{
	if (c->key)
		return signer_load(c->key, TRUST_USE_SIGN, &ret->key, err);
	return is_signed(c, dst) ? signer_load_or_new(ret, err) : 0;
}

static int convert_image(const struct convert_config *c, const char *name,
			 const struct image_target *src,
			 const struct image_target *dst,
			 struct signer_new *signer, struct error *err)
{
	char pattern[TRUST_PATTERN_MAX + 1];
	const struct sign_terms terms = { .key = signer->key,
					  .repository = pattern,
					  .valid_s = c->expires / NS_PER_S,
					  .before = signer_keep_new,
					  .arg = signer };
	struct image_progress progress;
	struct convert_result result;
	struct convert_options opt = {
		.platform = c->platform,
		.form = form_of(c),
		.jobs = c->jobs ? (unsigned int)c->jobs : image_default_jobs(),
		.force = c->force,
		.prune = c->prune,
		.level = (int)c->level,
		.temp_dir = c->temp_dir,
		.sign = signer->key ? &terms : NULL,
		.src_config = src->config,
		.dst_config = dst->config,
		.progress = &progress.base,
	};
	int rc = signer->key ? signer_pattern(c->repository, &dst->ref, pattern,
					      err)
			     : 0;

	if (rc < 0)
		return rc;
	image_progress_start(&progress);
	rc = image_convert(&src->ref, &dst->ref, &opt, &result, err);
	image_progress_stop(&progress);
	if (rc == 0)
		print_result(&result, name);
	if (rc == 0 && signer->key)
		print_signed(signer->key, pattern);
	return rc;
}

static int run_image_convert(const void *config, char **args, struct error *err)
{
	const struct convert_config *c = config;
	AUTO(image_target) src = NULL;
	AUTO(image_target) dst = NULL;
	AUTO_FINI(signer_new) signer = { .key = NULL };
	int rc = image_target_new(args[0], &c->access, &src, err);

	if (rc == 0)
		rc = image_target_new(args[1], &c->access, &dst, err);
	if (rc == 0)
		rc = load_key(c, &dst->ref, &signer, err);
	if (rc == 0)
		rc = convert_image(c, args[1], src, dst, &signer, err);
	return rc;
}

const struct command image_convert_command = {
	.brief = "Store an image as blocks that nodes start without a pull",
	.program = {
		.name = "bootseer image convert",
		.usage = "[OPTIONS] SRC DST",
		.summary = "Store the image SRC as deduplicated blocks at DST, "
			   "so that nodes start it without pulling it. SRC and "
			   "DST may be the same.",
		.options = options,
		.examples =
			"bootseer image convert docker://reg.example/app:1 "
			"docker://reg.example/app:1\n"
			"bootseer image convert oci:build:1 "
			"docker://reg.example/app:1\n",
		.see_also = "bootseer(1), bootseerd(8)",
		.min_args = 2,
	},
	.config_size = sizeof(struct convert_config),
	.check = check_image_convert,
	.run = run_image_convert,
};
