// SPDX-License-Identifier: Apache-2.0
/* The canonical form of what a snapshot is of: docs/formats/environment.md. */
#ifndef BOOTSEER_ENVCACHE_KEY_H
#define BOOTSEER_ENVCACHE_KEY_H

#include "envcache/envcache.h"

#define ENV_ITEMS_MAX 16384u
#define ENV_KIND_MAX 32u
#define ENV_NAME_MAX 8192u

/* Set digest from the items, which are sorted first.  -EINVAL: two of one kind and
 * name. */
int env_key_finish(struct env_key *k, struct error *err) MUST_CHECK;

/* Room for the item is there.  -EINVAL: the name is too long. */
int env_key_add_text(struct env_key *k, const char *kind, const char *name,
		     const char *value, struct error *err) MUST_CHECK;

/* May values of this kind be kept in a store, where others read them? */
bool env_kind_is_public(const char *kind);

#endif
