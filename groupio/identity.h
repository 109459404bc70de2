// SPDX-License-Identifier: Apache-2.0
/*
 * Identity of a member of a group to the others: the job's secret is the key of an authority,
 * by which each member signs a certificate of its own.  So TLS between members lets in the
 * holders of the secret, and nobody else, and no file but the secret has to be on the nodes.
 */
#ifndef BOOTSEER_GROUPIO_IDENTITY_H
#define BOOTSEER_GROUPIO_IDENTITY_H

#include "common/digest.h"
#include "common/error.h"

/* The digest of the secret in the file.  -EPERM: others may read it; -EINVAL: it is short. */
int identity_read_secret(const char *path, struct digest *ret,
			 struct error *err) MUST_CHECK;
/* A digest that only members can make of `text`. */
int identity_derive(const struct digest *secret, const char *text,
		    struct digest *ret) MUST_CHECK;

/* Files in memory, by paths that this process alone can open. */
struct identity_files {
	int fds[3];
	char ca[32], cert[32], key[32];
};
/* `host`: an address that the certificate is of, too; NULL: none. */
int identity_make(const struct digest *secret, const char *name,
		  const char *host, struct identity_files *ret,
		  struct error *err) MUST_CHECK;
void identity_close(struct identity_files *f);

#endif
