// SPDX-License-Identifier: Apache-2.0
/*
 * Traces as OCI artifacts in the repository of their image (docs/formats/trace.md, "As an OCI
 * artifact"). An artifact holds all recordings of one start, merged; its subject is the image's
 * manifest. For each workload one tag names the repository's newest artifact, so the trace of an
 * earlier image is found with one request.
 *
 * A registry has no locks. A writer merges all artifacts that it finds, and its own artifact
 * names those that it replaces: ones that cannot be deleted, or come back, then do not count
 * twice. If two write at the same time, both artifacts stay until the next writer merges them;
 * where a tag is the list of referrers, one may get lost, which costs a recording.
 */
#include <errno.h>
#include <string.h>

#include "recorder/store_artifact.h"

#define TAGS_MAX 10000
#define FAR_MAX 16 /* tags examined for a trace of another workload */
/* Requests for one list, as other artifacts must not delay a start. */
#define TRIES_MAX (2 * TRACE_ARTIFACTS_MAX)
#define MERGE_MEMORY_MAX (256u << 20) /* bytes of decoded traces at once */

struct oci_trace_store {
	struct trace_store base;
	struct oci_store *store; /* borrowed */
};

struct artifact_list {
	struct trace_artifact *list;
	size_t n;
};

static struct oci_store *oci_of(struct trace_store *s)
{
	return container_of(s, struct oci_trace_store, base)->store;
}

static void artifact_list_fini(struct artifact_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		trace_artifact_fini(&l->list[i]);
	free(l->list);
}

/* ------------------------------------------------------------------- reading --- */

static int get_artifact(struct oci_store *store, const char *ref,
			struct trace_artifact *ret, struct error *err)
{
	struct oci_manifest m = { .body = BUF_INIT };
	int rc = oci_get_manifest(store, ref, &m, err);

	if (rc < 0)
		return rc;
	rc = trace_artifact_parse(m.body.data, m.body.len, ret, err);
	ret->digest = m.digest;
	oci_manifest_fini(&m);
	return rc < 0 ? error_wrap(err, rc, "manifest '%s'", ref) : 0;
}

/* Get the trace itself, and check it against its manifest. */
static int get_trace(struct oci_store *store, const struct trace_artifact *a,
		     struct trace **ret, struct error *err)
{
	AUTO_BUF data = BUF_INIT;
	AUTO(trace) t = NULL;
	char name[DIGEST_STR_MAX];
	int rc = oci_get_blob(store, &a->layer, a->layer_size, TRACE_BYTES_MAX,
			      &data, err);

	if (rc == 0)
		rc = trace_decode(data.data, data.len, &t, err);
	if (rc == 0 && (!digest_equal(&t->info.image, &a->image) ||
			strcmp(t->info.workload, a->workload) != 0))
		rc = error_set(err, EBADMSG,
			       "it is not of the image and workload that its "
			       "manifest names");
	if (rc < 0) {
		digest_format(&a->digest, name);
		return error_wrap(err, rc == -EINVAL ? -EBADMSG : rc,
				  "trace %s", name);
	}
	*ret = steal_ptr(&t);
	return 0;
}

/* Does the failure concern only this artifact, not the registry? Then it is skipped. */
static bool is_failure_of_one_artifact(int rc)
{
	return rc == -ENOENT || rc == -EINVAL || rc == -EBADMSG ||
	       rc == -EFBIG || rc == -ENOTSUP;
}

static bool is_listed(const struct artifact_list *l, const struct digest *d)
{
	for (size_t i = 0; i < l->n; i++)
		if (digest_equal(&l->list[i].digest, d))
			return true;
	return false;
}

static void mark_replaced(struct artifact_list *l)
{
	char name[DIGEST_STR_MAX];

	for (size_t i = 0; i < l->n; i++) {
		digest_format(&l->list[i].digest, name);
		for (size_t k = 0; k < l->n; k++)
			if (k != i && l->list[k].replaces &&
			    strstr(l->list[k].replaces, name))
				l->list[i].replaced = true;
	}
}

