// SPDX-License-Identifier: Apache-2.0
/*
 * How a volume's process logs in at its store: files in the volume's own folder, which
 * nobody but root enters, and an environment that names them.  Secrets are on no command
 * line, in no environment and in no log.
 */
#ifndef BOOTSEER_CSI_LOGIN_H
#define BOOTSEER_CSI_LOGIN_H

#include "csi/messages.h"
#include "csi/policy.h"

/*
 * Write what `g` wants, of the secrets or the tokens of the request, into files of `dir`.
 * The same again replaces them, so that a token is renewed.
 *
 *   -EACCES  what is wanted is not there, or is another's: the message has the cure
 */
int login_write(const char *dir, const char *audience,
		const struct csi_publish *p, const struct volume_request *r,
		const struct volume_grant *g, struct error *err) MUST_CHECK;

/* The environment for execve(2), in which `dir` is logged in; ends with NULL. */
int login_env(const char *dir, const struct volume_grant *g, char ***ret,
	      struct error *err) MUST_CHECK;
void login_env_free(char **env);

/* Is `token`, a JWT, for `audience` and of this pod?  -EACCES.  Its signature is checked
 * where it is shown. */
int login_check_token(const char *token, const char *audience,
		      const struct volume_request *r,
		      struct error *err) MUST_CHECK;

#endif
