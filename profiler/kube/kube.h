// SPDX-License-Identifier: Apache-2.0
/*
 * Calls of a Kubernetes API server: credentials, deadlines, retries, and what its refusals
 * mean.  One thread at a time uses a client.
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
	const char *
		server; /* "https://HOST[:PORT]"; http:// to this machine only */
	const char
		*ca; /* PEM text of the only authorities; NULL: the system's */
	bool is_unverified;     /* whatever certificate the server has */
	const char *cert, *key; /* PEM texts; both or neither */
	const char *token;      /* NULL: none */
	const char *token_file; /* the same, read for each call; NULL */
	int64_t deadline_ns;    /* of all calls together, CLOCK_MONOTONIC */
};

/* Nothing is contacted.  -EINVAL: the address is none, or would get a secret in the clear. */
int kube_new(const struct kube_config *cfg, struct kube **ret,
	     struct error *err) MUST_CHECK;
void kube_free(struct kube *k); /* NULL is allowed */
DEFINE_AUTO(kube)

struct kube_call {
	const char *method;
	const char *path;   /* from the slash on, with its query */
	const char *type;   /* of the body: "application/merge-patch+json" */
	const json_t *body; /* NULL: none */
};

/*
 * Send it, and again where the failure may be passing; so what it asks for has to be the same
 * when it is done twice.  `*ret` is an object that the caller owns; `ret` may be NULL.
 *   -EACCES   401, 403: the message names the user and the right that is missing
 *   -ENOENT   404
 *   -EEXIST   409: an object of this name is there, or has changed meanwhile
 *   -EBUSY    429, 503 and -EIO, -ETIMEDOUT, -ECONNREFUSED: not over in time
 *   -EINVAL   400, 422
 *   -EBADMSG  the answer is none of this API
 */
int kube_do(struct kube *k, const struct kube_call *c, json_t **ret,
	    struct error *err) MUST_CHECK;

/* Called with each object of a list; a result other than 0 is returned. */
typedef int kube_item_fn(void *arg, json_t *item, struct error *err);

/* The objects of a list ("/api/v1/pods"), asked for `page` at a time.  Errors as of kube_do(). */
int kube_list(struct kube *k, const char *path, unsigned int page,
	      kube_item_fn *fn, void *arg, struct error *err) MUST_CHECK;

/* The server's clock in the last answer, ms since 1970; -1: it said none. */
int64_t kube_date_ms(const struct kube *k);

/* Is it a name of an object: a DNS subdomain?  Paths are made of it. */
bool kube_is_name(const char *s);

#endif