/* List all traces of an image; missing ones, and artifacts that are no trace, are left out. */
static int list_artifacts(struct oci_store *store, const struct digest *image,
			  struct artifact_list *ret, struct error *err)
{
	AUTO_FREE struct digest *found = NULL;
	struct artifact_list l = { .n = 0 };
	size_t n = 0, tries = 0;
	int rc = oci_list_referrers(store, image, TRACE_MEDIA_TYPE, &found, &n,
				    err);

	if (rc < 0)
		return rc;
	l.list = calloc(TRACE_ARTIFACTS_MAX, sizeof(*l.list));
	if (!l.list)
		return error_nomem(err);
	for (size_t i = n;
	     rc == 0 && i > 0 && l.n < TRACE_ARTIFACTS_MAX && tries < TRIES_MAX;
	     i--) {
		struct trace_artifact *a = &l.list[l.n];
		char name[DIGEST_STR_MAX];

		if (is_listed(&l, &found[i - 1]))
			continue;
		digest_format(&found[i - 1], name);
		tries++;
		rc = get_artifact(store, name, a, err);
		if (is_failure_of_one_artifact(rc))
			rc = 0;
		else if (rc == 0 && digest_equal(&a->image, image))
			l.n++;
		else if (rc == 0)
			trace_artifact_fini(a);
	}
	if (rc < 0) {
		artifact_list_fini(&l);
		return rc;
	}
	mark_replaced(&l);
	*ret = l;
	return 0;
}

/* ----------------------------------------------------------------------- get --- */

/* The best match so far; `a` is NULL while there is none. */
struct nearest {
	struct trace_artifact *a;
	int match;
};

static void consider_artifact(struct nearest *n, const struct trace_query *q,
			      struct trace_artifact *a)
{
	int m = store_match(q, &a->image, a->workload, true);

	if (m == STORE_NO_MATCH || a->replaced)
		return;
	if (n->a &&
	    (m > n->match || (m == n->match && a->created <= n->a->created)))
		return;
	n->a = a;
	n->match = m;
}

/* List traces of other workloads and other images, by their tags. */
static int list_traces_of_other_images(struct oci_store *store, size_t max,
				       struct artifact_list *ret,
				       struct error *err)
{
	struct artifact_list l = { .n = 0 };
	char **tags = NULL;
	size_t n = 0, tries = 0;
	int rc = oci_list_tags(store, TAGS_MAX, &tags, &n, err);

	/* Some registries do not list tags, or only for some users: go on without them. */
	if (rc == -ENOENT || rc == -EACCES || rc == -ENOTSUP)
		rc = 0;
	l.list = calloc(max, sizeof(*l.list));
	if (rc == 0 && !l.list)
		rc = error_nomem(err);
	for (size_t i = 0; rc == 0 && i < n && l.n < max && tries < TRIES_MAX;
	     i++) {
		if (strncmp(tags[i], TRACE_TAG_PREFIX,
			    strlen(TRACE_TAG_PREFIX)) != 0)
			continue;
		tries++;
		rc = get_artifact(store, tags[i], &l.list[l.n], err);
		if (rc == 0)
			l.n++;
		else if (is_failure_of_one_artifact(rc))
			rc = 0;
	}
	for (size_t i = 0; i < n; i++)
		free(tags[i]);
	free(tags);
	if (rc < 0) {
		artifact_list_fini(&l);
		return rc;
	}
	*ret = l;
	return 0;
}

static int take_artifact(struct oci_store *store, const struct nearest *n,
			 struct trace_found *ret, struct error *err)
{
	int rc = get_trace(store, n->a, &ret->trace, err);

	if (rc < 0)
		return rc;
	ret->match = (enum trace_match)n->match;
	ret->wanted = ret->match != TRACE_MATCH_OWN ||
		      store_wants_more(&ret->trace->info);
	return 0;
}

/* Get the newest artifact of the workload; `*ret` does not change when there is none. */
static int get_tagged(struct oci_store *store, const char *workload,
		      struct trace_artifact *ret, struct error *err)
{
	struct trace_artifact a;
	char tag[TRACE_TAG_MAX];
	int rc = trace_artifact_tag(workload, tag, err);

