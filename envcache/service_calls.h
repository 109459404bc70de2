// SPDX-License-Identifier: Apache-2.0
/*
 * Requests to bootseer-registry about environments: docs/formats/registry-api.md, "Environments".
 * Any thread.
 */
#ifndef BOOTSEER_ENVCACHE_SERVICE_CALLS_H
#define BOOTSEER_ENVCACHE_SERVICE_CALLS_H

#include "envcache/catalog_priv.h"
#include "envcache/envcache.h"

#define ENV_CAPTURE_ROOM 33 /* bytes of a capture's id, with NUL */

struct service_client;

/* The service, and the repository of the keys; borrowed. */
struct env_calls {
	struct service_client *client;
	const char *repo;
};

/* A snapshot of a key, as the service describes it. */
struct env_said {
	struct digest key;
	bool has_snapshot;
	char capture[ENV_CAPTURE_ROOM];
	struct digest description; /* digest of the text of its index */
	struct env_marks marks;    /* except the time of last use */
	int64_t age_ms, unused_ms; /* times since it was made and last used */
};

/* The service's reply to a request for a key's lease. */
struct env_lease_said {
	enum {
		ENV_LEASE_YOURS,
		ENV_LEASE_HELD,
		ENV_LEASE_MADE,
		ENV_LEASE_FAILED, /* another node's command failed meanwhile */
	} state;
	uint64_t generation;         /* number of the lease, with
	                              * ENV_LEASE_YOURS */
	int64_t failures;            /* number of failed commands so far */
	uint32_t retry_ms;           /* pause before the next request */
	char holder[ENV_OWNER_ROOM]; /* node that has the lease
	                              * (ENV_LEASE_HELD); "": unknown */
};

/* All calls return -ENOENT if the service lacks these routes; -EREMOTEIO if it refused or is full
 * (429, 500, or several times 503); other errors as in service_client_do(). */
int env_calls_get(const struct env_calls *s, const struct digest *key,
		  struct env_said *ret, struct error *err) MUST_CHECK;
/* List all keys that begin with these digits. */
int env_calls_list(const struct env_calls *s, const char *begins,
		   int (*fn)(void *arg, const struct env_said *one,
			     struct error *err),
		   void *arg, struct error *err) MUST_CHECK;
/* A request for a lease. */
struct env_lease_ask {
	const char *by; /* the requester, shown to users */
	uint32_t ttl_ms;
	const char *instead; /* a capture to be replaced, or "" */
	int64_t failures;    /* count in the first reply; < 0: first request */
};
int env_calls_take(const struct env_calls *s, const struct digest *key,
		   const struct env_lease_ask *want, struct env_lease_said *ret,
		   struct error *err) MUST_CHECK;
int env_calls_renew(const struct env_calls *s, const struct digest *key,
		    uint64_t generation, struct error *err) MUST_CHECK;
int env_calls_drop(const struct env_calls *s, const struct digest *key,
		   uint64_t generation, bool has_failed,
		   struct error *err) MUST_CHECK;
/* Publish a snapshot.  -ESTALE: another node has the lease now. */
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
