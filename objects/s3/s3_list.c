// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "objects/s3/s3_list_priv.h"
#include "objects/s3/s3_store_priv.h"
#include "objects/s3/s3_xml.h"

#define MS_IN_S 1000

/* A page while it is read: the entry that its elements are of, and where the next page
 * begins. */
struct page {
	s3_list_fn *fn;
	void *arg;
	int rc; /* of fn */
	char *key, *tag, *upload;
	uint64_t size;
	int64_t modified_ms;
	char *next, *next_upload;
	bool is_truncated;
};

static int replace_text(char **to, const char *text)
{
	free(*to);
	*to = strdup(text);
	return *to ? 0 : -ENOMEM;
}

static int end_entry(struct page *p, bool is_folder)
{
	const struct s3_entry e = {
		.key = p->key,
		.tag = p->tag ? p->tag : "",
		.upload = p->upload,
		.size = p->size,
		.modified_ms = p->modified_ms,
		.is_folder = is_folder,
	};

	if (!p->key)
		return -EBADMSG;
	p->rc = p->fn(p->arg, &e);
	free(p->key);
	free(p->tag);
	free(p->upload);
	p->key = p->tag = p->upload = NULL;
	p->size = 0;
	p->modified_ms = -1;
	return p->rc < 0 ? -ECANCELED : 0;
}

static int set_size(struct page *p, const char *text)
{
	char *end;

	errno = 0;
	p->size = strtoull(text, &end, 10);
	return errno || *end || *text == '-' || !*text ? -EBADMSG : 0;
}

/* Within <Contents>, <CommonPrefixes> and <Upload>. */
static int entry_element(struct page *p, const char *leaf, const char *text)
{
	if (strcmp(leaf, "Key") == 0 || strcmp(leaf, "Prefix") == 0)
		return replace_text(&p->key, text);
	if (strcmp(leaf, "ETag") == 0)
		return replace_text(&p->tag, text);
	if (strcmp(leaf, "UploadId") == 0)
		return replace_text(&p->upload, text);
	if (strcmp(leaf, "Size") == 0)
		return set_size(p, text);
	if (strcmp(leaf, "LastModified") == 0 || strcmp(leaf, "Initiated") == 0)
		p->modified_ms = s3_time_parse(text);
	return 0;
}

static int on_element(void *arg, const char *path, const char *text)
{
	struct page *p = arg;
	const char *leaf = strchr(path, '/'), *inner;

	if (!leaf)
		return strcmp(path, "ListBucketResult") == 0 ||
				       strcmp(path, "ListMultipartUploads"
						    "Result") == 0
			       ? 0
			       : -EBADMSG;
	leaf++;
	if (strcmp(leaf, "IsTruncated") == 0)
		p->is_truncated = strcmp(text, "true") == 0;
	else if (strcmp(leaf, "NextContinuationToken") == 0 ||
		 strcmp(leaf, "NextKeyMarker") == 0)
		return replace_text(&p->next, text);
	else if (strcmp(leaf, "NextUploadIdMarker") == 0)
		return replace_text(&p->next_upload, text);
	else if (strcmp(leaf, "Contents") == 0 || strcmp(leaf, "Upload") == 0)
		return end_entry(p, false);
	else if (strcmp(leaf, "CommonPrefixes") == 0)
		return end_entry(p, true);
	inner = strchr(leaf, '/');
	if (inner && (strncmp(leaf, "Contents/", 9) == 0 ||
		      strncmp(leaf, "Upload/", 7) == 0 ||
		      strncmp(leaf, "CommonPrefixes/", 15) == 0))
		return entry_element(p, inner + 1, text);
	return 0;
}

int s3_page_parse(const char *data, size_t len, s3_list_fn *fn, void *arg,
		  struct s3_next *ret)
{
	struct page p = { .fn = fn, .arg = arg, .modified_ms = -1 };
	int rc = s3_xml_parse(data, len, on_element, &p);

	if (p.rc < 0)
		rc = p.rc;
	*ret = (struct s3_next){ .key = NULL };
	if (rc == 0 && p.is_truncated) {
		ret->key = p.next;
		ret->upload = p.next_upload;
		p.next = p.next_upload = NULL;
		/* Without it the same page would come for ever. */
		if (!ret->key || !*ret->key)
			rc = -EBADMSG;
	}
	if (rc < 0)
		s3_next_fini(ret);
	free(p.key);
	free(p.tag);
	free(p.upload);
	free(p.next);
	free(p.next_upload);
	return rc;
}