	if (rc == 0)
		rc = get_artifact(store, tag, &a, err);
	if (is_failure_of_one_artifact(rc))
		return 0;
	if (rc < 0)
		return rc;
	*ret = a;
	return 0;
}

/* Take the best match that can be read (unreadable ones are marked as replaced), else fail
 * with the reason for the first. */
static int take_nearest_trace(struct oci_store *store,
			      const struct trace_query *q,
			      struct artifact_list *own,
			      struct artifact_list *far,
			      struct trace_found *ret, struct error *err)
{
	struct error why = ERROR_INIT;
	int first_rc = 0;

	for (size_t tries = own->n + far->n; tries > 0; tries--) {
		struct nearest n = { .a = NULL };
		int rc;

		for (size_t i = 0; i < own->n; i++)
			consider_artifact(&n, q, &own->list[i]);
		for (size_t i = 0; i < far->n; i++)
			consider_artifact(&n, q, &far->list[i]);
		if (!n.a)
			break;
		rc = take_artifact(store, &n, ret, err);
		if (!is_failure_of_one_artifact(rc))
			return rc;
		n.a->replaced = true;
		if (first_rc == 0 && err)
			why = *err;
		first_rc = first_rc ? first_rc : rc;
	}
	if (first_rc == 0)
		return error_set(err, ENOENT,
				 "the repository has no trace of it");
	if (err)
		*err = why;
	return first_rc;
}

static bool has_matching_artifact(const struct trace_query *q,
				  const struct artifact_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		if (!l->list[i].replaced &&
		    store_match(q, &l->list[i].image, l->list[i].workload,
				true) != STORE_NO_MATCH)
			return true;
	return false;
}

/* Take the best match of all listed artifacts and `tagged`. */
static int get_listed(struct oci_store *store, const struct trace_query *q,
		      struct artifact_list *tagged, struct trace_found *ret,
		      struct error *err)
{
	struct artifact_list own = { .n = 0 }, far = { .n = 0 };
	int rc = list_artifacts(store, &q->image, &own, err);

	if (rc == 0 && !has_matching_artifact(q, &own) &&
	    !has_matching_artifact(q, tagged) && !q->exact)
		rc = list_traces_of_other_images(store, FAR_MAX, &far, err);
	if (rc == 0)
		rc = take_nearest_trace(store, q, &own, far.n ? &far : tagged,
					ret, err);
	artifact_list_fini(&own);
	artifact_list_fini(&far);
	return rc;
}

static int oci_get(struct trace_store *s, const struct trace_query *q,
		   struct trace_found *ret, struct error *err)
{
	struct oci_store *store = oci_of(s);
	AUTO_FINI(trace_artifact) a = { .workload = NULL };
	struct artifact_list tagged = { .list = &a };
	struct nearest n = { .a = NULL };
	struct error why = ERROR_INIT;
	int rc = get_tagged(store, q->workload, &a, err), own_rc = -ENOENT;

	if (rc < 0)
		return rc;
	if (a.workload)
		tagged.n = 1;
	if (tagged.n)
		consider_artifact(&n, q, &a);
	if (n.a && n.match == TRACE_MATCH_OWN) {
		own_rc = take_artifact(store, &n, ret, &why);
		/* A trace that cannot be read is ignored from here on. */
		a.replaced = true;
	}
	rc = own_rc;
	if (is_failure_of_one_artifact(own_rc))
		rc = get_listed(store, q, &tagged, ret, err);
	/* Report that the image's own trace is damaged, rather than that there is none. */
	if (rc < 0 && own_rc != -ENOENT && (rc == -ENOENT || rc == own_rc)) {
		rc = own_rc;
		if (err)
			*err = why;
	}
	return rc;
}

/* ---------------------------------------------------------------------- list --- */

static int add_info(struct oci_store *store, const struct trace_artifact *a,
		    struct store_list *l, struct error *err)
{
	struct trace_info info;
	AUTO(trace) t = NULL;
	int rc = get_trace(store, a, &t, err);

	if (rc < 0)
		return rc;
	info = t->info;
	t->info = (struct trace_info){ .repo = NULL };
	return store_list_add(l, &info, err);
}

