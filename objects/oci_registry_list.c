// SPDX-License-Identifier: Apache-2.0
/* Tags and referrers of a repository (distribution-spec 1.1). */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "common/clock.h"
#include "common/side_by_side.h"
#include "objects/oci_json.h"
#include "objects/oci_referrers_parse.h"
#include "objects/oci_registry.h"

#define PAGE 1000
#define PAGES_MAX 100
/* Manifests that are read because a list does not say their type. */
#define UNTYPED_READ_MAX 32
/* A registry that gets the API lists by it what was pushed before, too: so long it may
 * go unnoticed. */
#define NO_API_NS (10 * 60 * NS_PER_S)

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
	const json_t *list;
	json_t *j;
	int rc = bounded_json_load(body->data, body->len, "list of tags", &j,
				   err);

	if (rc < 0)
		return rc;
	list = json_object_get(j, "tags");

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
	size_t before;
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
		before = t.n;
		rc = registry_do(r, &req, &resp, err);
		if (rc == 0)
			rc = add_tags(&resp.body, &t, err);
		free(query);
		/* A page without tags would lead round in circles. */
		query = rc == 0 && t.n < t.max && t.n > before
				? next_page(&resp)
				: NULL;
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

/* Registries older than the API answer 404, others 400, 401 without a word on how to log
 * in, 403, 405, 406 or 501: all of it says that they have none.  A registry that wants a
 * login for everything says so again where the tag is asked for. */
static bool referrers_status_is_accepted(long status)
{
	return status == 200 || status == 501 ||
	       (status / 100 == 4 && status != 408 && status != 425 &&
		status != 429);
}

/* The API; -ENOENT when the registry has none. */
static int get_referrers_by_api(struct registry *r, const char *digest,
				struct referrers *f, struct error *err)
{
	AUTO_FINI(http_response) resp = HTTP_RESPONSE_INIT;
	AUTO_FREE char *query = NULL;
	unsigned int pages = 0;
	int rc;

	do {
		AUTO_BUF path = BUF_INIT;
		char type[128];
		struct registry_request req = {
			.http = { .method = "GET" },
			.what = "list of referrers",
			.accept = referrers_status_is_accepted,
			.use = REGISTRY_RESOLVES,
		};

		if (buf_printf(&path, "/referrers/%s%s", digest,
			       query ? query : "") < 0) {
			rc = error_nomem(err);
			break;
		}
		req.http.url = path.data;
		rc = registry_do(r, &req, &resp, err);
		if (rc == 0 && resp.status == 200)
			registry_content_type(&resp, type, sizeof(type));
		/* Some answer everything with a page for people. */
		if (rc == 0 &&
		    (resp.status != 200 || strncmp(type, "text/", 5) == 0))
			rc = -ENOENT;
		if (rc == 0)
			rc = referrers_parse(resp.body.data, resp.body.len, f,
					     err);
		/* A list is not over where a page of it is none. */
		if (rc == -ENOENT && pages)
			rc = error_set(err, EINVAL,
				       "a page of the list is none");
		free(query);
		query = rc == 0 && ++pages < PAGES_MAX ? next_page(&resp)
						       : NULL;
	} while (query);
	return rc;
}

/* Docker Hub's quota is in GETs of manifests, also of those that it has not. */
static bool registry_counts_manifest_gets(struct registry *r)
{
	const struct registry *all = registry_whole(r);

	return strcmp(all->host, "docker.io") == 0 ||
	       (all->query && strcmp(all->query, "ns=docker.io") == 0);
}

/* -ENOENT: there is no such tag. */
static int look_for_tag(struct registry *r, const char *tag, struct error *err)
{
	AUTO_FINI(http_response) resp = HTTP_RESPONSE_INIT;
	AUTO_BUF path = BUF_INIT;
	struct registry_request req = {
		.http = { .method = "HEAD",
			  .headers = registry_manifest_headers },
		.what = "list of referrers",
		.use = REGISTRY_RESOLVES,
	};

	if (buf_printf(&path, "/manifests/%s", tag) < 0)
		return error_nomem(err);
	req.http.url = path.data;
	return registry_do(r, &req, &resp, err);
}

