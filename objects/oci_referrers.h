// SPDX-License-Identifier: Apache-2.0
/* Manifests that a store lists as referring to another; included by oci.h. */
#ifndef BOOTSEER_OBJECTS_OCI_REFERRERS_H
#define BOOTSEER_OBJECTS_OCI_REFERRERS_H

#include "common/digest.h"
#include "common/error.h"

#define OCI_NOTE_MAX 4096u   /* bytes of a note; longer ones are left out */
#define OCI_NOTES_LISTED 32u /* only the last entries have theirs */

/* Manifests with one subject, in the order of the list. */
struct oci_referrers {
	struct digest *digests;
	/* Annotation of each by the list; NULL: none. The list is not the manifest:
	 * whoever may push wrote it, and it is worth no more than what is checked of it. */
	char **notes;
	size_t n;
	/* The list is a guess: the registry may have said no more than that it has not
	 * the subject, yet. */
	bool is_doubtful;
	/* The referrers are listed by a tag of their subject: for the registry they are
	 * untagged manifests. */
	bool is_by_tag;
};
void oci_referrers_fini(struct oci_referrers *r);

struct oci_referrers_query {
	const struct digest *subject;
	const char *artifact_type;
	const char *note; /* annotation that is wanted of each; NULL: none */
	/* Whether the registry has the subject is not known: that it knows none tells
	 * nothing of what the registry can. */
	bool is_guess;
};

/* As oci_list_referrers(), with an annotation of each where the list has it: often the
 * manifest need not be read then. */
struct oci_store;
int oci_list_noted(struct oci_store *s, const struct oci_referrers_query *q,
		   struct oci_referrers *ret, struct error *err) MUST_CHECK;

#endif
