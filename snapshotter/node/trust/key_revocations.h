// SPDX-License-Identifier: Apache-2.0
/*
 * Revoked keys, whose signatures of images are not trusted any more.  A key's id is the SHA-256
 * of the raw public key of Ed25519, of the DER SubjectPublicKeyInfo of any other.
 *
 * A key on any list is revoked.  A thread asks each service that the node knows for its list
 * once a minute (docs/formats/registry-api.md, "Keys that are not believed"): services may have
 * separate databases.  The last answers are saved in ROOT/trust-revoked, so they count without
 * the services and after a restart.  One more list is the operator's file.
 */
#ifndef BOOTSEER_NODE_KEY_REVOCATIONS_H
#define BOOTSEER_NODE_KEY_REVOCATIONS_H

#include <stdbool.h>

#include "common/buf.h"
#include "common/digest.h"
#include "net/service_client.h"

struct node_config;

/* Most keys of one list. bootseer-registry keeps 10,000, and a few more when several replicas
 * add the last one at once. */
#define TRUST_REVOKED_MAX 11000u
#define TRUST_REVOKED_SERVICES_MAX 17u
/* Most keys of the saved list: enough for the longest lists of all services, so that a service
 * with a long list does not keep another one's from being saved. */
#define TRUST_REVOKED_KEPT_MAX (TRUST_REVOKED_SERVICES_MAX * TRUST_REVOKED_MAX)
#define TRUST_REVOKED_NAME "trust-revoked" /* name of the file in ROOT */

struct key_revocations_config {
	const char *root;
	const char *file; /* the operator's list; NULL: none */
	/* Services whose lists of revoked keys are read. */
	struct service_client_config services[TRUST_REVOKED_SERVICES_MAX];
	size_t n_services;
	/* between two requests to a service; 0: a minute */
	int64_t interval_ns;
};

/* The configuration that bootseerd's options name: --service, then each
 * --p2p-tracker. Borrows from `cfg`. */
void key_revocations_config_of(const struct node_config *cfg,
			       struct key_revocations_config *ret);

struct key_revocations;

/*
 * Read both lists from the disk, and begin to ask services.  Fails when the operator's file
 * cannot be read.  If the list in ROOT is damaged, every key counts as revoked until each
 * service has answered: images start the ordinary way meanwhile.
 */
int key_revocations_open(const struct key_revocations_config *cfg,
			 struct key_revocations **ret,
			 struct error *err) MUST_CHECK;
/* Waits for the request under way.  NULL is allowed. */
void key_revocations_close(struct key_revocations *t);

/* Is this key revoked?  Any thread; never blocks for long. */
bool key_revocations_has(struct key_revocations *t,
			 const struct digest *key_id);

/* Can the operator's file be read?  NULL: there is none. */
int key_revocations_check(const char *file, struct error *err) MUST_CHECK;

/* Read the operator's file again, and ask the services at once.  If the file cannot be read,
 * the old list stays. */
int key_revocations_reload(struct key_revocations *t,
			   struct error *err) MUST_CHECK;

struct key_revocations_stats {
	uint64_t keys;    /* number of revoked keys, each counted once */
	uint64_t changes; /* of the lists, since the start */
	uint64_t failures_total;
	int64_t asked_s; /* when all services last answered, seconds since 1970;
			  * 0: they have not since the start */
	/* the list in ROOT is damaged: every key counts as revoked */
	bool is_damaged;
	/* why a service did not answer; "": all did */
	char error[ERROR_MSG_MAX];
};
void key_revocations_get_stats(struct key_revocations *t,
			       struct key_revocations_stats *ret);

/* A sorted list of key ids.  The functions below do no I/O. */
struct key_ids {
	struct digest *v;
	size_t n;
};
void key_ids_fini(struct key_ids *k);
/* Lines of "HEX" or "sha256:HEX"; '#' begins a comment.  -EINVAL names the line;
 * -E2BIG: more than `max`. */
int key_ids_parse(const char *text, size_t len, size_t max, struct key_ids *ret,
		  struct error *err) MUST_CHECK;
/* Add the ids of another list; each id is kept once. */
int key_ids_merge(struct key_ids *k, const struct key_ids *more,
		  struct error *err) MUST_CHECK;
/*
 * The saved list ends with a line with its digest, since a flipped bit would take a revocation
 * back: add that line to `text`, or check it (-EBADMSG).
 */
int key_ids_seal(struct buf *text, struct error *err) MUST_CHECK;
int key_ids_check_seal(const char *text, size_t len,
		       struct error *err) MUST_CHECK;
/* Parse the service's answer. */
int key_ids_from_json(const char *text, size_t len, struct key_ids *ret,
		      struct error *err) MUST_CHECK;
bool key_ids_has(const struct key_ids *k, const struct digest *id);

#endif
