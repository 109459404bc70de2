// SPDX-License-Identifier: Apache-2.0
/*
 * Logins that others than the operator bring: what pods showed when their images were
 * pulled, and what the kubelet's credential provider plugins answer.  A store takes them when
 * the file of oci_config.auth_file has no login that its registry accepts.  Any thread.
 */
#ifndef BOOTSEER_OBJECTS_OCI_LOGINS_H
#define BOOTSEER_OBJECTS_OCI_LOGINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/error.h"

#define OCI_LOGINS_MAX 512        /* that are kept */
#define OCI_LOGINS_EACH 8         /* of one repository */
#define OCI_LOGIN_TEXT_MAX 16384u /* bytes of its texts, as in JSON */

struct oci_logins;

/* `providers` is "CONFIG:BINDIR", the kubelet's --image-credential-provider-config and
 * -bin-dir; NULL: no plugin is asked.  -EINVAL. */
int oci_logins_new(const char *providers, struct oci_logins **ret,
		   struct error *err) MUST_CHECK;
void oci_logins_free(struct oci_logins *l);

/* A login to a repository; all borrowed.  Either user and password, or an identity token (an
 * OAuth 2 refresh token); the others are NULL. */
struct oci_login {
	const char *host, *repo;
	const char *shown_by; /* the pod's namespace */
	const char *user, *password, *identity_token;
};

/*
 * Keep a login.  When there are too many, that namespace gives one up which has the most of
 * them: what was refused first, then what was never accepted, then the oldest; so it goes
 * among namespaces that have as many, too.  1: it is new; 0: it was there.  -EINVAL: it is
 * none, or longer than OCI_LOGIN_TEXT_MAX.
 */
int oci_logins_show(struct oci_logins *l, const struct oci_login *login,
		    int64_t now_s, struct error *err) MUST_CHECK;

/* Forget those that were shown before the second `before_s` and are of none of `n`
 * repositories.  How many. */
struct oci_logins_wanted {
	const char *host, *repo;
};
size_t oci_logins_forget(struct oci_logins *l, int64_t before_s,
			 const struct oci_logins_wanted *wanted, size_t n);

/* For a file; whoever writes it encrypts it.  What was refused is left out. */
int oci_logins_encode(struct oci_logins *l, struct buf *ret,
		      struct error *err) MUST_CHECK;
int oci_logins_decode(struct oci_logins *l, const void *data, size_t len,
		      struct error *err) MUST_CHECK;

#endif
