// SPDX-License-Identifier: Apache-2.0
/* The keys of the one who converts and signs images. */
#ifndef BOOTSEER_CLI_SIGNER_H
#define BOOTSEER_CLI_SIGNER_H

#include "cli/image.h"
#include "common/option.h"
#include "snapshotter/trust.h"

/* Where a node looks for the public halves, unless its trust-keys say. */
#define SIGNER_TRUST_KEYS "/etc/bootseer/trust.pem"

/* Cure where an option names a key that is not there. */
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

/* The file of the user's own key, the caller's:
 * $XDG_CONFIG_HOME/bootseer/sign.key or ~/.config/bootseer/sign.key.  -ENOENT
 * when neither variable is set. */
int signer_default_path(char **ret, struct error *err) MUST_CHECK;

/* Make a key in the new file `path`, and its entry for nodes in PATH.pub.
 * -EEXIST: one of them is there. */
int signer_make(const char *path, const char *name, unsigned int uses,
		int64_t not_after_s, struct error *err) MUST_CHECK;

/* The key in the file, or (NULL) the user's own, to be used so (TRUST_USE_SIGN or
 * TRUST_USE_VERIFY).  -ENOENT names the cure; -EINVAL: what nodes are given of it,
 * PATH.pub, says that it is not for that, or the file is such a public half. */
int signer_load(const char *path, unsigned int use, struct sign_key **ret,
		struct error *err) MUST_CHECK;

/* A key to sign with, which may be new. */
struct signer_new {
	struct sign_key *key;
	char *path; /* where it is to be kept; NULL: it is a file's already */
};

/* The user's own key; where there is none, a new one that is kept nowhere yet, so that a
 * command that signs nothing in the end makes none.  Released by signer_new_fini(). */
int signer_load_or_new(struct signer_new *ret, struct error *err) MUST_CHECK;

/* Before the first signature by `arg`, a struct signer_new: keep a key that is new in its
 * file, and say on stdout where that is and what nodes need.  -EAGAIN: somebody else made
 * one meanwhile. */
int signer_keep_new(void *arg, struct error *err) MUST_CHECK;
void signer_new_fini(struct signer_new *s);

/* Say what a node needs to believe the key in the file `path`. */
void signer_print_entry(const char *path);

/* The pattern to sign for: the option's value, or the repository of `ref`. */
int signer_pattern(const char *option, const struct oci_ref *ref,
		   char ret[TRUST_PATTERN_MAX + 1],
		   struct error *err) MUST_CHECK;

#endif
