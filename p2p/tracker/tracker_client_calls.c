// SPDX-License-Identifier: Apache-2.0
/* A node's calls to trackers, and the reading of their answers. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "p2p/tracker/tracker_client_priv.h"
#include "p2p/tracker/tracker_json.h"

/* Write a call's body and its path. */
static int write_call(const struct tracker_call *call, struct buf *body,
		      struct buf *path, struct error *err)
{
	char image[DIGEST_STR_MAX];
	int rc = tracker_call_to_json(call, body, err);

	digest_format(&call->image, image);
	if (rc == 0 && buf_printf(path, "/v1/swarms/%s", image) < 0)
		rc = error_nomem(err);
	return rc;
}

/* Read the answer to a call that came with 200. */
static int read_answer(struct tracker_client *c, const struct tracker_ask *a,
		       const struct http_response *r,
		       struct tracker_answer *ret, struct error *err)
{
	struct error why = ERROR_INIT;
	int rc = tracker_answer_from_json(r->body.data ? r->body.data : "",
					  r->body.len, ret, &why);

	return tracker_answered(c, a, r->status, rc < 0 ? why.msg : NULL, err);
}

int tracker_client_call(struct tracker_client *c,
			const struct tracker_call *call,
			struct tracker_answer *ret, struct error *err)
{
	AUTO_FINI(http_response) r = HTTP_RESPONSE_INIT;
	AUTO_BUF body = BUF_INIT;
	AUTO_BUF path = BUF_INIT;
	struct tracker_ask a = { .method = "POST",
				 .body = &body,
				 .is_call = true };
	int rc = write_call(call, &body, &path, err);

	a.path = path.data;
	if (rc == 0)
		rc = tracker_ask(c, &call->image, &a, &r, err);
	if (rc == 0)
		rc = read_answer(c, &a, &r, ret, err);
	return rc;
}

int tracker_client_probe(struct tracker_client *c, size_t i, const char *node,
			 struct pace *pace, struct error *err)
{
	/* The tracker may be told that a node left an image it never had; the
	 * answer tells whether it is there. */
	const struct tracker_call call = { .node = node,
					   .addr = "",
					   .rack = "",
					   .zone = "",
					   .region = "",
					   .n_pieces = 1,
					   .leaving = true };
	AUTO_FREE struct tracker_answer *answer = calloc(1, sizeof(*answer));
	AUTO_FINI(http_response) r = HTTP_RESPONSE_INIT;
	AUTO_BUF body = BUF_INIT;
	AUTO_BUF path = BUF_INIT;
	struct tracker_ask a = { .method = "POST",
				 .body = &body,
				 .is_call = true,
				 .is_probe = true,
				 .pace = pace };
	int rc = answer ? write_call(&call, &body, &path, err)
			: error_nomem(err);

	a.path = path.data;
	if (rc == 0)
		rc = tracker_ask_one(c, i, &a, &r, err);
	if (rc == 0)
		rc = read_answer(c, &a, &r, answer, err);
	return rc;
}

int tracker_client_capability(struct tracker_client *c,
			      const struct digest *image, const char *repo,
			      const char *node, const char *authorization,
			      struct tracker_capability *ret, struct error *err)
{
	AUTO_FINI(http_response) r = HTTP_RESPONSE_INIT;
	AUTO_BUF body = BUF_INIT;
	AUTO_BUF data = BUF_INIT;
	struct tracker_ask a = { .method = "POST",
				 .path = "/v1/capabilities",
				 .body = &body,
				 .is_secret = authorization };
	int rc = capability_wish_to_json(image, repo, node, authorization,
					 &body, err);

	data.limit = CAPABILITY_MAX;
	if (rc == 0)
		rc = tracker_ask(c, image, &a, &r, err);
	if (rc == 0 &&
	    capability_from_json(r.body.data ? r.body.data : "", r.body.len,
				 &data, &ret->not_after, err) < 0)
		rc = error_wrap(err, -EPROTO, "the service's answer");
	if (rc == 0) {
		memcpy(ret->data, data.data, data.len);
		ret->len = data.len;
	}
	return rc;
}

/* Keep the ETag if it can be sent back as it is. */
static void keep_etag(const struct http_response *r,
		      char etag[TRACKER_ETAG_MAX])
{
	AUTO_FREE char *tag = http_header(r, "ETag");
	size_t len = tag ? strlen(tag) : 0;

	etag[0] = '\0';
	for (size_t i = 0; i < len; i++)
		if (!isgraph((unsigned char)tag[i]))
			return;
	if (len > 0 && len < TRACKER_ETAG_MAX)
		memcpy(etag, tag, len + 1);
}

int tracker_client_revoked(struct tracker_client *c,
			   char etag[TRACKER_ETAG_MAX], struct revoked **ret,
			   struct error *err)
{
	/* Any image will do: every tracker has the keys. */
	static const struct digest any;
	AUTO_FINI(http_response) r = HTTP_RESPONSE_INIT;
	char condition[TRACKER_ETAG_MAX + 32];
	struct tracker_ask a = { .method = "GET",
				 .path = "/v1/capability-keys" };
	int rc;

	if (etag[0]) {
		(void)snprintf(condition, sizeof(condition),
			       "If-None-Match: %s", etag);
		a.condition = condition;
	}
	*ret = NULL;
	rc = tracker_ask(c, &any, &a, &r, err);
	if (rc == 0 && r.status == 200) {
		rc = revoked_from_json(r.body.data ? r.body.data : "",
				       r.body.len, ret, err);
		if (rc < 0)
			rc = error_wrap(err, -EPROTO, "what was revoked");
		else
			keep_etag(&r, etag);
	}
	return rc;
}