int registry_get_list(struct registry *r, const struct digest *d,
		      char tag[REFERRERS_TAG_MAX], struct oci_manifest *ret,
		      struct error *err)
{
	int rc;

	registry_referrers_tag(d, tag);
	rc = registry_counts_manifest_gets(r) ? look_for_tag(r, tag, err) : 0;
	if (rc == 0)
		rc = registry_pull_manifest(&r->base, tag, ret, err);
	if (rc < 0 || oci_media_type_is_index(ret->media_type))
		return rc;
	/* The digest itself was read out of the tag: it can hold no list here. */
	oci_manifest_fini(ret);
	*ret = (struct oci_manifest){ .body = BUF_INIT };
	strcat(tag, REFERRERS_TAG_OWN);
	rc = registry_pull_manifest(&r->base, tag, ret, err);
	if (rc == 0 && !oci_media_type_is_index(ret->media_type)) {
		oci_manifest_fini(ret);
		rc = error_set(err, EINVAL, "tag '%s' is no list of referrers",
			       tag);
	}
	return rc;
}

static int get_referrers_by_tag(struct registry *r, const struct digest *d,
				struct referrers *f, struct error *err)
{
	AUTO_FINI(oci_manifest) m = { .body = BUF_INIT };
	char tag[REFERRERS_TAG_MAX];
	int rc = registry_get_list(r, d, tag, &m, err);

	/* A registry with the subject in that tag has the subject. */
	f->is_there = rc == 0 || strstr(tag, REFERRERS_TAG_OWN);
	if (rc == 0)
		rc = referrers_parse(m.body.data, m.body.len, f, err);
	else if (rc == -ENOENT)
		rc = 0;
	return rc;
}

/* Both at once, where nothing is known: a start waits for these round trips. */
struct referrers_race {
	struct registry *r;
	const struct digest *subject;
	bool is_guess;
	struct referrers found[2];
	bool is_doubtful; /* as of oci_referrers */
	int rc[2];
	struct error err[2];
};

enum { BY_API, BY_TAG };

static int race_main(void *arg, unsigned int way, struct error *err)
{
	struct referrers_race *race = arg;
	char name[DIGEST_STR_MAX];

	(void)err;
	digest_format(race->subject, name);
	race->rc[way] =
		way == BY_API
			? get_referrers_by_api(race->r, name, &race->found[way],
					       &race->err[way])
			: get_referrers_by_tag(race->r, race->subject,
					       &race->found[way],
					       &race->err[way]);
	return 0;
}

/* A 404 of a registry that has listed them is a fault of a moment: it is asked both
 * ways the next time, and not taken for one without the API. */
static void run_race(struct referrers_race *race, struct registry *known)
{
	bool did_list = atomic_load(&known->lists_referrers), is_none;
	struct error ignored = ERROR_INIT;

	if (atomic_load(&known->no_referrers_until) > clock_now_ns()) {
		race->rc[BY_API] = -ENOENT;
		(void)race_main(race, BY_TAG, &ignored);
		return;
	}
	if (did_list) {
		(void)race_main(race, BY_API, &ignored);
		if (race->rc[BY_API] == -ENOENT)
			(void)race_main(race, BY_TAG, &ignored);
	} else {
		(void)!side_by_side(2, race_main, race, &ignored);
	}
	is_none = race->rc[BY_API] == -ENOENT;
	race->is_doubtful =
		is_none && race->is_guess && !race->found[BY_TAG].is_there;
	/* A list that is null may be an empty one, or no list. */
	if (race->is_doubtful ||
	    (race->rc[BY_API] == 0 && race->found[BY_API].is_null && !did_list))
		return;
	atomic_store(&known->lists_referrers, race->rc[BY_API] == 0);
	if (is_none && !did_list)
		atomic_store(&known->no_referrers_until,
			     clock_now_ns() + NO_API_NS);
}