static int oci_list(struct trace_store *s, const struct trace_query *q,
		    struct trace_info **ret, size_t *ret_n, struct error *err)
{
	struct oci_store *store = oci_of(s);
	struct artifact_list found = { .n = 0 };
	struct store_list l = { .infos = NULL };
	int damaged = 0;
	int rc = store_has_image(q)
			 ? list_artifacts(store, &q->image, &found, err)
			 : list_traces_of_other_images(store,
						       TRACE_ARTIFACTS_MAX,
						       &found, err);

	for (size_t i = 0; rc == 0 && i < found.n; i++) {
		const struct trace_artifact *a = &found.list[i];

		if (!a->replaced &&
		    (!q->workload || strcmp(a->workload, q->workload) == 0))
			rc = add_info(store, a, &l, err);
		if (is_failure_of_one_artifact(rc)) {
			damaged = rc;
			rc = 0;
		}
	}
	/* Only damaged traces were found: return the last one's error. */
	if (rc == 0 && l.n == 0)
		rc = damaged == -ENOENT ? 0 : damaged;
	artifact_list_fini(&found);
	if (rc < 0) {
		store_list_fini(&l);
		return rc;
	}
	*ret = l.infos;
	*ret_n = l.n;
	return 0;
}

/* ----------------------------------------------------------------------- put --- */

/* Put the manifest by its digest, so that it stays when the tag moves to the next image's,
 * then under the tag. */
static int put_manifest(struct oci_store *store,
			const struct trace_publication *p, struct error *err)
{
	AUTO_FREE char *text = trace_artifact_format(p);
	char tag[TRACE_TAG_MAX];
	int rc = text ? trace_artifact_tag(p->trace->info.workload, tag, err)
		      : error_nomem(err);

	if (rc == 0)
		rc = oci_put_manifest(store, NULL, TRACE_MANIFEST_TYPE, text,
				      strlen(text), err);
	if (rc == 0)
		rc = oci_put_manifest(store, tag, TRACE_MANIFEST_TYPE, text,
				      strlen(text), err);
	return rc;
}

static int publish_trace(struct oci_store *store, struct trace_publication *p,
			 const struct buf *encoded, struct error *err)
{
	AUTO_FINI(oci_manifest) m = { .body = BUF_INIT };
	char name[DIGEST_STR_MAX];
	int rc;

	digest_format(&p->trace->info.image, name);
	rc = oci_get_manifest(store, name, &m, err);
	if (rc < 0)
		return error_wrap(err, rc,
				  "a trace goes where its image is, %s", name);
	p->media_type = m.media_type;
	p->size = m.body.len;
	p->layer_size = encoded->len;
	rc = oci_put_bytes(store, encoded->data, encoded->len, &p->layer, err);
	if (rc == 0)
		rc = oci_put_bytes(store, TRACE_CONFIG_JSON,
				   strlen(TRACE_CONFIG_JSON), &p->config, err);
	if (rc == 0)
		rc = put_manifest(store, p, err);
	return rc;
}

/* Merge `t` with the existing traces of its start; `*ret` stays NULL when there are none. */
static int merge_all(struct oci_store *store, const struct trace *t,
		     const struct artifact_list *found, struct trace **ret,
		     struct error *err)
{
	const struct trace *runs[TRACE_ARTIFACTS_MAX + 1] = { t };
	struct trace *old[TRACE_ARTIFACTS_MAX];
	uint64_t memory = 0, entries = t->n;
	size_t n = 0;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < found->n; i++) {
		const struct trace_artifact *a = &found->list[i];

		if (a->replaced || strcmp(a->workload, t->info.workload) != 0)
			continue;
		rc = get_trace(store, a, &old[n], err);
		/* A damaged trace must not prevent the merging of others. */
		if (is_failure_of_one_artifact(rc))
			rc = 0;
		else if (rc == 0) {
			memory += trace_memory(old[n]);
			entries += old[n]->n;
			runs[n + 1] = old[n];
			n++;
		}
		/* Neither must a huge one: it is left out. */
		if (memory > MERGE_MEMORY_MAX || entries > TRACE_MERGE_MAX) {
			trace_free(old[--n]);
			break;
		}
	}
	if (rc == 0 && n)
		rc = trace_merge_recent(runs, n + 1, ret, err);
	while (n > 0)
		trace_free(old[--n]);
	return rc;
}

