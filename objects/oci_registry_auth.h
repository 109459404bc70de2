// SPDX-License-Identifier: Apache-2.0
/* Credentials of registries and the challenges they answer. */
#ifndef BOOTSEER_OBJECTS_OCI_REGISTRY_AUTH_H
#define BOOTSEER_OBJECTS_OCI_REGISTRY_AUTH_H

#include "net/http.h"
#include "objects/oci.h"
#include "objects/oci_logins.h"

/* Credentials of a host; all NULL is anonymous. */
struct credentials {
	char *user, *password;
	char *identity_token; /* OAuth 2 refresh token */
};

void credentials_fini(struct credentials *c);

/*
 * Look a host up in docker's config.json: credHelpers, credsStore, auths, in
 * this order.  `path` NULL: $DOCKER_CONFIG/config.json, ~/.docker/config.json,
 * $XDG_RUNTIME_DIR/containers/auth.json, the first that exists.  A helper that
 * fails is an error; a host that is nowhere is anonymous.  -ECANCELED when `pace`
 * (may be NULL) says stop while a helper takes its time.
 */
int credentials_find(const char *path, const char *host, const char *repo,
		     struct pace *pace, struct credentials *ret,
		     struct error *err) MUST_CHECK;

/* Pure part; `place` is "host/repository".  `helper` is set instead where a
 * program must be asked. */
int credentials_parse(const void *json, size_t len, const char *place,
		      struct credentials *ret, char **helper,
		      struct error *err) MUST_CHECK;

/* The same of docker's config.json as a text, where docker's own registry has an old name. */
int credentials_of_config(const char *json, const char *host, const char *repo,
			  struct credentials *ret, char **helper,
			  struct error *err) MUST_CHECK;

/* Finds a login that pods showed for host/repo (oci_logins.h) and that was not refused since:
 * those that have worked first, then the newest.  -ENOENT, -ENOMEM. */
int oci_logins_find(struct oci_logins *l, const char *host, const char *repo,
		    struct credentials *ret, uint64_t *ret_id) MUST_CHECK;
/* The token service failed, but not by a refusal, when it was shown this login: the failure may
 * be the login's own, so that for a minute other places go first. */
void oci_logins_pass(struct oci_logins *l, uint64_t id);
/* Finds, of those for which the token service failed and that no registry refused, the login
 * whose turn is longest ago; how many there are is 0 for NULL.  -ENOENT, -ENOMEM. */
int oci_logins_find_passed(struct oci_logins *l, const char *host,
			   const char *repo, struct credentials *ret,
			   uint64_t *ret_id) MUST_CHECK;
size_t oci_logins_count_passed(struct oci_logins *l, const char *host,
			       const char *repo);
/* The registry accepted or refused it. */
void oci_logins_note(struct oci_logins *l, uint64_t id, bool works);
/* Is it still there? */
bool oci_logins_has(struct oci_logins *l, uint64_t id);
/* A number that changes when there is a new one for that repository; NULL: 0. */
unsigned int oci_logins_news(struct oci_logins *l, const char *host,
			     const char *repo);
/* NULL: no plugin is to be asked. */
struct oci_providers *oci_logins_providers(struct oci_logins *l);

/* The parsed header WWW-Authenticate (RFC 7235, RFC 6750). */
struct challenge {
	bool bearer, basic;
	char *realm, *service, *scope; /* of bearer */
};

int challenge_parse(const char *header, struct challenge *ret,
		    struct error *err) MUST_CHECK;
void challenge_fini(struct challenge *c);

/* How a token service is asked. */
struct challenge_wait {
	struct pace *pace; /* or NULL */
	uint32_t
		reach_ms; /* as in struct http_request; 0: as long as it takes */
	bool *ret_is_reached; /* or NULL: there was a connection */
};

/* The value of an Authorization header that meets the challenge; asks the
 * token service for a bearer token.  Caller owns. */
int challenge_answer(struct http *http, const struct challenge *c,
		     const struct credentials *who,
		     const struct challenge_wait *wait, char **ret,
		     struct error *err) MUST_CHECK;

#endif