static int choose_referrers_way(const struct referrers_race *race)
{
	if (race->rc[BY_API] == -ENOENT)
		return BY_TAG;
	return race->rc[BY_API] == 0 && race->found[BY_API].is_null &&
			       race->rc[BY_TAG] == 0 &&
			       race->found[BY_TAG].all.n
		       ? BY_TAG
		       : BY_API;
}

/* Is the manifest, of which a list does not say the type, of the type that is wanted? */
static int check_untyped(struct registry *r, struct referrers *f, size_t i,
			 bool *ret, struct error *err)
{
	struct oci_manifest m = { .body = BUF_INIT };
	struct oci_image image = { .n_layers = 0 };
	char name[DIGEST_STR_MAX];
	int rc;

	digest_format(&f->all.digests[i], name);
	rc = oci_get_manifest(&r->base, name, &m, err);
	if (rc == 0)
		rc = oci_image_parse(m.body.data, m.body.len, &image, err);
	*ret = rc == 0 && strcmp(image.artifact_type, f->type) == 0;
	oci_image_fini(&image);
	oci_manifest_fini(&m);
	/* A manifest that is not there, or is none, is not of the wanted type. */
	return rc == -ENOENT || rc == -EINVAL || rc == -EBADMSG || rc == -EFBIG
		       ? 0
		       : rc;
}

/* Only the last are read: each costs a request. */
static int drop_referrers_of_other_types(struct registry *r,
					 struct referrers *f, struct error *err)
{
	size_t reads = 0;
	int rc = 0;

	for (size_t i = f->all.n; rc == 0 && i-- > 0;) {
		bool is_wanted = false;

		if (!f->is_untyped[i])
			continue;
		if (reads++ < UNTYPED_READ_MAX)
			rc = check_untyped(r, f, i, &is_wanted, err);
		if (rc == 0 && !is_wanted)
			referrers_drop(f, i);
	}
	return rc;
}

int registry_list_noted(struct oci_store *s,
			const struct oci_referrers_query *q,
			struct oci_referrers *ret, struct error *err)
{
	const struct referrers none = { .type = q->artifact_type,
					.note = q->note };
	struct registry *r = registry_of(s);
	struct referrers_race race = { .r = r,
				       .subject = q->subject,
				       .is_guess = q->is_guess,
				       .found = { none, none } };
	char name[DIGEST_STR_MAX];
	struct referrers *f;
	int rc, way;

	run_race(&race, r->whole ? r->whole : r);
	way = choose_referrers_way(&race);
	referrers_fini(&race.found[!way]);
	f = &race.found[way];
	rc = race.rc[way];
	if (rc < 0 && err)
		*err = race.err[way];
	if (rc == 0)
		rc = drop_referrers_of_other_types(r, f, err);
	if (rc == 0 && !f->all.digests) {
		f->all.digests = calloc(1, sizeof(*f->all.digests));
		rc = f->all.digests ? 0 : error_nomem(err);
	}
	if (rc < 0) {
		referrers_fini(f);
		digest_format(q->subject, name);
		return error_wrap(err, rc, "referrers of %s", name);
	}
	*ret = f->all;
	free(f->is_untyped);
	ret->is_doubtful = race.is_doubtful;
	ret->is_by_tag = way == BY_TAG && ret->n;
	return 0;
}

int registry_list_referrers(struct oci_store *s, const struct digest *d,
			    const char *artifact_type, struct digest **ret,
			    size_t *ret_n, struct error *err)
{
	const struct oci_referrers_query q = {
		.subject = d,
		.artifact_type = artifact_type,
	};
	struct oci_referrers found;
	int rc = registry_list_noted(s, &q, &found, err);

	if (rc < 0)
		return rc;
	*ret_n = found.n;
	*ret = steal_ptr(&found.digests);
	oci_referrers_fini(&found);
	return 0;
}
