// SPDX-License-Identifier: Apache-2.0
/* What a store lists as referring to a manifest; included by oci.h. */
#ifndef BOOTSEER_OBJECTS_OCI_REFERRERS_H
#define BOOTSEER_OBJECTS_OCI_REFERRERS_H

#include "common/digest.h"
#include "common/error.h"

#define OCI_NOTE_MAX 4096u   /* bytes of a note; longer ones are left out */
#define OCI_NOTES_LISTED 32u /* only the last entries have theirs */

/* Manifests with one subject, in the order of the list. */
struct oci_referrers {
	struct digest *digests;
	/* What the list says each is annotated with; NULL: nothing.  Of a list, not
	 * of the manifest itself: whoever may push wrote it, and it is worth no more
	 * than what is checked of it. */
	char **notes;
	size_t n;
};
void oci_referrers_fini(struct oci_referrers *r);

/* As oci_list_referrers(), with the annotation `note` (NULL: none) of each, where the
 * list has it: often the manifest need not be read then. */
struct oci_store;
int oci_list_noted(struct oci_store *s, const struct digest *d,
		   const char *artifact_type, const char *note,
		   struct oci_referrers *ret, struct error *err) MUST_CHECK;

#endif
