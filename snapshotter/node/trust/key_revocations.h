// SPDX-License-Identifier: Apache-2.0
/*
 * Keys that sign images and are not to be believed any more, by their ids: SHA-256
 * of the raw public key of Ed25519, of the DER SubjectPublicKeyInfo of any other.
 *
 * All lists count together.  Those of bootseer-registry (docs/formats/registry-api.md, "Keys
 * that are not believed") a thread asks for once a minute, each service that the node
 * knows, as they may have databases of their own; what was said last is kept in
 * ROOT/trust-revoked, so it holds without them and after a restart.  The other one is
 * the operator's, a file.
 */
#ifndef BOOTSEER_NODE_KEY_REVOCATIONS_H
#define BOOTSEER_NODE_KEY_REVOCATIONS_H

#include <stdbool.h>

#include "common/buf.h"
#include "common/digest.h"
#include "net/service_client.h"

struct node_config;

/* Keys of one list at most. bootseer-registry keeps 10,000, and some more when
 * several replicas take the last one at once. */
#define TRUST_REVOKED_MAX 11000u
#define TRUST_REVOKED_SERVICES_MAX 17u
/* Keys of the list that the node keeps: a service that says all that it may
 * must not keep another's from being there after a restart. */
#define TRUST_REVOKED_KEPT_MAX (TRUST_REVOKED_SERVICES_MAX * TRUST_REVOKED_MAX)
#define TRUST_REVOKED_NAME "trust-revoked" /* of the file in ROOT */

struct key_revocations_config {
	const char *root;
	const char *file; /* the operator's list; NULL: none */
	/* Services whose lists of revoked keys are read. */
	struct service_client_config services[TRUST_REVOKED_SERVICES_MAX];
	size_t n_services;
	int64_t interval_ns; /* between two questions; 0: a minute */
};

/* The configuration that bootseerd's options name: --service, then each
 * --p2p-tracker. Borrows from `cfg`. */
void key_revocations_config_of(const struct node_config *cfg,
			       struct key_revocations_config *ret);

struct key_revocations;

/*
 * Read both lists from the disk, and begin to ask.  Fails when the operator's file
 * cannot be read.  A list in ROOT that is damaged revokes every key until each service
 * has answered: the node then starts images the ordinary way.
 */
int key_revocations_open(const struct key_revocations_config *cfg,
			 struct key_revocations **ret,
			 struct error *err) MUST_CHECK;
/* Waits for the request under way.  NULL is allowed. */
void key_revocations_close(struct key_revocations *t);

/* Is this key not to be believed?  Any thread; never blocks for long. */
bool key_revocations_has(struct key_revocations *t,
			 const struct digest *key_id);

/* Can the operator's file be read?  NULL: there is none. */
int key_revocations_check(const char *file, struct error *err) MUST_CHECK;

/* The operator's file as it is now, and ask the service at once.  A file that cannot
 * be read stays as it was. */
int key_revocations_reload(struct key_revocations *t,
			   struct error *err) MUST_CHECK;

struct key_revocations_stats {
	uint64_t keys;    /* on all lists, each once */
	uint64_t changes; /* of the lists since the start */
	uint64_t failures_total;
	int64_t asked_s; /* when all services last answered, seconds since 1970;
			  * 0: they have not since the start */
	bool is_damaged; /* the list in ROOT: every key counts as revoked */
	char error[ERROR_MSG_MAX]; /* why one did not; "": all did */
};
void key_revocations_get_stats(struct key_revocations *t,
			       struct key_revocations_stats *ret);

/* A list, sorted.  Pure. */
struct key_ids {
	struct digest *v;
	size_t n;
};
void key_ids_fini(struct key_ids *k);
/* Lines of "HEX" or "sha256:HEX"; '#' begins a comment.  -EINVAL names the line;
 * -E2BIG: more than `max`. */
int key_ids_parse(const char *text, size_t len, size_t max, struct key_ids *ret,
		  struct error *err) MUST_CHECK;
/* Add those of another list; each is there once. */
int key_ids_merge(struct key_ids *k, const struct key_ids *more,
		  struct error *err) MUST_CHECK;
/*
 * A list that the node keeps ends with a line of its digest, since every bit of it
 * that flips would take a revocation back: add that line to `text`, or check it,
 * -EBADMSG.  Pure.
 */
int key_ids_seal(struct buf *text, struct error *err) MUST_CHECK;
int key_ids_check_seal(const char *text, size_t len,
		       struct error *err) MUST_CHECK;
/* The answer of the service. */
int key_ids_from_json(const char *text, size_t len, struct key_ids *ret,
		      struct error *err) MUST_CHECK;
bool key_ids_has(const struct key_ids *k, const struct digest *id);

#endif
