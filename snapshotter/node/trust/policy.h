// SPDX-License-Identifier: Apache-2.0
/*
 * The rules of the option --trust: for each repository, whose word this node accepts that an
 * artifact has the same content as its image's layers.  No I/O, no clock.  docs/trust.md
 * explains the rules; admission.h applies them.
 */
#ifndef BOOTSEER_NODE_POLICY_H
#define BOOTSEER_NODE_POLICY_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

#define POLICY_RULES_MAX 256
/* Longest prefix in bytes: fits a host and a repository of the distribution-spec. */
#define POLICY_PREFIX_MAX 511

enum policy_mode {
	POLICY_OFF,      /* no artifact is used */
	POLICY_REGISTRY, /* anybody who may push to the repository is trusted */
	POLICY_SIGN,     /* a listed key must have signed the artifact */
	/* a listed key must claim to have compared it with the layers */
	POLICY_VERIFIED,
	/* Modes of the option --index, with POLICY_OFF: */
	POLICY_ASK, /* the service is asked for an index */
	/* as POLICY_ASK; if the service has none, the node makes one */
	POLICY_BUILD,
};

struct policy_rule {
	char *prefix; /* "host[:port][/path]"; "": all repositories */
	enum policy_mode mode;
	/* file of public keys; NULL: the node's --trust-keys.  For POLICY_BUILD the file of the
	 * private key */
	char *keys;
};

struct policy {
	struct policy_rule *rules;
	size_t n;
};

/*
 * Parse "PREFIX=MODE" or "PREFIX=MODE:FILE", where PREFIX is "*" or begins with a host, MODE is
 * off, registry, sign or verified, and FILE is an absolute path of public keys.  `list` ends
 * with NULL; NULL or empty is "*=sign" alone.  -EINVAL: an invalid rule, two rules for one
 * prefix, or registry without a prefix; the message names the rule.
 */
int policy_parse(char *const *list, struct policy *ret,
		 struct error *err) MUST_CHECK;
/* Parse the rules of the option --index in the same way: "PREFIX=MODE", MODE being off, ask or
 * build:FILE, with the same private key in all rules; an empty list has no rule. */
int policy_parse_index(char *const *list, struct policy *ret,
		       struct error *err) MUST_CHECK;
/* The private key of the rules of --index; NULL: no rule builds.  Borrowed from `p`. */
const char *policy_index_key(const struct policy *p);
void policy_fini(struct policy *p);

/* The rule with the longest prefix of `repository` ("host[:port]/path"); NULL: none.  Case and
 * ":443" of the host do not matter. */
const struct policy_rule *policy_find(const struct policy *p,
				      const char *repository) MUST_CHECK;

#endif
