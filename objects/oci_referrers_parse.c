// SPDX-License-Identifier: Apache-2.0
#include "objects/oci_referrers_parse.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "objects/oci_json.h"

#define REFERRERS_MAX 10000
/* Type of the config of an artifact without one: some lists have this in place of its
 * type. */
#define EMPTY_TYPE "application/vnd.oci.empty.v1+json"

/* Keep the entry's annotation, of the last entries only: each is as long as its writer
 * likes. */
static int store_entry_annotation(struct referrers *f, const json_t *entry,
				  struct error *err)
{
	struct oci_referrers *r = &f->all;
	const json_t *of = json_object_get(entry, "annotations");
	const char *text =
		f->note ? json_string_value(json_object_get(of, f->note))
			: NULL;

	if (r->n >= OCI_NOTES_LISTED) {
		free(r->notes[r->n - OCI_NOTES_LISTED]);
		r->notes[r->n - OCI_NOTES_LISTED] = NULL;
	}
	r->notes[r->n] = NULL;
	if (!text || strlen(text) > OCI_NOTE_MAX)
		return 0;
	r->notes[r->n] = strdup(text);
	return r->notes[r->n] ? 0 : error_nomem(err);
}

static int add_entry(struct referrers *f, const json_t *entry, bool is_untyped,
		     struct error *err)
{
	struct oci_referrers *r = &f->all;
	size_t n = r->n + 1;
	struct digest *digests = realloc(r->digests, n * sizeof(*digests));
	char **notes;
	bool *untyped;
	int rc;

	if (!digests)
		return error_nomem(err);
	r->digests = digests;
	notes = realloc(r->notes, n * sizeof(*notes));
	if (!notes)
		return error_nomem(err);
	r->notes = notes;
	untyped = realloc(f->is_untyped, n * sizeof(*untyped));
	if (!untyped)
		return error_nomem(err);
	f->is_untyped = untyped;
	f->is_untyped[r->n] = is_untyped;
	rc = oci_json_digest(entry, "digest", &digests[r->n], err);
	if (rc == 0)
		rc = store_entry_annotation(f, entry, err);
	r->n += rc == 0;
	return rc;
}

/* A registry that fills lists by an older draft, or by none, may leave the type out. */
static bool is_untyped_entry(const char *type)
{
	return !type || !*type || strcmp(type, EMPTY_TYPE) == 0;
}

static int add_page(struct referrers *f, const json_t *list, struct error *err)
{
	size_t n = json_array_size(list);
	int rc = 0;

	if (n > REFERRERS_MAX - f->all.n)
		return error_set(err, EINVAL,
				 "the list of referrers has more than %d",
				 REFERRERS_MAX);
	for (size_t i = 0; i < n && rc == 0; i++) {
		const json_t *e = json_array_get(list, i);
		const char *have =
			json_string_value(json_object_get(e, "artifactType"));

		if (f->type && is_untyped_entry(have))
			rc = add_entry(f, e, true, err);
		else if (!f->type || strcmp(have, f->type) == 0)
			rc = add_entry(f, e, false, err);
	}
	return rc;
}

int referrers_parse(const void *json, size_t len, struct referrers *f,
		    struct error *err)
{
	const json_t *list;
	json_t *j;
	int rc = bounded_json_load(json, len, "list of referrers", &j, err);

	if (rc == -ENOMEM)
		return rc;
	if (rc < 0)
		return -ENOENT;
	list = json_object_get(j, "manifests");
	if (json_is_array(list))
		rc = add_page(f, list, err);
	else if (json_is_null(list))
		f->is_null = true;
	else
		rc = error_set(err, ENOENT, "it is no list of referrers");
	json_decref(j);
	return rc;
}

void referrers_drop(struct referrers *f, size_t i)
{
	struct oci_referrers *r = &f->all;
	size_t behind = --r->n - i;

	free(r->notes[i]);
	memmove(&r->digests[i], &r->digests[i + 1],
		behind * sizeof(*r->digests));
	memmove(&r->notes[i], &r->notes[i + 1], behind * sizeof(*r->notes));
	memmove(&f->is_untyped[i], &f->is_untyped[i + 1],
		behind * sizeof(*f->is_untyped));
}

void referrers_fini(struct referrers *f)
{
	oci_referrers_fini(&f->all);
	free(f->is_untyped);
	f->is_untyped = NULL;
}