void s3_next_fini(struct s3_next *n)
{
	free(n->key);
	free(n->upload);
	*n = (struct s3_next){ .key = NULL };
}

/* -------------------------------------------------------------------- list --- */

struct s3_listing {
	struct s3_store *s;
	object_list_fn *fn;
	void *arg;
	int64_t asked_ns; /* for the page */
	struct error *err;
};

static int list_entry(void *arg, const struct s3_entry *e)
{
	struct s3_listing *l = arg;
	size_t skip = strlen(l->s->prefix), len = strlen(e->key);
	struct object_entry entry = {
		.is_folder = e->is_folder,
		.stat = { .size = e->size, .modified_ms = e->modified_ms },
		.asked_ns = l->asked_ns,
	};
	AUTO_FREE char *name = NULL;

	if (len < skip || strncmp(e->key, l->s->prefix, skip) != 0 ||
	    strlen(e->tag) >= OBJECT_TAG_MAX)
		return error_set(l->err, EPROTO,
				 "the server lists '%.100s', which was not "
				 "asked for",
				 e->key);
	/* The store's own folder, which some tool marked. */
	if (len == skip)
		return 0;
	/* Some tools mark folders by empty objects of such names. */
	entry.is_marker = !e->is_folder && e->key[len - 1] == '/';
	entry.is_folder = e->is_folder || entry.is_marker;
	name = strndup(e->key + skip, len - skip - entry.is_folder);
	if (!name)
		return error_nomem(l->err);
	entry.name = name;
	memcpy(entry.stat.tag, e->tag, strlen(e->tag) + 1);
	/* Whole seconds, as HEAD has them: a file has one time, whoever is asked. */
	if (e->modified_ms > 0)
		entry.stat.modified_ms -= e->modified_ms % MS_IN_S;
	return l->fn(l->arg, &entry, l->err);
}

static int make_query(struct s3_store *s, const char *folder, bool deep,
		      const struct s3_next *from, struct buf *ret)
{
	AUTO_BUF prefix = BUF_INIT;
	int rc = 0;

	if (from->key)
		rc = buf_puts(ret, "continuation-token=");
	if (rc == 0 && from->key)
		rc = store_url_encode(ret, from->key, "");
	if (rc == 0)
		rc = buf_printf(ret,
				"%s%slist-type=2&prefix=", from->key ? "&" : "",
				deep ? "" : "delimiter=%2F&");
	if (rc == 0)
		rc = buf_printf(&prefix, "%s%s%s", s->prefix, folder,
				*folder ? "/" : "");
	return rc < 0 ? rc : store_url_encode(ret, prefix.data, "");
}

/* Request a page; *ret has where the next begins. */
static int ask_page(struct s3_store *s, const char *query, s3_list_fn *fn,
		    void *arg, struct s3_next *ret, struct error *err)
{
	struct s3_request r = { .method = "GET", .query = query };
	AUTO_FINI(http_response) resp = HTTP_RESPONSE_INIT;
	int rc = s3_call(s, &r, &resp, err);

	if (rc == 0) {
		rc = s3_page_parse(resp.body.data ? resp.body.data : "",
				   resp.body.len, fn, arg, ret);
		if (rc == -EBADMSG)
			rc = error_set(err, EPROTO,
				       "%s: its list is not to be understood",
				       s->origin);
	}
	return rc;
}

int s3_store_list(struct object_store *base, const char *folder, bool deep,
		  object_list_fn *fn, void *arg, struct error *err)
{
	struct s3_store *s = s3_store_of(base);
	struct s3_listing l = { .s = s, .fn = fn, .arg = arg, .err = err };
	struct s3_next from = { .key = NULL }, next;
	int rc;

	do {
		AUTO_BUF query = BUF_INIT;

		if (make_query(s, folder, deep, &from, &query) < 0) {
			rc = error_nomem(err);
			break;
		}
		l.asked_ns = clock_now_ns();
		rc = ask_page(s, query.data, list_entry, &l, &next, err);
		s3_next_fini(&from);
		if (rc == 0)
			from = next;
	} while (rc == 0 && from.key);
	s3_next_fini(&from);
	return rc;
}

