// SPDX-License-Identifier: Apache-2.0
/*
 * Writes objects. An object of one part is one request; others are multipart uploads, which are
 * invisible until completed. Each part has a CRC-32C, because without one some servers keep parts
 * that were cut off.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "common/base64.h"
#include "common/clock.h"
#include "common/crc32c.h"
#include "objects/s3/s3_store_priv.h"
#include "objects/s3/s3_xml.h"
#include "objects/store/parts.h"

#define CRC_TEXT 9 /* base 64 of four bytes, and a NUL */

struct s3_part {
	char tag[OBJECT_TAG_MAX];
	char crc[CRC_TEXT];
};

struct s3_put {
	struct object_put base;
	char nonce[25]; /* marks the object as written by this put */

	pthread_mutex_t lock; /* protects the rest */
	char *upload;         /* NULL: no upload has begun */
	struct s3_part *sent; /* by number */
	size_t n_sent;
};

static struct s3_put *s3_put_of(struct object_put *p)
{
	return container_of(p, struct s3_put, base);
}

static int crc_text(const void *data, size_t len, char ret[CRC_TEXT])
{
	uint32_t crc = htobe32(crc32c(0, data, len));
	AUTO_BUF text = BUF_INIT;
	int rc = base64_encode(&crc, sizeof(crc), &text);

	if (rc == 0)
		memcpy(ret, text.data, CRC_TEXT);
	return rc;
}

/* ------------------------------------------------------------------- parts --- */

static int begin_upload(struct s3_store *s, struct s3_put *p, struct error *err)
{
	AUTO_FINI(http_response) resp = HTTP_RESPONSE_INIT;
	struct s3_request r = { .method = "POST",
				.name = p->base.name,
				.query = "uploads=" };
	int rc;

	s3_header(&r, "x-amz-checksum-algorithm",
		  s->base.caps.has_checksum ? "CRC32C" : NULL);
	s3_header(&r, S3_PUT_HEADER, p->nonce);
	rc = s3_call(s, &r, &resp, err);
	if (rc == 0) {
		p->upload =
			s3_element(&resp,
				   "InitiateMultipartUploadResult/UploadId");
		if (!p->upload || !*p->upload)
			rc = error_set(err, EPROTO,
				       "%s began an upload without telling "
				       "which",
				       s->origin);
	}
	return rc;
}

/* Append the upload's id as a query. */
static int upload_query(struct s3_put *p, struct buf *ret, struct error *err)
{
	int rc;

	if (!p->upload)
		return error_set(err, EINVAL, "no upload was begun");
	rc = buf_puts(ret, "uploadId=");
	if (rc == 0)
		rc = store_url_encode(ret, p->upload, "");
	return rc < 0 ? error_nomem(err) : 0;
}

/* Begin the upload with the first part, while the others wait. */
static int ensure_upload_and_part(struct s3_store *s, struct s3_put *p,
				  unsigned int n, struct buf *query,
				  struct error *err)
{
	struct s3_part *more;
	int rc = 0;

	(void)pthread_mutex_lock(&p->lock);
	if (!p->upload)
		rc = begin_upload(s, p, err);
	if (rc == 0 && n >= p->n_sent) {
		more = reallocarray(p->sent, n + 1, sizeof(*more));
		if (more) {
			memset(more + p->n_sent, 0,
			       (n + 1 - p->n_sent) * sizeof(*more));
			p->sent = more;
			p->n_sent = n + 1;
		} else {
			rc = error_nomem(err);
		}
	}
	if (rc == 0 && buf_printf(query, "partNumber=%u&", n + 1) < 0)
		rc = error_nomem(err);
	if (rc == 0)
		rc = upload_query(p, query, err);
	(void)pthread_mutex_unlock(&p->lock);
	return rc;
}

static int send_part(const struct part *part, struct error *err)
{
	struct s3_put *p = s3_put_of(part->put);
	struct s3_store *s = s3_store_of(p->base.store);
	struct http_response resp = HTTP_RESPONSE_INIT;
	AUTO_BUF query = BUF_INIT;
	AUTO_FREE char *tag = NULL;
	struct s3_request r = { .method = "PUT",
				.name = p->base.name,
				.body = part->data,
				.body_len = part->len };
	char crc[CRC_TEXT];
	int rc = ensure_upload_and_part(s, p, part->n, &query, err);

	if (rc == 0 && crc_text(part->data, part->len, crc) < 0)
		rc = error_nomem(err);
	if (rc < 0)
		return rc;
	r.query = query.data;
	s3_header(&r, "x-amz-checksum-crc32c",
		  s->base.caps.has_checksum ? crc : NULL);
	rc = s3_call(s, &r, &resp, err);
	if (rc == 0) {
		tag = http_header(&resp, "etag");
		if (!tag || strlen(tag) >= OBJECT_TAG_MAX)
			rc = error_set(err, EPROTO,
				       "%s took a part without giving a tag",
				       s->origin);
	}
	http_response_fini(&resp);
	if (rc < 0)
		return rc;
	(void)pthread_mutex_lock(&p->lock);
	memcpy(p->sent[part->n].tag, tag, strlen(tag) + 1);
	memcpy(p->sent[part->n].crc, crc, sizeof(crc));
	(void)pthread_mutex_unlock(&p->lock);
	return 0;
}

