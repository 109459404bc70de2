// SPDX-License-Identifier: Apache-2.0
/* The canonical form of a key: docs/formats/environment.md. */
#ifndef BOOTSEER_ENVCACHE_KEY_H
#define BOOTSEER_ENVCACHE_KEY_H

#include "envcache/envcache.h"

#define ENV_ITEMS_MAX 16384u
#define ENV_KIND_MAX 32u
#define ENV_NAME_MAX 8192u

/* Sort the items and set the digest.  -EINVAL: two items have the same kind and name. */
int env_key_finish(struct env_key *k, struct error *err) MUST_CHECK;

/* Add an item; the caller has allocated room for it.  -EINVAL: the name is too long. */
int env_key_add_text(struct env_key *k, const char *kind, const char *name,
		     const char *value, struct error *err) MUST_CHECK;

/* May values of this kind be stored in plain text, where other users can read them? */
bool env_kind_is_public(const char *kind);

#endif
