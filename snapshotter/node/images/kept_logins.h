// SPDX-License-Identifier: Apache-2.0
/*
 * Keeps logins that pods' pulls showed (objects/oci_logins.h) over a restart: in ROOT/logins,
 * sealed by the key of --login-key.  Any thread.
 */
#ifndef BOOTSEER_NODE_KEPT_LOGINS_H
#define BOOTSEER_NODE_KEPT_LOGINS_H

#include "objects/oci_logins.h"
#include "snapshotter/node/config.h"

struct images;
struct kept_logins;

/* Open, and read the logins of the file.  A file that cannot be read is logged and left out.
 * -EINVAL: --credential-providers is wrong. */
int kept_logins_open(const struct node_config *cfg, struct kept_logins **ret,
		     struct error *err) MUST_CHECK;
void kept_logins_close(struct kept_logins *k); /* NULL is allowed */

/* Check the options for --check-config, without running a plugin.  -EINVAL. */
int kept_logins_check(const struct node_config *cfg,
		      struct error *err) MUST_CHECK;

/* The table of logins, for stores; borrowed. */
struct oci_logins *kept_logins_table(struct kept_logins *k);

/* Keep a login; it is durable when this returns, unless the disk or the key cannot be used,
 * which is logged.  Errors as oci_logins_show(). */
int kept_logins_show(struct kept_logins *k, const struct oci_login *login,
		     struct error *err) MUST_CHECK;

/* Forget logins that no image of the node needs, a day after they were shown. */
void kept_logins_collect(struct kept_logins *k, struct images *images);

#endif