int s3_store_put_open(struct object_store *s, const char *name,
		      const struct object_put_options *opts,
		      struct object_put **ret, struct error *err)
{
	const struct put_parts_way way = { .send = send_part,
					   .part_size =
						   (size_t)s->caps.part_size,
					   .max_parallel = s->caps.parallel };
	struct s3_put *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return error_nomem(err);
	(void)pthread_mutex_init(&p->lock, NULL);
	store_random(p->nonce, sizeof(p->nonce) - 1);
	rc = store_put_init(&p->base, s, name, opts, err);
	if (rc == 0)
		rc = put_parts_new(&p->base, &way, &p->base.parts, err);
	if (rc < 0)
		s3_store_put_free(&p->base);
	else
		*ret = &p->base;
	return rc;
}

/* ------------------------------------------------------------------ commit --- */

static void add_condition(struct s3_store *s, const struct s3_put *p,
			  struct s3_request *r)
{
	if (p->base.condition == OBJECT_NEW && s->base.caps.has_new)
		s3_header(r, "if-none-match", "*");
	if (p->base.condition == OBJECT_MATCH && s->base.caps.has_match)
		s3_header(r, "if-match", p->base.tag);
}

/* Was the present object written by this put? */
static bool object_is_from_put(struct s3_store *s, const struct s3_put *p,
			       struct object_stat *ret)
{
	AUTO_FINI(http_response) resp = HTTP_RESPONSE_INIT;
	struct s3_request r = { .method = "HEAD", .name = p->base.name };
	AUTO_FREE char *nonce = NULL;
	bool ours = false;

	if (s3_call(s, &r, &resp, NULL) == 0) {
		nonce = http_header(&resp, S3_PUT_HEADER);
		ours = nonce && strcmp(nonce, p->nonce) == 0 &&
		       s3_stat_fill(&resp, ret, NULL) == 0 &&
		       ret->size == p->base.size;
	}
	return ours;
}

/* The answer to a successful attempt may have been lost; the next one, which libcurl makes by
 * itself on a reused connection, then finds its result. */
static int get_commit_result(struct s3_store *s, const struct s3_put *p, int rc,
			     long status, struct object_stat *ret,
			     struct error *err)
{
	if (rc == 0)
		return 0;
	if (status != 412 && status != 404)
		return rc;
	if (object_is_from_put(s, p, ret))
		return 0;
	if (p->base.condition == OBJECT_ANY)
		return rc;
	if (p->base.condition == OBJECT_NEW && status == 412)
		return error_set(err, EEXIST, "there is one of this name");
	if (p->base.condition == OBJECT_MATCH)
		return error_set(err, ESTALE,
				 "another has replaced or removed it");
	return rc;
}

static int object_put_single(struct s3_store *s, struct s3_put *p,
			     const void *data, size_t len,
			     struct object_stat *ret, struct error *err)
{
	struct http_response resp = HTTP_RESPONSE_INIT;
	struct s3_request r = { .method = "PUT",
				.name = p->base.name,
				.body = data,
				.body_len = len };
	AUTO_FREE char *tag = NULL;
	AUTO_FREE char *date = NULL;
	char crc[CRC_TEXT];
	int rc;

	if (crc_text(data, len, crc) < 0)
		return error_nomem(err);
	s3_header(&r, "x-amz-checksum-crc32c",
		  s->base.caps.has_checksum ? crc : NULL);
	s3_header(&r, S3_PUT_HEADER, p->nonce);
	add_condition(s, p, &r);
	rc = s3_call(s, &r, &resp, err);
	ret->tag[0] = '\0';
	if (rc == 0) {
		tag = http_header(&resp, "etag");
		date = http_header(&resp, "date");
	}
	rc = get_commit_result(s, p, rc, resp.status, ret, err);
	http_response_fini(&resp);
	if (rc < 0 || *ret->tag)
		return rc;
	if (!tag || strlen(tag) >= OBJECT_TAG_MAX)
		return error_set(err, EPROTO,
				 "%s took the object without giving a tag",
				 s->origin);
	*ret = (struct object_stat){ .size = len };
	ret->modified_ms = date ? http_date_ms(date) : -1;
	memcpy(ret->tag, tag, strlen(tag) + 1);
	return 0;
}

