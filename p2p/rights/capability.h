// SPDX-License-Identifier: Apache-2.0
/*
 * The right of a node to one image of one repository, or one environment of a store: a text signed
 * with Ed25519 (RFC 8032) by bootseer-registry after the repository's registry allowed the caller
 * to pull it, or the tokens file allowed it to read the store. Peers check it without a call. Byte
 * table: docs/formats/capability.md.
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
	16u /* public keys: the one in use, and earlier or later ones */

struct capability {
	struct digest image; /* the artifact's manifest */
	char repo[CAPABILITY_REPO_MAX +
		  1]; /* repository where it may be read, or a store */
	char node[CAPABILITY_NODE_MAX + 1];
	int64_t not_before, not_after; /* seconds since 1970 */
	uint32_t rights;               /* CAPABILITY_PULL */
};
#define CAPABILITY_PULL 1u

/* Is it "HOST[:PORT]/REPOSITORY" within the limits, without characters that end a URL or a
 * header, or lead elsewhere? */
bool capability_is_repo(const char *repo);
/* Is it a store's URL, "s3://bucket/env": no options, within the limits, printable? */
bool capability_is_store(const char *repo);
/* The "HOST[:PORT]/REPOSITORY" whose registry decides who may read: the repository itself, or
 * that of a "docker://" store; borrowed. NULL: none. */
const char *capability_repo_of(const char *repo);

/* Private key, from a PEM file that only its owner can read (else -EACCES). */
struct capability_signer;
int capability_signer_load(const char *path, struct capability_signer **ret,
			   struct error *err) MUST_CHECK;
void capability_signer_free(struct capability_signer *s);
DEFINE_AUTO(capability_signer)
/* Append the signer's public key as PEM. */
int capability_signer_public(const struct capability_signer *s, struct buf *ret,
			     struct error *err) MUST_CHECK;
int capability_sign(const struct capability_signer *s,
		    const struct capability *c, uint8_t ret[CAPABILITY_MAX],
		    size_t *ret_len, struct error *err) MUST_CHECK;

/* Public keys; PEM, one or more in a file. Any thread. */
struct capability_keys;
int capability_keys_parse(const char *pem, size_t len,
			  struct capability_keys **ret,
			  struct error *err) MUST_CHECK;
int capability_keys_load(const char *path, struct capability_keys **ret,
			 struct error *err) MUST_CHECK;
void capability_keys_free(struct capability_keys *k);
DEFINE_AUTO(capability_keys)

/* Pure. -EBADMSG: not a capability, or changed; -EACCES: for another image, repository or node,
 * expired, not valid yet, or signed by an unknown key; the message says which. */
int capability_check(const struct capability_keys *k, const void *data,
		     size_t len, const struct digest *image, const char *repo,
		     const char *node, int64_t now_s, struct capability *ret,
		     struct error *err) MUST_CHECK;
/* Parse a capability without checking its signature. */
int capability_decode(const void *data, size_t len, struct capability *ret,
		      struct error *err) MUST_CHECK;

#endif
