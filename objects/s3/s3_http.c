// SPDX-License-Identifier: Apache-2.0
/* Requests: signed, sent, judged. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "objects/s3/s3_store_priv.h"
#include "objects/s3/s3_xml.h"

#define REASON_MAX 200

void s3_header(struct s3_request *r, const char *name, const char *value)
{
	if (value && r->n_headers < S3_HEADERS_MAX)
		r->headers[r->n_headers++] =
			(struct s3_header){ .name = name, .value = value };
}

int s3_key(const struct s3_store *s, const char *name, struct buf *ret,
	   struct error *err)
{
	return buf_printf(ret, "%s%s", s->prefix, name) < 0 ? error_nomem(err)
							    : 0;
}

/* ----------------------------------------------------------------- elements --- */

struct element {
	const char *path;
	char *text;
};

static int take_element(void *arg, const char *path, const char *text)
{
	struct element *e = arg;

	if (e->text || strcmp(path, e->path) != 0)
		return 0;
	e->text = strdup(text);
	return e->text ? 0 : -ENOMEM;
}

char *s3_element(const struct http_response *resp, const char *path)
{
	struct element e = { .path = path };

	if (!resp->body.len || s3_xml_parse(resp->body.data, resp->body.len,
					    take_element, &e) < 0) {
		free(e.text);
		return NULL;
	}
	return e.text;
}

/* ----------------------------------------------------------------- judgement --- */

static const struct {
	const char *code; /* of the answer's XML */
	int error;
	bool can_retry;
	const char *cure;
} answers[] = {
	{ "NoSuchKey", ENOENT, false, "" },
	{ "NoSuchBucket", ENOENT, false,
	  ": create the bucket, or check its name and the endpoint" },
	{ "NoSuchUpload", ESTALE, false,
	  ": somebody has removed the upload; a rule of the bucket may be too "
	  "short" },
	{ "AccessDenied", EACCES, false,
	  ": give this identity the right to it" },
	{ "AllAccessDisabled", EACCES, false, "" },
	{ "AccountProblem", EACCES, false, "" },
	{ "InvalidAccessKeyId", EACCES, false, ": check the access key" },
	{ "SignatureDoesNotMatch", EACCES, false,
	  ": check the secret key, and that no proxy changes requests" },
	{ "AuthorizationHeaderMalformed", EINVAL, false,
	  ": name the bucket's region: ?region=" },
	{ "PermanentRedirect", EINVAL, false,
	  ": name the bucket's region: ?region=" },
	{ "RequestTimeTooSkewed", EACCES, false,
	  ": this machine's clock is wrong: see date" },
	{ "ExpiredToken", EACCES, true, ": renew the session" },
	{ "InvalidToken", EACCES, true, ": renew the session" },
	{ "TokenRefreshRequired", EACCES, true, ": renew the session" },
	{ "PreconditionFailed", ESTALE, false, "" },
	{ "ExistingObjectIsDirectory", ENOTDIR, true,
	  ": this server keeps folders, so an object cannot have the name of "
	  "one" },
	{ "ConditionalRequestConflict", EBUSY, true, "" },
	{ "OperationAborted", EBUSY, true, "" },
	{ "SlowDown", EBUSY, true,
	  ": it asks for fewer requests: use less of parallel=" },
	{ "RequestLimitExceeded", EBUSY, true, "" },
	{ "ServiceUnavailable", EBUSY, true, "" },
	{ "Throttling", EBUSY, true, "" },
	{ "InternalError", EIO, true, ": see the server's log" },
	{ "RequestTimeout", ETIMEDOUT, true, "" },
	{ "IncompleteBody", EIO, true, "" },
	{ "BadDigest", EBADMSG, true,
	  ": the bytes changed on their way: memory or network is broken" },
	{ "XAmzContentChecksumMismatch", EBADMSG, true,
	  ": the bytes changed on their way: memory or network is broken" },
	{ "XAmzContentSHA256Mismatch", EBADMSG, true,
	  ": the bytes changed on their way: memory or network is broken" },
	{ "InvalidRange", ERANGE, false, "" },
	{ "EntityTooLarge", EFBIG, false, "" },
	{ "QuotaExceeded", ENOSPC, false, ": raise the quota" },
	{ "XMinioStorageFull", ENOSPC, false, ": make room there" },
	{ "NotImplemented", ENOTSUP, false, ": this server cannot do it" },
	{ "KeyTooLongError", EINVAL, false, "" },
	{ "InvalidObjectName", EINVAL, false, "" },
};