/* Does the registry have this very trace already? Sent twice, it would count twice. */
static bool has_same_trace(const struct artifact_list *l, const struct trace *t)
{
	AUTO_BUF data = BUF_INIT;
	struct digest d;

	if (trace_encode(t, &data, NULL) < 0 ||
	    digest_of(data.data, data.len, &d) < 0)
		return false;
	for (size_t i = 0; i < l->n; i++)
		if (digest_equal(&l->list[i].layer, &d))
			return true;
	return false;
}

/* Make the list of digests of this workload's artifacts. */
static int list_replaced_digests(const struct artifact_list *l,
				 const char *workload, struct buf *ret,
				 struct error *err)
{
	char name[DIGEST_STR_MAX];

	for (size_t i = 0; i < l->n; i++) {
		if (strcmp(l->list[i].workload, workload) != 0)
			continue;
		digest_format(&l->list[i].digest, name);
		if (buf_printf(ret, "%s%s", ret->len ? " " : "", name) < 0)
			return error_nomem(err);
	}
	return 0;
}

static int put_merged(struct oci_store *store, const struct trace *t,
		      const struct artifact_list *found, struct error *err)
{
	struct trace_publication p = { .replaces = BUF_INIT };
	AUTO_BUF encoded = BUF_INIT;
	AUTO(trace) merged = NULL;
	int rc = merge_all(store, t, found, &merged, err);

	p.trace = merged ? merged : t;
	if (rc == 0)
		rc = trace_encode(p.trace, &encoded, err);
	if (rc == 0)
		rc = list_replaced_digests(found, t->info.workload, &p.replaces,
					   err);
	if (rc == 0)
		rc = publish_trace(store, &p, &encoded, err);
	buf_fini(&p.replaces);
	return rc;
}

static int oci_put(struct trace_store *s, const struct trace *t,
		   struct error *err)
{
	struct oci_store *store = oci_of(s);
	const struct trace one = store_as_one_run(t);
	AUTO_FINI(artifact_list) found = { .n = 0 };
	int rc = list_artifacts(store, &t->info.image, &found, err);

	if (rc < 0)
		return rc;
	if (!has_same_trace(&found, t) && !has_same_trace(&found, &one)) {
		rc = put_merged(store, &one, &found, err);
		/* Delete the replaced artifacts, if the registry allows it. */
		for (size_t i = 0; rc == 0 && i < found.n; i++)
			if (strcmp(found.list[i].workload, t->info.workload) ==
			    0)
				(void)!oci_remove_manifest(store,
							   &found.list[i]
								    .digest,
							   NULL);
	}
	return rc;
}

static int oci_remove(struct trace_store *s, const struct trace_query *q,
		      struct error *err)
{
	struct oci_store *store = oci_of(s);
	struct artifact_list found = { .n = 0 };
	size_t n = 0;
	int rc = list_artifacts(store, &q->image, &found, err);

	for (size_t i = 0; rc == 0 && i < found.n; i++) {
		const struct trace_artifact *a = &found.list[i];

		if (q->workload && strcmp(a->workload, q->workload) != 0)
			continue;
		rc = oci_remove_manifest(store, &a->digest, err);
		n++;
	}
	artifact_list_fini(&found);
	if (rc < 0)
		return error_wrap(err, rc, "remove a trace");
	return n ? 0 : error_set(err, ENOENT, "there is no such trace");
}

static void oci_free(struct trace_store *s)
{
	free(container_of(s, struct oci_trace_store, base));
}

static const struct trace_store_ops oci_ops = {
	.name = "oci",
	.get = oci_get,
	.put = oci_put,
	.list = oci_list,
	.remove = oci_remove,
	.free = oci_free,
};

int trace_oci_new(struct oci_store *store, struct trace_store **ret,
		  struct error *err)
{
	struct oci_trace_store *o = calloc(1, sizeof(*o));

	if (!o)
		return error_nomem(err);
	o->base.ops = &oci_ops;
	o->store = store;
	*ret = &o->base;
	return 0;
}
