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
 * among namespaces that have as many, too.  1: it is new for a file; 0: it was there.
 * -EINVAL: it is none, or longer than OCI_LOGIN_TEXT_MAX.
 */
int oci_logins_show(struct oci_logins *l, const struct oci_login *login,
		    int64_t now_s, struct error *err) MUST_CHECK;

/* A pull secret that pods of this node name, and an image of theirs that they may log in for by
 * it; all borrowed.  Such a login is in memory alone. */
struct oci_pull_secret {
	const char *host, *repo; /* the image's */
	const char *shown_by;    /* the namespace of the pods and the secret */
	/* The secret's config.json of docker, as JSON text, not a path. If it names a credential
	 * helper for the image, that program is not run, and the pair has no login.  NULL: the
	 * namespace's secrets were not read this time, so its logins of earlier calls stay; host
	 * and repo are NULL too. */
	const char *config;
	int64_t since_s; /* when the newest of these pods was made */
};

/*
 * Have the logins of `n` pairs of an image and a secret, and forget those of earlier calls.  One
 * that was refused is tried again when there is a newer pod.  Returns how many there are now.
 * Pairs without a login, or with one that is none, are left out.  So are those for which there is
 * no place, which `*ret_left_out` counts: a call does not displace what it has itself, or each
 * call would have the registry refuse the same wrong ones again.
 */
size_t oci_logins_replace_secrets(struct oci_logins *l,
				  const struct oci_pull_secret *list, size_t n,
				  int64_t now_s, size_t *ret_left_out);
/* Are secrets of any namespace listed, of which there may be none now?  At the beginning: no. */
void oci_logins_set_secrets(struct oci_logins *l, bool has_secrets);
bool oci_logins_has_secrets(struct oci_logins *l);

/* Forget those that were shown before the second `before_s` and are of none of `n`
 * repositories.  How many. */
struct oci_logins_wanted {
	const char *host, *repo;
};
size_t oci_logins_forget(struct oci_logins *l, int64_t before_s,
			 const struct oci_logins_wanted *wanted, size_t n);

/* For a file; whoever writes it encrypts it.  What was refused, or is of a pull secret, is left
 * out. */
int oci_logins_encode(struct oci_logins *l, struct buf *ret,
		      struct error *err) MUST_CHECK;
int oci_logins_decode(struct oci_logins *l, const void *data, size_t len,
		      struct error *err) MUST_CHECK;

#endif