/* ------------------------------------------------------------------- sweep --- */

/* Writes where the page that begins at `from` is asked for. */
typedef int s3_query_fn(struct s3_store *s, const struct s3_next *from,
			struct buf *ret);

struct s3_sweep {
	struct s3_store *s;
	const char *folder;
	int64_t before_ms;
	size_t n;
	struct error *err;
};

/* Delete what is there of this key: of an upload, its parts. */
static int delete_listed_entry(struct s3_store *s, const struct s3_entry *e,
			       struct error *err)
{
	AUTO_BUF query = BUF_INIT;
	struct http_response resp = HTTP_RESPONSE_INIT;
	struct s3_request r = { .method = "DELETE",
				.name = e->key + strlen(s->prefix) };
	int rc = 0;

	if (e->upload) {
		rc = buf_puts(&query, "uploadId=");
		if (rc == 0)
			rc = store_url_encode(&query, e->upload, "");
		r.query = query.data;
	}
	if (rc < 0)
		return error_nomem(err);
	rc = s3_call(s, &r, &resp, err);
	http_response_fini(&resp);
	return resp.status == 404 ? 0 : rc;
}

bool s3_is_left(const char *prefix, const char *folder,
		const struct s3_entry *e, int64_t before_ms)
{
	const char *name = e->key + strlen(prefix);

	if (strncmp(e->key, prefix, strlen(prefix)) != 0 ||
	    !store_is_name(name) || !object_is_old(e->modified_ms, before_ms))
		return false;
	if (e->upload && (!*folder || store_is_below(name, folder)))
		return true;
	return !e->is_folder && store_is_below(name, STORE_TMP);
}

static int sweep_entry_if_old(void *arg, const struct s3_entry *e)
{
	struct s3_sweep *w = arg;
	int rc;

	if (!s3_is_left(w->s->prefix, w->folder, e, w->before_ms))
		return 0;
	rc = delete_listed_entry(w->s, e, w->err);
	w->n += rc == 0;
	return rc;
}

static int uploads_query(struct s3_store *s, const struct s3_next *from,
			 struct buf *ret)
{
	int rc = 0;

	if (from->key)
		rc = buf_puts(ret, "key-marker=");
	if (rc == 0 && from->key)
		rc = store_url_encode(ret, from->key, "");
	if (rc == 0)
		rc = buf_printf(ret, "%sprefix=", from->key ? "&" : "");
	if (rc == 0)
		rc = store_url_encode(ret, s->prefix, "");
	if (rc == 0 && from->upload)
		rc = buf_puts(ret, "&upload-id-marker=");
	if (rc == 0 && from->upload)
		rc = store_url_encode(ret, from->upload, "");
	return rc == 0 ? buf_puts(ret, "&uploads=") : rc;
}

static int temporaries_query(struct s3_store *s, const struct s3_next *from,
			     struct buf *ret)
{
	return make_query(s, STORE_TMP, true, from, ret);
}

static int sweep_pages(struct s3_sweep *w, s3_query_fn *make)
{
	struct s3_next from = { .key = NULL }, next;
	int rc;

	do {
		AUTO_BUF query = BUF_INIT;

		if (make(w->s, &from, &query) < 0) {
			rc = error_nomem(w->err);
			break;
		}
		rc = ask_page(w->s, query.data, sweep_entry_if_old, w, &next,
			      w->err);
		s3_next_fini(&from);
		if (rc == 0)
			from = next;
	} while (rc == 0 && from.key);
	s3_next_fini(&from);
	return rc;
}

/* Puts leave uploads in parts; probes leave objects. */
int s3_store_sweep(struct object_store *base, const char *folder,
		   int64_t before_ms, size_t *ret_n, struct error *err)
{
	struct s3_sweep w = { .s = s3_store_of(base),
			      .folder = folder,
			      .before_ms = before_ms,
			      .err = err };
	int rc = sweep_pages(&w, uploads_query);

	if (rc == 0)
		rc = sweep_pages(&w, temporaries_query);
	*ret_n = w.n;
	return rc;
}