#define FOLDER_TRIES 5

/* For answers without XML: those of HEAD, and of proxies. */
static const struct {
	long status;
	int error;
	bool can_retry;
	const char *cure;
} statuses[] = {
	{ 301, EINVAL, false, ": name the bucket's region: ?region=" },
	{ 307, EINVAL, true, "" },
	{ 400, EINVAL, false,
	  ": check region, endpoint and session of the credentials" },
	{ 401, EACCES, false, ": check the credentials" },
	{ 403, EACCES, false,
	  ": check the credentials, their rights, and this machine's clock" },
	{ 404, ENOENT, false, "" },
	{ 405, ENOTSUP, false, ": is it an S3 server?" },
	{ 408, ETIMEDOUT, true, "" },
	{ 409, EBUSY, true, "" },
	{ 412, ESTALE, false, "" },
	{ 413, EFBIG, false, "" },
	{ 416, ERANGE, false, "" },
	{ 429, EBUSY, true, "" },
	{ 501, ENOTSUP, false, ": this server cannot do it" },
	{ 507, ENOSPC, false, ": make room there" },
};

/* Text of a stranger for a person's terminal. */
static void make_printable(char *text)
{
	for (size_t i = 0; text && text[i]; i++) {
		if (i == REASON_MAX)
			text[i] = '\0';
		else if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			text[i] = ' ';
	}
}

static int judge_status(const struct s3_store *s,
			const struct http_response *resp,
			struct retry_verdict *v, struct error *err)
{
	const char *cure = "";
	int code = EIO;

	v->can_retry = resp->status >= 500;
	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++)
		if (statuses[i].status == resp->status) {
			code = statuses[i].error;
			v->can_retry = statuses[i].can_retry;
			cure = statuses[i].cure;
		}
	return error_set(err, code, "%s answered %ld%s", s->origin,
			 resp->status, cure);
}

static int judge_answer(struct s3_store *s, const struct http_response *resp,
			struct retry_verdict *v, struct error *err)
{
	AUTO_FREE char *code = s3_element(resp, "Error/Code");
	AUTO_FREE char *why = s3_element(resp, "Error/Message");
	AUTO_FREE char *region = http_header(resp, "x-amz-bucket-region");

	v->after_ms = http_retry_after_ms(resp);
	v->most_tries = 0;
	make_printable(why);
	for (size_t i = 0; code && i < ARRAY_SIZE(answers); i++) {
		const char *cure = answers[i].cure;

		if (strcmp(answers[i].code, code) != 0)
			continue;
		v->can_retry = answers[i].can_retry;
		/* A server that keeps folders says ENOTDIR of a new object, too, while
		 * another call makes its folder. */
		v->most_tries = answers[i].error == ENOTDIR ? FOLDER_TRIES : 0;
		return error_set(err, answers[i].error, "%s: %s (%s)%s%s",
				 s->origin, why ? why : "", code, cure,
				 region && answers[i].error == EINVAL ? region
								      : "");
	}
	if (!code || !why)
		return judge_status(s, resp, v, err);
	make_printable(code);
	v->can_retry = resp->status >= 500 || resp->status / 100 == 2;
	return error_set(err, resp->status == 403 ? EACCES : EIO,
			 "%s answered %ld: %s (%s)", s->origin, resp->status,
			 why, code);
}

/* Is a failure without an answer one that may pass? */
static bool s3_error_may_pass(int rc)
{
	return rc == -ETIMEDOUT || rc == -EIO || rc == -ECONNREFUSED;
}

/* ------------------------------------------------------------------- sending --- */

/* All headers of one request, and what has to live as long. */
struct s3_message {
	struct s3_credentials who;
	struct buf url, path,
		lines; /* lines: "name: value", each with its NUL */
	char time[S3_TIME_MAX];
	char hash[65];
	const char *headers[S3_HEADERS_MAX + 8];
};

static void message_fini(struct s3_message *m)
{
	s3_credentials_fini(&m->who);
	buf_fini(&m->url);
	buf_fini(&m->path);
	buf_fini(&m->lines);
}

static int make_url(const struct s3_store *s, const struct s3_request *r,
		    struct s3_message *m, struct error *err)
{
	AUTO_BUF key = BUF_INIT;
	int rc = buf_puts(&m->path, s->bucket_path);

