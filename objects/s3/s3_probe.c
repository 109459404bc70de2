// SPDX-License-Identifier: Apache-2.0
/* Which conditions and checksums the server heeds.  Servers that do not know a header
 * take the request as if it were not there, so each is shown one that it must refuse. */
#include <errno.h>
#include <string.h>

#include "objects/s3/s3_store_priv.h"

#define WRONG_CRC "AAAAAA==" /* of no bytes, not of ours */
#define WRONG_TAG "\"00000000000000000000000000000000\""

struct s3_probe {
	struct s3_store *s;
	const char *name;
};

/* A refusal is what is asked for, and not tried again; but one that may pass at once. */
static bool is_answer(const struct http_response *resp,
		      const struct retry_verdict *v)
{
	return resp->status / 100 == 2 ||
	       (resp->status / 100 == 4 && !v->most_tries);
}

static int send_request(const struct s3_probe *p, const char *method,
			const char *header, const char *value, long *ret_status,
			struct error *err)
{
	struct http_response resp = HTTP_RESPONSE_INIT;
	struct s3_request r = { .method = method, .name = p->name };
	struct retry_verdict v;
	struct retry_budget retry;
	int rc;

	if (strcmp(method, "PUT") == 0) {
		r.body = "probe";
		r.body_len = 5;
	}
	s3_header(&r, header, value);
	retry_init(&retry, &p->s->base, 0);
	r.deadline_ns = retry_until(&retry);
	do {
		v = (struct retry_verdict){ .can_retry = false };
		rc = s3_try(p->s, &r, &resp, &v, err);
	} while (rc < 0 && !is_answer(&resp, &v) &&
		 retry_again(&retry, &v, err));
	*ret_status = resp.status;
	http_response_fini(&resp);
	/* Whatever it answers is an answer; what never came is none. */
	return *ret_status ? 0 : rc;
}

static int put_object(const struct s3_probe *p, struct error *err)
{
	long status;
	int rc = send_request(p, "PUT", NULL, NULL, &status, err);

	if (rc == 0 && status / 100 != 2)
		rc = err->code ? -err->code : -EIO;
	return rc;
}

/* Does it refuse the request because of the condition?  What was put for that may have been
 * swept away by another's `gc`, so that a no is only taken after a second object. */
static int heeds_header(const struct s3_probe *p, const char *method,
			const char *header, const char *value, bool *ret,
			struct error *err)
{
	long status = 0;
	int rc = 0;

	for (int i = 0; i < 2 && rc == 0 && status != 412; i++) {
		rc = i > 0 ? put_object(p, err) : 0;
		if (rc == 0)
			rc = send_request(p, method, header, value, &status,
					  err);
	}
	*ret = status == 412 && !p->s->by_lock;
	return rc;
}

static int probe_conditions(const struct s3_probe *p, struct error *err)
{
	struct object_caps *caps = &p->s->base.caps;
	long status;
	int rc = put_object(p, err);

	if (rc == 0)
		rc = heeds_header(p, "PUT", "if-none-match", "*",
				  &caps->has_new, err);
	if (rc == 0)
		rc = heeds_header(p, "PUT", "if-match", WRONG_TAG,
				  &caps->has_match, err);
	if (rc == 0)
		rc = send_request(p, "PUT", "x-amz-checksum-crc32c", WRONG_CRC,
				  &status, err);
	/* A server that has never heard of it gets none: some refuse what they
	 * do not know. */
	caps->has_checksum = rc == 0 && status == 400;
	if (rc == 0)
		rc = heeds_header(p, "DELETE", "if-match", WRONG_TAG,
				  &caps->has_match_delete, err);
	return rc;
}

int s3_store_probe(struct object_store *base, struct error *err)
{
	AUTO_FREE char *name = store_temporary();
	struct s3_probe p = { .s = s3_store_of(base), .name = name };
	struct error first = ERROR_INIT;
	long status;
	int rc;

	if (!name)
		return error_nomem(err);
	rc = probe_conditions(&p, &first);
	if (send_request(&p, "DELETE", NULL, NULL, &status, NULL) < 0 &&
	    rc == 0)
		rc = error_set(&first, EIO, "cannot remove '%s'", name);
	if (rc < 0 && err)
		*err = first;
	return rc;
}
