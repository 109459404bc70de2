// SPDX-License-Identifier: Apache-2.0
/* Tags and referrers of a repository (distribution-spec 1.1). */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "blockstore/registry.h"

#define PAGE 1000
#define REFERRERS_MAX 10000

void registry_referrers_tag(const struct digest *d, char out[REFERRERS_TAG_MAX])
{
	digest_format(d, out);
	*strchr(out, ':') = '-';
}

/* ------------------------------------------------------------------ tags --- */

struct tags {
	char **list;
	size_t n, max;
};

static int add_tags(const struct buf *body, struct tags *t, struct error *err)
{
	json_t *j =
		json_loadb(body->data ? body->data : "", body->len, 0, NULL);
	const json_t *list = json_object_get(j, "tags");
	int rc = 0;

	for (size_t i = 0; i < json_array_size(list) && t->n < t->max; i++) {
		const char *tag = json_string_value(json_array_get(list, i));
		char **grown;

		if (!tag)
			continue;
		grown = realloc(t->list, (t->n + 1) * sizeof(*grown));
		if (!grown) {
			rc = error_nomem(err);
			break;
		}
		t->list = grown;
		grown[t->n] = strdup(tag);
		if (!grown[t->n]) {
			rc = error_nomem(err);
			break;
		}
		t->n++;
	}
	json_decref(j);
	return rc;
}

/* The query of `<...?query>; rel="next"`, or NULL.  Only the query is taken, so
 * that a list never leads to another host. */
static char *next_page(const struct http_response *resp)
{
	AUTO_FREE char *link = http_header(resp, "link");
	char *query = link ? strchr(link, '?') : NULL;

	if (!query || !strstr(link, "rel=\"next\""))
		return NULL;
	return strndup(query, strcspn(query, ">"));
}

int registry_list_tags(struct oci_store *s, size_t max, char ***ret,
		       size_t *ret_n, struct error *err)
{
	struct registry *r = registry_of(s);
	struct http_response resp = HTTP_RESPONSE_INIT;
	struct tags t = { .max = max };
	AUTO_FREE char *query = NULL;
	int rc = 0;

	do {
		AUTO_BUF path = BUF_INIT;
		struct registry_request req = { .http = { .method = "GET" },
						.what = "list of tags" };

		rc = query ? buf_printf(&path, "/tags/list%s", query)
			   : buf_printf(&path, "/tags/list?n=%d", PAGE);
		if (rc < 0) {
			rc = error_nomem(err);
			break;
		}
		req.http.url = path.data;
		rc = registry_do(r, &req, &resp, err);
		if (rc == 0)
			rc = add_tags(&resp.body, &t, err);
		free(query);
		query = rc == 0 && t.n < t.max ? next_page(&resp) : NULL;
	} while (query);
	http_response_fini(&resp);
	if (rc < 0) {
		while (t.n)
			free(t.list[--t.n]);
		free(t.list);
		return rc;
	}
	*ret = t.list;
	*ret_n = t.n;
	return 0;
}

/* ------------------------------------------------------------- referrers --- */

static int pick(const struct buf *body, const char *type, struct digest **ret,
		size_t *ret_n, struct error *err)
{
	json_t *j =
		json_loadb(body->data ? body->data : "", body->len, 0, NULL);
	const json_t *list = json_object_get(j, "manifests");
	AUTO_FREE struct digest *found = NULL;
	size_t n = json_array_size(list), n_found = 0;
	int rc = 0;

	if (!json_is_array(list) || n > REFERRERS_MAX) {
		json_decref(j);
		return error_set(err, EINVAL,
				 "the list of referrers is not "
				 "an index");
	}
	found = calloc(n + 1, sizeof(*found));
	if (!found)
		rc = error_nomem(err);
	for (size_t i = 0; i < n && rc == 0; i++) {
		const json_t *e = json_array_get(list, i);
		const char *have =
			json_string_value(json_object_get(e, "artifactType"));
		const char *digest =
			json_string_value(json_object_get(e, "digest"));

		if (!have || strcmp(have, type) != 0 || !digest)
			continue;
		rc = digest_parse(digest, &found[n_found], err);
		n_found += rc == 0;
	}
	json_decref(j);
	if (rc < 0)
		return rc;
	*ret = steal_ptr(&found);
	*ret_n = n_found;
	return 0;
}

static bool referrers_status(long status)
{
	/* Registries older than the API answer 404, some 400, 403 or 405. */
	return status == 200 || status == 404 || status == 400 || status == 405;
}

static int from_tag(struct registry *r, const struct digest *d,
		    struct oci_manifest *ret, struct error *err)
{
	char tag[REFERRERS_TAG_MAX];

	registry_referrers_tag(d, tag);
	return registry_get_manifest(&r->base, tag, ret, err);
}

int registry_list_referrers(struct oci_store *s, const struct digest *d,
			    const char *artifact_type, struct digest **ret,
			    size_t *ret_n, struct error *err)
{
	struct registry *r = registry_of(s);
	struct oci_manifest m = { .body = BUF_INIT };
	struct http_response resp = HTTP_RESPONSE_INIT;
	char name[DIGEST_STR_MAX];
	AUTO_BUF path = BUF_INIT;
	struct registry_request req = {
		.http = { .method = "GET" },
		.what = "list of referrers",
		.accept = referrers_status,
	};
	int rc;

	digest_format(d, name);
	if (buf_printf(&path, "/referrers/%s", name) < 0)
		return error_nomem(err);
	req.http.url = path.data;
	rc = registry_do(r, &req, &resp, err);
	if (rc == 0 && resp.status == 200) {
		rc = pick(&resp.body, artifact_type, ret, ret_n, err);
	} else if (rc == 0) {
		rc = from_tag(r, d, &m, err);
		if (rc == 0)
			rc = pick(&m.body, artifact_type, ret, ret_n, err);
		else if (rc == -ENOENT) {
			*ret = calloc(1, sizeof(**ret));
			*ret_n = 0;
			rc = *ret ? 0 : error_nomem(err);
		}
	}
	oci_manifest_fini(&m);
	http_response_fini(&resp);
	return rc;
}
