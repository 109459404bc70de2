// SPDX-License-Identifier: Apache-2.0
/*
 * Calls of bootseer-registry about environments: docs/formats/registry-api.md,
 * "Environments".  Any thread.
 */
#ifndef BOOTSEER_ENVCACHE_SERVICE_CALLS_H
#define BOOTSEER_ENVCACHE_SERVICE_CALLS_H

#include "envcache/catalog_priv.h"
#include "envcache/envcache.h"

#define ENV_CAPTURE_ROOM 33 /* of the id of a capture, with its NUL */

struct service_client;

/* Where keys are asked about; borrowed. */
struct env_calls {
	struct service_client *client;
	const char *repo;
};

/* A snapshot of a key, as the service describes it. */
struct env_said {
	struct digest key;
	bool has_snapshot;
	char capture[ENV_CAPTURE_ROOM];
	struct digest description; /* of the text of its index */
	struct env_marks marks;    /* but when it was used */
	int64_t age_ms, unused_ms; /* since it was made, and used */
};

/* Answer of the service when the lease of a key is asked for. */
struct env_lease_said {
	enum {
		ENV_LEASE_YOURS,
		ENV_LEASE_HELD,
		ENV_LEASE_MADE,
		ENV_LEASE_FAILED, /* a command did since the caller waits */
	} state;
	uint64_t generation;         /* of ENV_LEASE_YOURS */
	int64_t failures;            /* of commands, ever */
	uint32_t retry_ms;           /* ask again after this */
	char holder[ENV_OWNER_ROOM]; /* of ENV_LEASE_HELD; "": nobody says */
};

/* -ENOENT: a service that has no such routes; -EREMOTEIO: it answered that it cannot, or
 * has no room (429, 500, or 503 several times); else as service_client_do(). */
int env_calls_get(const struct env_calls *s, const struct digest *key,
		  struct env_said *ret, struct error *err) MUST_CHECK;
/* List all keys that begin with these digits. */
int env_calls_list(const struct env_calls *s, const char *begins,
		   int (*fn)(void *arg, const struct env_said *one,
			     struct error *err),
		   void *arg, struct error *err) MUST_CHECK;
/* A request for a lease. */
struct env_lease_ask {
	const char *by; /* for people */
	uint32_t ttl_ms;
	const char *instead; /* a capture that will not do, or "" */
	int64_t failures;    /* as the first answer had them; < 0: this is it */
};
int env_calls_take(const struct env_calls *s, const struct digest *key,
		   const struct env_lease_ask *want, struct env_lease_said *ret,
		   struct error *err) MUST_CHECK;
int env_calls_renew(const struct env_calls *s, const struct digest *key,
		    uint64_t generation, struct error *err) MUST_CHECK;
int env_calls_drop(const struct env_calls *s, const struct digest *key,
		   uint64_t generation, bool has_failed,
		   struct error *err) MUST_CHECK;
/* -ESTALE: another has the lease now. */
int env_calls_publish(const struct env_calls *s, uint64_t generation,
		      const struct env_snapshot *snap,
		      const struct digest *description, int64_t ttl_ms,
		      struct error *err) MUST_CHECK;
int env_calls_used(const struct env_calls *s, const struct env_snapshot *snap,
		   struct error *err) MUST_CHECK;
int env_calls_bad(const struct env_calls *s, const struct env_snapshot *snap,
		  const char *host, const char *why,
		  struct error *err) MUST_CHECK;
int env_calls_pin(const struct env_calls *s, const struct digest *key,
		  bool is_pinned, struct error *err) MUST_CHECK;
int env_calls_remove(const struct env_calls *s, const struct digest *key,
		     struct error *err) MUST_CHECK;

#endif
