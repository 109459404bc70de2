// SPDX-License-Identifier: Apache-2.0
/*
 * The right of a node to have one image of one repository, or one environment of a store:
 * a text signed with Ed25519 (RFC 8032) by bootseer-registry, after the repository's own
 * registry said that the caller may pull it, or the tokens file that it may read the store.
 * Peers check it without asking anybody.  Byte table: docs/formats/capability.md.
 */
#ifndef BOOTSEER_P2P_RIGHTS_CAPABILITY_H
#define BOOTSEER_P2P_RIGHTS_CAPABILITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/digest.h"
#include "common/error.h"

#define CAPABILITY_MAX 960u /* bytes, encoded */
#define CAPABILITY_NODE_MAX 255u
#define CAPABILITY_REPO_MAX 512u
#define CAPABILITY_KEYS_MAX \
	16u /* public keys: the one in use, others to come
	                         * or that still are believed */

struct capability {
	struct digest image; /* the artifact's manifest */
	char repo[CAPABILITY_REPO_MAX +
		  1]; /* where it may be read, or a store */
	char node[CAPABILITY_NODE_MAX + 1];
	int64_t not_before, not_after; /* seconds since 1970 */
	uint32_t rights;               /* CAPABILITY_PULL */
};
#define CAPABILITY_PULL 1u

/* "HOST[:PORT]/REPOSITORY", within the bounds, and nothing in it that ends a URL or a
 * header, or leads elsewhere. */
bool capability_is_repo(const char *repo);
/* A store's URL, "s3://bucket/env": without options, within the bounds, printable. */
bool capability_is_store(const char *repo);
/* The "HOST[:PORT]/REPOSITORY" whose registry says who may read there: of itself, and of a
 * "docker://" store; borrowed.  NULL: there is none. */
const char *capability_repo_of(const char *repo);

/* Private half; from a PEM file that only its owner reads (-EACCES). */
struct capability_signer;
int capability_signer_load(const char *path, struct capability_signer **ret,
			   struct error *err) MUST_CHECK;
void capability_signer_free(struct capability_signer *s);
DEFINE_AUTO(capability_signer)
/* Its public half, PEM, appended. */
int capability_signer_public(const struct capability_signer *s, struct buf *ret,
			     struct error *err) MUST_CHECK;
int capability_sign(const struct capability_signer *s,
		    const struct capability *c, uint8_t ret[CAPABILITY_MAX],
		    size_t *ret_len, struct error *err) MUST_CHECK;

/* Public halves; PEM, one or more in a file. Any thread. */
struct capability_keys;
int capability_keys_parse(const char *pem, size_t len,
			  struct capability_keys **ret,
			  struct error *err) MUST_CHECK;
int capability_keys_load(const char *path, struct capability_keys **ret,
			 struct error *err) MUST_CHECK;
void capability_keys_free(struct capability_keys *k);
DEFINE_AUTO(capability_keys)

/* Pure. -EBADMSG: not one, or changed; -EACCES: of another image, repository or node,
 * over, not yet, or signed by nobody known; the message says which. */
int capability_check(const struct capability_keys *k, const void *data,
		     size_t len, const struct digest *image, const char *repo,
		     const char *node, int64_t now_s, struct capability *ret,
		     struct error *err) MUST_CHECK;
/* The text without its signature being looked at. */
int capability_decode(const void *data, size_t len, struct capability *ret,
		      struct error *err) MUST_CHECK;

#endif
