// SPDX-License-Identifier: Apache-2.0
/*
 * Client for a Kubernetes API server: credentials, deadlines, retries, and explanations of
 * refusals. One thread at a time may use a client.
 */
#ifndef BOOTSEER_PROFILER_KUBE_KUBE_H
#define BOOTSEER_PROFILER_KUBE_KUBE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

#define KUBE_SECRET_MAX 65536u /* bytes of a token */

struct kube;

/* Texts are copied. */
struct kube_config {
	/* "https://HOST[:PORT]"; http:// to this machine only */
	const char *server;
	/* PEM text of the trusted authorities; NULL: the system's */
	const char *ca;
	bool is_unverified;     /* accept any certificate of the server */
	const char *cert, *key; /* PEM texts; both or neither */
	const char *token;      /* NULL: none */
	/* file with the token, read for each call; NULL: none */
	const char *token_file;
	/* when all calls must have ended, CLOCK_MONOTONIC */
	int64_t deadline_ns;
};

/* Create a client; makes no request. -EINVAL: the address is invalid, or would receive a secret
 * unencrypted. */
int kube_new(const struct kube_config *cfg, struct kube **ret,
	     struct error *err) MUST_CHECK;
void kube_free(struct kube *k); /* NULL is allowed */
DEFINE_AUTO(kube)

struct kube_call {
	const char *method;
	const char *path; /* path and query, beginning with the slash */
	/* media type of the body: "application/merge-patch+json" */
	const char *type;
	const json_t *body; /* NULL: none */
};

/*
 * Send a request, and retry failures that may be temporary; so the request must have the same
 * effect when it is done twice. `*ret` is an object that the caller owns; `ret` may be NULL.
 *   -EACCES   401, 403: the message names the user and the right that is missing
 *   -ENOENT   404
 *   -EEXIST   409: an object of this name is there, or has changed meanwhile
 *   -EBUSY    429, 503 and -EIO, -ETIMEDOUT, -ECONNREFUSED: not over in time
 *   -EINVAL   400, 422
 *   -EBADMSG  the answer is none of this API
 */
int kube_do(struct kube *k, const struct kube_call *c, json_t **ret,
	    struct error *err) MUST_CHECK;

/* Called with each object of a list; a result other than 0 ends the list and is returned. */
typedef int kube_item_fn(void *arg, json_t *item, struct error *err);

/* Call `fn` with the objects of a list ("/api/v1/pods"), requested `page` at a time. Errors as for
 * kube_do(). */
int kube_list(struct kube *k, const char *path, unsigned int page,
	      kube_item_fn *fn, void *arg, struct error *err) MUST_CHECK;

/* The server's time in its last answer, ms since 1970; -1: unknown. */
int64_t kube_date_ms(const struct kube *k);

/* Is it a valid name of an object (a DNS subdomain)? Needed because names become parts of paths. */
bool kube_is_name(const char *s);

#endif