static int format_parts_list(const struct s3_put *p, bool has_crc,
			     struct buf *ret)
{
	int rc = buf_puts(ret, "<CompleteMultipartUpload>");

	for (size_t i = 0; i < p->n_sent && rc == 0; i++) {
		rc = buf_printf(ret, "<Part><PartNumber>%zu</PartNumber><ETag>",
				i + 1);
		if (rc == 0)
			rc = s3_xml_escape(ret, p->sent[i].tag);
		if (rc == 0)
			rc = buf_puts(ret, "</ETag>");
		if (rc == 0 && has_crc)
			rc = buf_printf(ret,
					"<ChecksumCRC32C>%s</ChecksumCRC32C>",
					p->sent[i].crc);
		if (rc == 0)
			rc = buf_puts(ret, "</Part>");
	}
	return rc == 0 ? buf_puts(ret, "</CompleteMultipartUpload>") : rc;
}

static int complete_upload(struct s3_store *s, struct s3_put *p,
			   struct object_stat *ret, struct error *err)
{
	struct http_response resp = HTTP_RESPONSE_INIT;
	AUTO_BUF query = BUF_INIT, body = BUF_INIT;
	struct s3_request r = { .method = "POST",
				.name = p->base.name,
				.is_hashed = true };
	int rc = upload_query(p, &query, err);

	if (rc == 0 &&
	    format_parts_list(p, s->base.caps.has_checksum, &body) < 0)
		rc = error_nomem(err);
	if (rc < 0)
		return rc;
	r.query = query.data;
	r.body = body.data;
	r.body_len = body.len;
	s3_header(&r, "content-type", "application/xml");
	add_condition(s, p, &r);
	rc = s3_call(s, &r, &resp, err);
	if (rc == 0)
		free(steal_ptr(&p->upload));
	rc = get_commit_result(s, p, rc, resp.status, ret, err);
	http_response_fini(&resp);
	if (rc < 0)
		return rc;
	/* Check that the visible object is complete, and from this put. */
	if (!object_is_from_put(s, p, ret)) {
		rc = s3_store_stat(&s->base, p->base.name, ret, err);
		if (rc == 0 && ret->size != p->base.size &&
		    p->base.condition != OBJECT_ANY)
			rc = error_set(err, EIO,
				       "%s has %llu bytes of %llu that were "
				       "sent",
				       s->origin, (unsigned long long)ret->size,
				       (unsigned long long)p->base.size);
	}
	return rc;
}

/* Make the object visible. */
static int publish_object(struct s3_store *s, struct s3_put *p,
			  struct object_stat *ret, struct error *err)
{
	const void *data;
	size_t len;

	if (put_parts_count(p->base.parts, &data, &len) == 0)
		return object_put_single(s, p, data, len, ret, err);
	return complete_upload(s, p, ret, err);
}

static bool needs_lock(const struct s3_store *s, const struct s3_put *p)
{
	return (p->base.condition == OBJECT_NEW && !s->base.caps.has_new) ||
	       (p->base.condition == OBJECT_MATCH && !s->base.caps.has_match);
}

int s3_store_put_commit(struct object_put *base, struct object_stat *ret,
			struct error *err)
{
	struct s3_put *p = s3_put_of(base);
	struct s3_store *s = s3_store_of(base->store);
	struct store_lock lock = { .name = NULL };
	int rc = put_parts_finish(p->base.parts, err);

	if (rc < 0 || !needs_lock(s, p))
		return rc < 0 ? rc : publish_object(s, p, ret, err);
	rc = store_lock(base->store, base->name, &lock, err);
	if (rc < 0)
		return rc;
	rc = store_condition(base->store, base, err);
	if (rc == 0)
		rc = store_lock_check(&lock, err);
	if (rc == 0)
		rc = publish_object(s, p, ret, err);
	store_unlock(base->store, &lock);
	return rc;
}

static void abort_upload(struct s3_store *s, struct s3_put *p)
{
	struct http_response resp = HTTP_RESPONSE_INIT;
	AUTO_BUF query = BUF_INIT;
	struct s3_request r = {
		.method = "DELETE",
		.name = p->base.name,
		.deadline_ns = store_tidy_deadline(&s->base),
	};

	if (upload_query(p, &query, NULL) < 0)
		return;
	r.query = query.data;
	/* object_store_sweep() later removes an upload that cannot be aborted */
	(void)!s3_call(s, &r, &resp, NULL);
	http_response_fini(&resp);
}

void s3_store_put_free(struct object_put *base)
{
	struct s3_put *p = s3_put_of(base);

	put_parts_free(p->base.parts);
	if (p->upload)
		abort_upload(s3_store_of(base->store), p);
	free(p->upload);
	free(p->sent);
	(void)pthread_mutex_destroy(&p->lock);
	store_put_fini(base);
	free(p);
}
