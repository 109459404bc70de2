// SPDX-License-Identifier: Apache-2.0
/* Tests which conditions and checksums the server supports. A server that does not know a
 * header ignores it, so each test sends one that must be refused. */
#include <errno.h>
#include <string.h>

#include "objects/s3/s3_store_priv.h"

/* The CRC of no bytes, so wrong for this object. */
#define WRONG_CRC "AAAAAA=="
#define WRONG_TAG "\"00000000000000000000000000000000\""

struct s3_probe {
	struct s3_store *s;
	const char *name;
};

/* Is this an answer to the test? A refusal is expected and final, unless it is temporary. */
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
	/* Any status is an answer. */
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

/* Does the server refuse a request because of its condition? The object put for the test may
 * have been removed by another process's `gc`, so a refusal must repeat with a second object. */
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
	/* Send no checksums unless supported: some servers refuse unknown headers. */
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