	if (rc == 0)
		rc = buf_puts(&m->path, "/");
	if (rc == 0 && r->name)
		rc = s3_key(s, r->name, &key, err);
	if (rc == 0 && r->name)
		rc = store_url_encode(&m->path, key.data, "/");
	if (rc == 0)
		rc = buf_printf(&m->url, "%s%s%s%s", s->origin, m->path.data,
				r->query ? "?" : "", r->query ? r->query : "");
	return rc < 0 ? error_nomem(err) : 0;
}

static int compare_headers(const void *a, const void *b)
{
	return strcmp(((const struct s3_header *)a)->name,
		      ((const struct s3_header *)b)->name);
}

static void make_time(char ret[S3_TIME_MAX])
{
	time_t now = time(NULL);
	struct tm tm;

	(void)gmtime_r(&now, &tm);
	(void)strftime(ret, S3_TIME_MAX, "%Y%m%dT%H%M%SZ", &tm);
}

/* The headers that are signed, and the signature. */
static int sign_request(const struct s3_store *s, const struct s3_request *r,
			struct s3_message *m, struct buf *ret,
			struct error *err)
{
	struct s3_header signed_headers[S3_HEADERS_MAX + 4] = {
		{ "host", s->host },
		{ "x-amz-content-sha256", m->hash },
		{ "x-amz-date", m->time },
	};
	struct s3_signing g = {
		.key_id = m->who.key_id,
		.secret = m->who.secret,
		.region = s->region,
		.service = "s3",
		.time = m->time,
		.method = r->method,
		.path = m->path.data,
		.query = r->query ? r->query : "",
		.headers = signed_headers,
		.n_headers = 3,
		.payload = m->hash,
	};

	if (m->who.token)
		signed_headers[g.n_headers++] =
			(struct s3_header){ "x-amz-security-token",
					    m->who.token };
	for (size_t i = 0; i < r->n_headers; i++)
		if (strncmp(r->headers[i].name, "x-amz-", 6) == 0)
			signed_headers[g.n_headers++] = r->headers[i];
	qsort(signed_headers, g.n_headers, sizeof(signed_headers[0]),
	      compare_headers);
	return s3_sign(&g, ret) < 0 ? error_nomem(err) : 0;
}

static int add_header_line(struct s3_message *m, const char *name,
			   const char *value)
{
	int rc = buf_printf(&m->lines, "%s: %s", name, value);

	return rc < 0 ? rc : buf_append(&m->lines, "", 1);
}

static int make_header_lines(const struct s3_store *s,
			     const struct s3_request *r, struct s3_message *m,
			     struct error *err)
{
	AUTO_BUF signature = BUF_INIT;
	size_t n = 0;
	int rc = 0;

	for (size_t i = 0; i < r->n_headers && rc == 0; i++)
		rc = add_header_line(m, r->headers[i].name,
				     r->headers[i].value);
	if (s->login && rc == 0) {
		rc = sign_request(s, r, m, &signature, err);
		if (rc == 0)
			rc = add_header_line(m, "x-amz-content-sha256",
					     m->hash);
		if (rc == 0)
			rc = add_header_line(m, "x-amz-date", m->time);
		if (rc == 0 && m->who.token)
			rc = add_header_line(m, "x-amz-security-token",
					     m->who.token);
		if (rc == 0)
			rc = add_header_line(m, "Authorization",
					     signature.data);
	}
	if (rc < 0)
		return error_nomem(err);
	for (size_t at = 0; at < m->lines.len;
	     at += strlen(m->lines.data + at) + 1)
		m->headers[n++] = m->lines.data + at;
	m->headers[n] = NULL;
	return 0;
}

static int prepare_message(struct s3_store *s, const struct s3_request *r,
			   int64_t until_ns, struct s3_message *m,
			   struct error *err)
{
	int rc = 0;

	if (s->login)
		rc = s3_login_get(s->login, until_ns, &m->who, err);
	if (rc < 0)
		return rc;
	make_time(m->time);
	/* The hash of large bodies costs more than all else; their CRC-32C
	 * is among the signed headers. */
	if (r->body_len && !r->is_hashed)
		memcpy(m->hash, S3_UNSIGNED, sizeof(S3_UNSIGNED));
	else if (s3_hash(r->body_len ? r->body : "", r->body_len, m->hash) < 0)
		return error_nomem(err);
	rc = make_url(s, r, m, err);
	return rc < 0 ? rc : make_header_lines(s, r, m, err);
}

