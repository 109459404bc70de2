// SPDX-License-Identifier: Apache-2.0
/*
 * Logins that pods showed when their images were pulled (objects/oci_logins.h), over a
 * restart: ROOT/logins, sealed by the key of --login-key.  Any thread.
 */
#ifndef BOOTSEER_NODE_KEPT_LOGINS_H
#define BOOTSEER_NODE_KEPT_LOGINS_H

#include "objects/oci_logins.h"
#include "snapshotter/node/config.h"

struct images;
struct kept_logins;

/* With those of the file.  One that cannot be read is logged and left out.  -EINVAL:
 * --credential-providers. */
int kept_logins_open(const struct node_config *cfg, struct kept_logins **ret,
		     struct error *err) MUST_CHECK;
void kept_logins_close(struct kept_logins *k); /* NULL is allowed */

/* For --check-config: no plugin is run.  -EINVAL. */
int kept_logins_check(const struct node_config *cfg,
		      struct error *err) MUST_CHECK;

/* For stores; borrowed. */
struct oci_logins *kept_logins_table(struct kept_logins *k);

/* Keep one; durable when it returns, unless the disk or the key cannot be used, which is
 * logged.  Errors as oci_logins_show(). */
int kept_logins_show(struct kept_logins *k, const struct oci_login *login,
		     struct error *err) MUST_CHECK;

/* Forget those that no image of the node needs, a day after they were shown. */
void kept_logins_collect(struct kept_logins *k, struct images *images);

#endif
