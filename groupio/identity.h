// SPDX-License-Identifier: Apache-2.0
/*
 * Identity of a group's member: the job's secret is the key of a certificate authority, with
 * which each member signs a certificate for itself. So TLS between members admits exactly the
 * holders of the secret, and the nodes need no file but the secret.
 */
#ifndef BOOTSEER_GROUPIO_IDENTITY_H
#define BOOTSEER_GROUPIO_IDENTITY_H

#include "common/digest.h"
#include "common/error.h"

/* Read the secret file and return the secret's digest. -EPERM: other users may read it;
 * -EINVAL: it is too short. */
int identity_read_secret(const char *path, struct digest *ret,
			 struct error *err) MUST_CHECK;
/* Derive from `text` a digest that only members can compute. */
int identity_derive(const struct digest *secret, const char *text,
		    struct digest *ret) MUST_CHECK;

/* Files in memory, whose paths only this process can open. */
struct identity_files {
	int fds[3];
	char ca[32], cert[32], key[32];
};
/* `host`: an address to name in the certificate too; NULL: none. */
int identity_make(const struct digest *secret, const char *name,
		  const char *host, struct identity_files *ret,
		  struct error *err) MUST_CHECK;
void identity_close(struct identity_files *f);

#endif