/* Some answers are good by their status and bad by their body. */
static bool is_error_body(const struct http_response *resp)
{
	return resp->body.len && memmem(resp->body.data, resp->body.len,
					"<Error>", strlen("<Error>"));
}

struct s3_whole_sink {
	struct http_sink base;
	struct buf *to;
	size_t max;
};

static int append_body_to_buffer(struct http_sink *base,
				 const struct http_response *resp,
				 const void *data, size_t len,
				 struct error *err)
{
	struct s3_whole_sink *s =
		container_of(base, struct s3_whole_sink, base);

	(void)resp;
	if (len > s->max - s->to->len)
		return error_set(err, EFBIG, "it is longer than %zu bytes",
				 s->max);
	return buf_append(s->to, data, len) < 0 ? error_nomem(err) : 0;
}

int s3_try(struct s3_store *s, struct s3_request *r, struct http_response *resp,
	   struct retry_verdict *v, struct error *err)
{
	struct s3_message m = { .path = BUF_INIT };
	struct s3_whole_sink whole = { .base.put = append_body_to_buffer,
				       .to = r->whole,
				       .max = r->whole_max };
	struct http_sink *sink = r->whole ? &whole.base : r->sink;
	struct http_request req = {
		.method = r->method,
		.headers = m.headers,
		.body = r->body,
		.body_len = r->body_len,
		.stays = true,
		.sink = sink,
		.deadline_ns = r->deadline_ns,
		.pace = r->pace,
		.is_greedy = true,
	};
	int rc = prepare_message(s, r,
				 r->deadline_ns ? r->deadline_ns
						: store_deadline(&s->base),
				 &m, err);

	if (r->whole) /* an attempt before has left what came of it */
		buf_reset(r->whole);
	if (rc == 0) {
		req.url = m.url.data;
		rc = http_do(s->http, &req, resp, err);
		store_count_answer(&s->base, sink, r->body_len > 0,
				   resp->took_ns, resp->wait_ns);
		if (rc < 0) {
			v->can_retry = s3_error_may_pass(rc);
			rc = error_wrap(err, rc, "%s", s->origin);
		} else if (resp->status / 100 != 2 || is_error_body(resp)) {
			rc = judge_answer(s, resp, v, err);
		}
		if (rc == -EACCES && v->can_retry && s->login)
			s3_login_expire(s->login, m.who.key_id);
		else if (rc == -EACCES && s->login && m.who.key_id)
			v->can_retry = s3_login_renew(s->login, &m.who);
	}
	message_fini(&m);
	return rc;
}

int s3_call(struct s3_store *s, struct s3_request *r,
	    struct http_response *resp, struct error *err)
{
	struct retry_budget retry;

	retry_init(&retry, &s->base, r->deadline_ns);
	if (!r->deadline_ns && r->body_len < S3_PART / 2)
		r->deadline_ns = retry_until(&retry);
	for (;;) {
		struct retry_verdict v = { .can_retry = false };
		int rc;

		atomic_fetch_add(&s->base.count.n_requests, 1);
		rc = s3_try(s, r, resp, &v, err);
		if (rc == 0 || !retry_again(&retry, &v, err))
			return rc;
	}
}

int s3_stat_fill(const struct http_response *resp, struct object_stat *ret,
		 struct error *err)
{
	AUTO_FREE char *tag = http_header(resp, "etag");
	AUTO_FREE char *size = http_header(resp, "content-length");
	AUTO_FREE char *date = http_header(resp, "last-modified");
	char *end = NULL;

	if (!tag || !*tag || strlen(tag) >= OBJECT_TAG_MAX || !size ||
	    !isdigit((unsigned char)*size))
		return error_set(err, EPROTO,
				 "the answer has no ETag or Content-Length: is "
				 "it an S3 server?");
	errno = 0;
	ret->size = strtoull(size, &end, 10);
	if (errno || *end)
		return error_set(err, EPROTO, "'%.40s' is no Content-Length",
				 size);
	ret->modified_ms = date ? http_date_ms(date) : -1;
	memcpy(ret->tag, tag, strlen(tag) + 1);
	return 0;
}
