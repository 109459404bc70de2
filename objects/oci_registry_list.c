// SPDX-License-Identifier: Apache-2.0
/* Tags and referrers of a repository (distribution-spec 1.1). */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "common/clock.h"
#include "common/side_by_side.h"
#include "objects/oci_json.h"
#include "objects/oci_registry.h"

#define PAGE 1000
#define PAGES_MAX 100
#define REFERRERS_MAX 10000
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

struct referrers {
	struct oci_referrers all;
	const char *type; /* wanted; NULL: all */
	const char *note; /* annotation that is wanted; NULL: none */
	bool is_there;    /* a list has been read */
};

/* Of the last entries only: each is as long as its writer likes. */
static int take_note(struct referrers *f, const json_t *entry,
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

static int add_entry(struct referrers *f, const json_t *entry,
		     struct error *err)
{
	struct oci_referrers *r = &f->all;
	size_t n = r->n + 1;
	struct digest *digests = realloc(r->digests, n * sizeof(*digests));
	char **notes;
	int rc;

	if (!digests)
		return error_nomem(err);
	r->digests = digests;
	notes = realloc(r->notes, n * sizeof(*notes));
	if (!notes)
		return error_nomem(err);
	r->notes = notes;
	rc = oci_json_digest(entry, "digest", &digests[r->n], err);
	if (rc == 0)
		rc = take_note(f, entry, err);
	r->n += rc == 0;
	return rc;
}

/* An index without artifact types comes from before they were: its entries are
 * not ours. */
static int pick(const struct buf *body, struct referrers *f, struct error *err)
{
	const json_t *list;
	json_t *j;
	size_t n;
	int rc = bounded_json_load(body->data, body->len, "list of referrers",
				   &j, err);

	if (rc < 0)
		return rc;
	list = json_object_get(j, "manifests");
	n = json_array_size(list);
	if (!json_is_array(list) || n > REFERRERS_MAX - f->all.n)
		rc = error_set(
			err, EINVAL,
			"the list of referrers is no index, or too long");
	for (size_t i = 0; i < n && rc == 0; i++) {
		const json_t *e = json_array_get(list, i);
		const char *have =
			json_string_value(json_object_get(e, "artifactType"));

		if (!f->type || (have && strcmp(have, f->type) == 0))
			rc = add_entry(f, e, err);
	}
	json_decref(j);
	return rc;
}

static bool referrers_status(long status)
{
	/* Registries older than the API answer 404, some 400, 403 or 405. */
	return status == 200 || status == 400 || status == 403 ||
	       status == 404 || status == 405;
}

/* The API; -ENOENT when the registry has none. */
static int from_api(struct registry *r, const char *digest, struct referrers *f,
		    struct error *err)
{
	struct http_response resp = HTTP_RESPONSE_INIT;
	AUTO_FREE char *query = NULL;
	unsigned int pages = 0;
	int rc;

	do {
		AUTO_BUF path = BUF_INIT;
		char type[128];
		struct registry_request req = {
			.http = { .method = "GET" },
			.what = "list of referrers",
			.accept = referrers_status,
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
			rc = pick(&resp.body, f, err);
		free(query);
		query = rc == 0 && ++pages < PAGES_MAX ? next_page(&resp)
						       : NULL;
	} while (query);
	http_response_fini(&resp);
	return rc;
}

static int from_tag(struct registry *r, const struct digest *d,
		    struct referrers *f, struct error *err)
{
	struct oci_manifest m = { .body = BUF_INIT };
	char tag[REFERRERS_TAG_MAX];
	int rc;

	registry_referrers_tag(d, tag);
	rc = registry_get_manifest(&r->base, tag, &m, err);
	f->is_there = rc == 0;
	if (rc == 0)
		rc = pick(&m.body, f, err);
	else if (rc == -ENOENT)
		rc = 0;
	oci_manifest_fini(&m);
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

	digest_format(race->subject, name);
	race->rc[way] = way == BY_API
				? from_api(race->r, name, &race->found[way],
					   &race->err[way])
				: from_tag(race->r, race->subject,
					   &race->found[way], &race->err[way]);
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
	if (race->is_doubtful)
		return;
	atomic_store(&known->lists_referrers, race->rc[BY_API] == 0);
	if (is_none && !did_list)
		atomic_store(&known->no_referrers_until,
			     clock_now_ns() + NO_API_NS);
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
	way = race.rc[BY_API] == -ENOENT ? BY_TAG : BY_API;
	oci_referrers_fini(&race.found[!way].all);
	f = &race.found[way];
	rc = race.rc[way];
	if (rc < 0 && err)
		*err = race.err[way];
	if (rc == 0 && !f->all.digests) {
		f->all.digests = calloc(1, sizeof(*f->all.digests));
		rc = f->all.digests ? 0 : error_nomem(err);
	}
	if (rc < 0) {
		oci_referrers_fini(&f->all);
		digest_format(q->subject, name);
		return error_wrap(err, rc, "referrers of %s", name);
	}
	*ret = f->all;
	ret->is_doubtful = race.is_doubtful;
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
