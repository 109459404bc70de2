// SPDX-License-Identifier: Apache-2.0
/* Lists of referrers, as registries answer with them; private to this folder. */
#ifndef BOOTSEER_OBJECTS_OCI_REFERRERS_PARSE_H
#define BOOTSEER_OBJECTS_OCI_REFERRERS_PARSE_H

#include <stddef.h>

#include "objects/oci_referrers.h"

/* Entries read so far of a list, which may come in several pages. */
struct referrers {
	struct oci_referrers all;
	bool *is_untyped; /* of each: the list does not say its type */
	const char *type; /* wanted; NULL: all */
	const char *note; /* annotation that is wanted; NULL: none */
	bool is_there;    /* a list has been read */
	bool is_null; /* the list was null, which some write for an empty one */
};

/*
 * Add the entries of a page that are, or may be, of the wanted type.  Pure.
 *   -ENOENT  it is no list of referrers, but something else
 *   -EINVAL  an entry is damaged, or there are too many
 */
int referrers_parse(const void *json, size_t len, struct referrers *f,
		    struct error *err) MUST_CHECK;
void referrers_drop(struct referrers *f, size_t i);
void referrers_fini(struct referrers *f);

#endif
