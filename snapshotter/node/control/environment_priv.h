// SPDX-License-Identifier: Apache-2.0
/* What the files of environments share. */
#ifndef BOOTSEER_NODE_ENVIRONMENT_PRIV_H
#define BOOTSEER_NODE_ENVIRONMENT_PRIV_H

#include "snapshotter/node/control/environment.h"
#include "snapshotter/node/images/images.h"

/* 32 hex digits? */
bool environment_is_name(const char *s);
/* ROOT/environments/NAME, of "" the folder of all; the caller's, NULL without memory. */
char *environment_work(const struct node *n, const char *name);
/* Make that folder, as of this boot. */
int environment_make_work(const char *work, struct error *err) MUST_CHECK;
/* The user of images by that name; the caller's, NULL without memory. */
char *environment_user(const char *name);
/* A use of the snapshot's image, which is fetched when it is not here; what is asked is
 * looked at first. */
int environment_find(struct node *n, const struct environment_query *q,
		     struct image **ret, struct error *err) MUST_CHECK;

#endif
