// SPDX-License-Identifier: Apache-2.0
/*
 * Whom this node believes that an artifact holds what its image's layers hold, by
 * repository: the rules of the option --trust.  Pure: no I/O, no clock.  What the
 * rules mean is in docs/trust.md; admission.h applies them.
 */
#ifndef BOOTSEER_NODE_POLICY_H
#define BOOTSEER_NODE_POLICY_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

#define POLICY_RULES_MAX 256
/* Bytes of a prefix: a host and a repository of the distribution-spec fit. */
#define POLICY_PREFIX_MAX 511

enum policy_mode {
	POLICY_OFF,      /* no artifact is used */
	POLICY_REGISTRY, /* whoever may push to the repository */
	POLICY_SIGN,     /* a key of the list signed the artifact */
	POLICY_VERIFIED, /* a key of the list compared it with the layers */
	/* Modes of the option --index, with POLICY_OFF: */
	POLICY_ASK,   /* the service is asked for an index */
	POLICY_BUILD, /* the same; where it has none, the node makes it */
};

struct policy_rule {
	char *prefix; /* "host[:port][/path]"; "" is everywhere */
	enum policy_mode mode;
	char *keys; /* file of public keys; NULL: the node's --trust-keys.  Of
		     * POLICY_BUILD the private one */
};

struct policy {
	struct policy_rule *rules;
	size_t n;
};

/*
 * Parse "PREFIX=MODE" or "PREFIX=MODE:FILE", where PREFIX is "*" or begins with a
 * host, MODE is off, registry, sign or verified, and FILE is an absolute path of
 * public keys.  `list` ends with NULL; NULL or empty is "*=sign" alone.  -EINVAL:
 * a rule that is none, two for one prefix, or registry without a prefix; the
 * message names it and what is wanted.
 */
int policy_parse(char *const *list, struct policy *ret,
		 struct error *err) MUST_CHECK;
/* The rules of the option --index: "PREFIX=MODE", MODE being off, ask or build:FILE, with
 * the same private key in all; an empty list has no rule.  Else the same. */
int policy_parse_index(char *const *list, struct policy *ret,
		       struct error *err) MUST_CHECK;
/* The private key of these; NULL: no rule builds.  Borrowed from `p`. */
const char *policy_index_key(const struct policy *p);
void policy_fini(struct policy *p);

/* The rule of the longest prefix that `repository` ("host[:port]/path") lies in;
 * NULL: none.  Case and ":443" of a host do not matter. */
const struct policy_rule *policy_find(const struct policy *p,
				      const char *repository) MUST_CHECK;

#endif
