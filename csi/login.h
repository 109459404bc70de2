// SPDX-License-Identifier: Apache-2.0
/*
 * How a volume's process logs in to its store: by files in the volume's own folder, which only
 * root can enter, and environment variables that name them.  Secrets appear in no command line,
 * environment or log.
 */
#ifndef BOOTSEER_CSI_LOGIN_H
#define BOOTSEER_CSI_LOGIN_H

#include "csi/messages.h"
#include "csi/policy.h"

/*
 * Write the login that `g` needs, from the request's secrets or tokens, into files of `dir`. A
 * further call replaces them, which renews a token.
 *
 *     -EACCES  a secret or token is missing, or belongs to another pod: the message has the
 *   cure
 */
int login_write(const char *dir, const char *audience,
		const struct csi_publish *p, const struct volume_request *r,
		const struct volume_grant *g, struct error *err) MUST_CHECK;

/* Make the environment for execve(2) that uses the login in `dir`; ends with NULL. */
int login_env(const char *dir, const struct volume_grant *g, char ***ret,
	      struct error *err) MUST_CHECK;
void login_env_free(char **env);

/* Is `token`, a JWT, for `audience` and of this pod?  -EACCES.  Its signature is not checked
 * here but by the store. */
int login_check_token(const char *token, const char *audience,
		      const struct volume_request *r,
		      struct error *err) MUST_CHECK;

#endif
