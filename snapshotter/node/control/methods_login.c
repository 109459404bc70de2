// SPDX-License-Identifier: Apache-2.0
/*
 * login.show: takes a login that bootseer-snapshotter saw in a pod's pull.  login.secrets:
 * takes the pull secrets of this node's pods, which the chart's pod reads.
 */
#include <errno.h>
#include <time.h>

#include "common/log.h"
#include "common/registry_host.h"
#include "snapshotter/node/control/methods.h"
#include "snapshotter/node/control/node.h"
#include "snapshotter/node/images/kept_logins.h"

json_t *method_login(struct node *n, json_t *params, struct error *err)
{
	struct oci_login login = { .host = NULL };
	struct oci_ref ref = { .repo = NULL };
	const char *image;
	int rc = params_unpack(params, err, "{s:s, s:s, s?s, s?s, s?s}",
			       "image", &image, "namespace", &login.shown_by,
			       "user", &login.user, "password", &login.password,
			       "identity_token", &login.identity_token);

	if (rc == 0)
		rc = oci_ref_parse(image, &ref, err);
	if (rc == 0 && ref.transport != OCI_TRANSPORT_REGISTRY)
		rc = error_set(err, EINVAL, "'%.120s' is in no registry",
			       image);
	if (rc == 0) {
		login.host = ref.host;
		login.repo = ref.repo;
		rc = kept_logins_show(n->logins, &login, err);
	}
	oci_ref_fini(&ref);
	return rc < 0 ? NULL : json_object();
}

/* ----------------------------------------------------------------- pull secrets --- */

/* Pairs of an image and a secret; `refs` owns the texts that the pairs borrow. */
struct secret_list {
	struct oci_pull_secret *pairs;
	struct oci_ref *refs;
	size_t n, n_images;
};

static void secret_list_fini(struct secret_list *l)
{
	for (size_t k = 0; k < l->n; k++)
		oci_ref_fini(&l->refs[k]);
	free(l->refs);
	free(l->pairs);
}

/* Parse an image name as containerd does; false: a pod may name something that is no image. */
static bool parse_pods_image(const char *name, struct oci_ref *ret)
{
	AUTO_FREE char *whole = NULL;
	struct oci_ref ref;

	if (registry_name_complete(name, &whole, NULL) < 0 ||
	    oci_ref_parse(whole, &ref, NULL) < 0)
		return false;
	/* "oci:a/b" parses as a folder, which has no host and so no login. */
	if (ref.transport != OCI_TRANSPORT_REGISTRY) {
		oci_ref_fini(&ref);
		return false;
	}
	*ret = ref;
	return true;
}

static int add_secret(struct secret_list *l, const char *namespace,
		      json_t *secret, struct error *err)
{
	struct oci_pull_secret pair = { .shown_by = namespace };
	json_t *images, *since;
	const char *name;
	int rc = params_unpack(secret, err, "{s:s, s:o}", "config",
			       &pair.config, "images", &images);

	if (rc < 0)
		return rc;
	json_object_foreach(images, name, since)
	{
		struct oci_ref *ref = &l->refs[l->n];

		if (!json_is_integer(since))
			return error_set(err, EINVAL,
					 "'images' has a time that is none");
		if (!parse_pods_image(name, ref))
			continue;
		pair.host = ref->host;
		pair.repo = ref->repo;
		pair.since_s = json_integer_value(since);
		l->pairs[l->n++] = pair;
		l->n_images++;
	}
	return 0;
}

static int add_namespace(struct secret_list *l, const char *namespace,
			 json_t *secrets, struct error *err)
{
	json_t *secret;
	size_t k;
	int rc = 0;

	if (json_is_null(secrets))
		l->pairs[l->n++].shown_by = namespace;
	else if (!json_is_array(secrets))
		return error_set(err, EINVAL,
				 "the secrets of '%.64s' are no list",
				 namespace);
	json_array_foreach(secrets, k, secret)
	{
		if (rc == 0)
			rc = add_secret(l, namespace, secret, err);
	}
	return rc;
}

static int list_secrets(struct secret_list *l, json_t *namespaces,
			struct error *err)
{
	size_t k, room = json_object_size(namespaces) + 1;
	json_t *secrets, *secret;
	const char *namespace;
	int rc = 0;

	json_object_foreach(namespaces, namespace, secrets)
	{
		json_array_foreach(secrets, k, secret)
		{
			room += json_object_size(
				json_object_get(secret, "images"));
		}
	}
	l->pairs = calloc(room, sizeof(*l->pairs));
	l->refs = calloc(room, sizeof(*l->refs));
	if (!l->pairs || !l->refs)
		return error_nomem(err);
	json_object_foreach(namespaces, namespace, secrets)
	{
		if (rc == 0)
			rc = add_namespace(l, namespace, secrets, err);
	}
	return rc;
}

/* "namespaces" has all that are listed; a namespace with null stays as it is. */
json_t *method_secrets(struct node *n, json_t *params, struct error *err)
{
	struct secret_list list = { .pairs = NULL };
	size_t n_logins = 0, left_out = 0;
	json_t *namespaces;
	int rc = params_unpack(params, err, "{s:o}", "namespaces", &namespaces);

	if (rc == 0 && !json_is_object(namespaces))
		rc = error_set(err, EINVAL, "'namespaces' is no object");
	if (rc == 0)
		rc = list_secrets(&list, namespaces, err);
	if (rc == 0)
		n_logins =
			oci_logins_replace_secrets(kept_logins_table(n->logins),
						   list.pairs, list.n,
						   time(NULL), &left_out);
	if (rc == 0)
		oci_logins_set_secrets(kept_logins_table(n->logins),
				       json_object_size(namespaces) > 0);
	if (rc == 0)
		log_debug("logins", "pull secrets: images=%zu logins=%zu",
			  list.n_images, n_logins);
	secret_list_fini(&list);
	return rc < 0 ? NULL
		      : json_pack("{s:I, s:I}", "logins", (json_int_t)n_logins,
				  "left_out", (json_int_t)left_out);
}
