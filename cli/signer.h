// SPDX-License-Identifier: Apache-2.0
/* The keys of the user who converts and signs images. */
#ifndef BOOTSEER_CLI_SIGNER_H
#define BOOTSEER_CLI_SIGNER_H

#include "cli/image.h"
#include "common/option.h"
#include "snapshotter/trust.h"

/* Where a node looks for public keys, unless trust-keys is set. */
#define SIGNER_TRUST_KEYS "/etc/bootseer/trust.pem"

/* Advice when the file that an option names does not exist. */
#define SIGNER_ABSENT "'bootseer key new FILE' makes a key"

/* Members `repository` and `expires` of a command's configuration. */
#define SIGNER_OPTIONS(config) \
	{ .key = "repository", \
	  .type = OPTION_STRING, \
	  .arg = "PATTERN", \
	  .offset = offsetof(config, repository), \
	  .help = "Where the signature is good: HOST/PATH, or HOST/PATH/* for " \
		  "all below; default is the image's own repository." }, \
	{ \
		.key = "expires", .type = OPTION_DURATION, \
		.offset = offsetof(config, expires), .min = "1m", \
		.help = "How long the signature is good, as in 90d; default " \
			"is without end." \
	}

/* The path of the user's own key, owned by the caller: $XDG_CONFIG_HOME/bootseer/sign.key or
 * ~/.config/bootseer/sign.key.  -ENOENT when neither variable is set. */
int signer_default_path(char **ret, struct error *err) MUST_CHECK;

/* Make a key in the new file `path`, and its entry for nodes in PATH.pub.  -EEXIST: one of the
 * files exists. */
int signer_make(const char *path, const char *name, unsigned int uses,
		int64_t not_after_s, struct error *err) MUST_CHECK;

/* Load the key in the file `path`, or (NULL) the user's own, for the use TRUST_USE_SIGN or
 * TRUST_USE_VERIFY. -ENOENT: the message has the cure; -EINVAL: PATH.pub says that the key is not
 * for this use, or the file is such a public half. */
int signer_load(const char *path, unsigned int use, struct sign_key **ret,
		struct error *err) MUST_CHECK;

/* A key to sign with, which may be newly made. */
struct signer_new {
	struct sign_key *key;
	char *path; /* where to store a new key; NULL: the key is not new */
};

/* Load the user's own key, or make a new one in memory only, so that a command that signs nothing
 * leaves no key.  Released by signer_new_fini(). */
int signer_load_or_new(struct signer_new *ret, struct error *err) MUST_CHECK;

/* Called before the first signature; `arg` is a struct signer_new.  Stores a new key in its file,
 * and prints where it is and what nodes need.  -EAGAIN: another process made a key meanwhile. */
int signer_keep_new(void *arg, struct error *err) MUST_CHECK;
void signer_new_fini(struct signer_new *s);

/* Print what a node needs to trust the key in the file `path`. */
void signer_print_entry(const char *path);

/* The repositories to sign for: the option's pattern, or the repository of `ref`. */
int signer_pattern(const char *option, const struct oci_ref *ref,
		   char ret[TRUST_PATTERN_MAX + 1],
		   struct error *err) MUST_CHECK;

#endif
