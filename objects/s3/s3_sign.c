// SPDX-License-Identifier: Apache-2.0
#include "objects/s3/s3_sign.h"

#include <errno.h>
#include <string.h>

#include "common/digest.h"

#define DATE 8 /* the date: first bytes of the time */
#define SECRET_MAX 512

int s3_hash(const void *data, size_t len, char ret[65])
{
	char text[DIGEST_STR_MAX];
	struct digest d;
	int rc = digest_of(data, len, &d);

	if (rc < 0)
		return rc;
	digest_format(&d, text);
	memcpy(ret, text + strlen("sha256:"), 65);
	return 0;
}

static int put_names(struct buf *b, const struct s3_signing *s)
{
	for (size_t i = 0; i < s->n_headers; i++) {
		int rc =
			buf_printf(b, "%s%s", i ? ";" : "", s->headers[i].name);

		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Append the canonical form of the request, which both sides hash. */
static int canonical_request(struct buf *b, const struct s3_signing *s)
{
	int rc = buf_printf(b, "%s\n%s\n%s\n", s->method, s->path, s->query);

	for (size_t i = 0; i < s->n_headers && rc == 0; i++)
		rc = buf_printf(b, "%s:%s\n", s->headers[i].name,
				s->headers[i].value);
	if (rc == 0)
		rc = buf_puts(b, "\n");
	if (rc == 0)
		rc = put_names(b, s);
	return rc == 0 ? buf_printf(b, "\n%s", s->payload) : rc;
}

/* Derive the signing key of a day, region and service. */
static int derive_key(const struct s3_signing *s, struct digest *ret)
{
	const struct {
		const char *text;
		size_t len;
	} steps[] = {
		{ s->time, DATE },
		{ s->region, strlen(s->region) },
		{ s->service, strlen(s->service) },
		{ "aws4_request", 12 },
	};
	char first[SECRET_MAX + 4] = "AWS4";
	const void *key = first;
	size_t len = strlen(s->secret);
	int rc = 0;

	if (len > SECRET_MAX)
		return -EINVAL;
	memcpy(first + 4, s->secret, len);
	len += 4;
	for (size_t i = 0; i < ARRAY_SIZE(steps) && rc == 0; i++) {
		struct digest next;

		rc = digest_hmac(key, len, steps[i].text, steps[i].len, &next);
		*ret = next;
		key = ret->b;
		len = DIGEST_SIZE;
	}
	explicit_bzero(first, sizeof(first));
	return rc;
}

int s3_sign(const struct s3_signing *s, struct buf *ret)
{
	AUTO_BUF request = BUF_INIT, text = BUF_INIT, scope = BUF_INIT;
	char hash[65], signature[DIGEST_STR_MAX];
	struct digest key, mac;
	int rc = canonical_request(&request, s);

	if (rc == 0)
		rc = s3_hash(request.data, request.len, hash);
	if (rc == 0)
		rc = buf_printf(&scope, "%.*s/%s/%s/aws4_request", DATE,
				s->time, s->region, s->service);
	if (rc == 0)
		rc = buf_printf(&text, "AWS4-HMAC-SHA256\n%s\n%s\n%s", s->time,
				scope.data, hash);
	if (rc == 0)
		rc = derive_key(s, &key);
	if (rc == 0)
		rc = digest_hmac(key.b, DIGEST_SIZE, text.data, text.len, &mac);
	if (rc < 0)
		return rc;
	digest_format(&mac, signature);
	rc = buf_printf(ret, "AWS4-HMAC-SHA256 Credential=%s/%s,SignedHeaders=",
			s->key_id, scope.data);
	if (rc == 0)
		rc = put_names(ret, s);
	return rc == 0 ? buf_printf(ret, ",Signature=%s",
				    signature + strlen("sha256:"))
		       : rc;
}
