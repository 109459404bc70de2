// SPDX-License-Identifier: Apache-2.0
#include "profiler/kube/kube.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/array.h"
#include "common/backoff.h"
#include "common/bounded_json.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/text.h"
#include "net/http.h"
#include "net/url.h"

#define TIMEOUT_MS 20000u /* of one try */
#define CONNECT_MS 5000u
#define TRIES 5
/* longest Retry-After of a server that is obeyed */
#define WISH_MAX_MS UINT64_C(30000)
#define VALUES_MAX (1u << 20)
#define NAME_MAX_LEN 253
#define REASON_MAX 200
#define HEADER_PREFIX "Authorization: Bearer "

static const struct backoff pauses = { .first_ms = 200, .most_ms = 3000 };

static const struct http_cures cures = {
	.plain = "the server's address in the kubeconfig with http://",
	.tls = "the server's address in the kubeconfig with https://",
	.ca = "certificate-authority-data of the kubeconfig",
	.ca_file = "certificate-authority of the kubeconfig",
	.proxy = HTTP_CURE_PROXY,
};

struct kube {
	struct http *http;
	char *server;
	struct buf authorization; /* the Authorization header; empty: none */
	char *token_file;
	int64_t deadline_ns, date_ms;
	int ca, cert, key; /* files in memory for the HTTP client; -1: none */
};

/* ---------------------------------------------------------------------- open --- */

/* Put a PEM text into a file in memory: the HTTP client reads certificates from files, and a file
 * in memory is visible to no other user and ends with this process. */
static int keep_pem(const char *pem, int *fd, struct error *err)
{
	size_t len = strlen(pem);

	*fd = memfd_create("pem", MFD_CLOEXEC);
	if (*fd < 0)
		return error_errno(err, errno, "memfd_create");
	if (write(*fd, pem, len) != (ssize_t)len)
		return error_set(err, EIO, "a certificate could not be kept");
	return 0;
}

static void pem_path(int fd, char out[32])
{
	(void)snprintf(out, 32, "/proc/self/fd/%d", fd);
}

static int check_server(const struct kube_config *cfg, struct error *err)
{
	struct url u = { .scheme = NULL };
	bool ok = url_is_http(cfg->server) && url_parse(cfg->server, &u) == 0 &&
		  !u.query && !u.has_fragment && !u.has_user;

	url_fini(&u);
	if (!ok)
		return error_set(err, EINVAL,
				 "'%s' is no address of an API server: wanted "
				 "is https://HOST[:PORT]",
				 cfg->server);
	if (!url_is_secret(cfg->server) && !url_is_loopback(cfg->server))
		return error_set(err, EINVAL,
				 "'%s' would get orders in the clear: the API "
				 "server of another machine has https://",
				 cfg->server);
	return 0;
}

static int open_http(struct kube *k, const struct kube_config *cfg,
		     struct error *err)
{
	char ca[32], cert[32], key[32];
	const struct http_config http = {
		.cures = &cures,
		.ca_file = cfg->ca ? ca : NULL,
		.is_unverified = cfg->is_unverified,
		.cert_file = cfg->cert ? cert : NULL,
		.key_file = cfg->cert ? key : NULL,
		.allow_plain = !url_is_secret(cfg->server),
		.stays = true,
		.is_direct = url_is_loopback(cfg->server),
		.connect_timeout_ms = CONNECT_MS,
		.stall_timeout_ms = TIMEOUT_MS,
	};
	int rc = cfg->ca ? keep_pem(cfg->ca, &k->ca, err) : 0;

	if (rc == 0 && cfg->cert)
		rc = keep_pem(cfg->cert, &k->cert, err);
	if (rc == 0 && cfg->cert)
		rc = keep_pem(cfg->key, &k->key, err);
	if (rc < 0)
		return rc;
	pem_path(k->ca, ca);
	pem_path(k->cert, cert);
	pem_path(k->key, key);
	return http_new(&http, &k->http, err);
}

/* Make the header for a token. Refuses a token with a line break, which would add a second
 * header. */
static int make_header(const char *token, size_t len, struct buf *ret,
		       struct error *err)
{
	while (len && isspace((unsigned char)token[len - 1]))
		len--;
	buf_reset(ret);
	if (buf_puts(ret, HEADER_PREFIX) < 0 || buf_append(ret, token, len) < 0)
		return error_nomem(err);
	if (!len ||
	    !text_is_word(ret->data + strlen(HEADER_PREFIX), KUBE_SECRET_MAX))
		return error_set(err, EINVAL,
				 "the token of the API server is none: wanted "
				 "is one word");
	return 0;
}

int kube_new(const struct kube_config *cfg, struct kube **ret,
	     struct error *err)
{
	AUTO(kube) k = NULL;
	size_t n = strlen(cfg->server);
	int rc = check_server(cfg, err);

	if (rc < 0)
		return rc;
	k = calloc(1, sizeof(*k));
	if (!k)
		return error_nomem(err);
	k->ca = k->cert = k->key = -1;
	k->authorization = (struct buf)BUF_SECRET_INIT;
	k->deadline_ns = cfg->deadline_ns;
	k->date_ms = -1;
	while (n && cfg->server[n - 1] == '/')
		n--;
	k->server = strndup(cfg->server, n);
	if (cfg->token_file)
		k->token_file = strdup(cfg->token_file);
	if (!k->server || (cfg->token_file && !k->token_file))
		return error_nomem(err);
	if (cfg->token)
		rc = make_header(cfg->token, strlen(cfg->token),
				 &k->authorization, err);
	if (rc == 0)
		rc = open_http(k, cfg, err);
	if (rc < 0)
		return rc;
	*ret = steal_ptr(&k);
	return 0;
}

void kube_free(struct kube *k)
{
	if (!k)
		return;
	http_free(k->http);
	buf_fini(&k->authorization);
	free(k->server);
	free(k->token_file);
	for (size_t i = 0; i < 3; i++) {
		int fd = i == 0 ? k->ca : i == 1 ? k->cert : k->key;

		fd_close(fd);
	}
	free(k);
}

static const struct http_refusal refusals[] = {
	{ 400, EINVAL, "" },
	{ 401, EACCES, "; log in anew, the credentials are not taken" },
	{ 403, EACCES,
	  "; docs/analysis.md has the rights that this takes (Recovery)" },
	{ 404, ENOENT, "" },
	{ 409, EEXIST, "" },
	{ 422, EINVAL, "" },
	{ 429, EBUSY, "" },
	{ 500, EBUSY, "" },
	{ 502, EBUSY, "" },
	{ 503, EBUSY, "" },
	{ 504, EBUSY, "" },
};

/* Set the error from the server's answer (a Status object), with only printable characters. */
static int status_error(const struct kube *k, const struct http_response *r,
			struct error *err)
{
	const struct http_refusal refusal =
		http_refusal_of(refusals, ARRAY_SIZE(refusals), r->status);
	AUTO_JSON *answer = NULL;
	const char *words = NULL;
	char reason[REASON_MAX];

	if (bounded_json_load(r->body.data, r->body.len, "it", &answer, NULL) ==
	    0)
		words = json_string_value(json_object_get(answer, "message"));
	(void)snprintf(reason, sizeof(reason), "%s%s", words ? ": " : "",
		       words ? words : "");
	text_end_whole(reason);
	text_make_printable(reason);
	return error_set(err, refusal.code, "%s answered %ld%s%s", k->server,
			 r->status, reason, refusal.cure);
}

/* ---------------------------------------------------------------------- call --- */

static int read_token(struct kube *k, struct error *err)
{
	AUTO_BUF text = BUF_SECRET_INIT;
	int rc;

	if (!k->token_file)
		return 0;
	rc = fs_read_file(k->token_file, KUBE_SECRET_MAX, &text, err);
	return rc < 0 ? rc
		      : make_header(text.data ? text.data : "", text.len,
				    &k->authorization, err);
}

static void keep_date(struct kube *k, const struct http_response *r)
{
	AUTO_FREE char *date = http_header(r, "Date");
	int64_t ms = date ? http_date_ms(date) : -1;

	if (ms >= 0)
		k->date_ms = ms;
}

static int send_once(struct kube *k, const struct kube_call *c,
		     const struct buf *url, const char *body,
		     struct http_response *r, struct error *err)
{
	int64_t until_ns = clock_now_ns() + (int64_t)TIMEOUT_MS * NS_PER_MS;
	char type[96];
	const char *headers[] = { "Accept: application/json", NULL, NULL,
				  NULL };
	struct http_request req = {
		.method = c->method,
		.url = url->data,
		.headers = headers,
		.body = body,
		.body_len = body ? strlen(body) : 0,
		.stays = true,
		.deadline_ns =
			until_ns < k->deadline_ns ? until_ns : k->deadline_ns,
	};
	size_t n = 1;
	int rc = read_token(k, err);

	if (rc < 0)
		return rc;
	if (body) {
		(void)snprintf(type, sizeof(type), "Content-Type: %s", c->type);
		headers[n++] = type;
	}
	if (k->authorization.len)
		headers[n] = k->authorization.data;
	if (clock_now_ns() >= k->deadline_ns)
		return error_set(err, ETIMEDOUT,
				 "the time for all calls is over");
	rc = http_do(k->http, &req, r, err);
	if (rc < 0)
		return error_wrap(err, rc, "%s", k->server);
	keep_date(k, r);
	return r->status >= 200 && r->status < 300 ? 0
						   : status_error(k, r, err);
}

static bool is_passing(int rc)
{
	return rc == -EBUSY || rc == -EIO || rc == -ECONNREFUSED ||
	       rc == -ETIMEDOUT;
}

static int send_until_answered(struct kube *k, const struct kube_call *c,
			       const struct buf *url, const char *body,
			       struct http_response *r, struct error *err)
{
	int rc = -EIO;

	for (unsigned int i = 1; i <= TRIES; i++) {
		uint64_t wish;
		int64_t at_ns;

		rc = send_once(k, c, url, body, r, err);
		if (!is_passing(rc) || i == TRIES)
			break;
		wish = http_retry_after_ms(r);
		at_ns = clock_now_ns() +
			backoff_ns(&pauses, i,
				   wish < WISH_MAX_MS ? wish : WISH_MAX_MS);
		if (at_ns >= k->deadline_ns)
			break;
		(void)backoff_wait(at_ns, NULL);
	}
	return rc;
}

int kube_do(struct kube *k, const struct kube_call *c, json_t **ret,
	    struct error *err)
{
	AUTO_FINI(http_response) r = HTTP_RESPONSE_INIT;
	AUTO_FREE char *body = NULL;
	AUTO_BUF url = BUF_INIT;
	int rc = buf_printf(&url, "%s%s", k->server, c->path) < 0
			 ? error_nomem(err)
			 : 0;

	if (rc == 0 && c->body) {
		body = json_dumps(c->body, JSON_COMPACT);
		rc = body ? 0 : error_nomem(err);
	}
	if (rc == 0)
		rc = send_until_answered(k, c, &url, body, &r, err);
	if (rc == 0 && ret &&
	    bounded_json_load_large(r.body.data, r.body.len, VALUES_MAX, "it",
				    ret, NULL) < 0)
		rc = error_set(err, EBADMSG,
			       "%s: the answer is none of Kubernetes' API",
			       k->server);
	return rc;
}

int64_t kube_date_ms(const struct kube *k)
{
	return k->date_ms;
}

bool kube_is_name(const char *s)
{
	char before = '.';
	size_t len = strlen(s);

	for (size_t i = 0; i < len; i++) {
		bool is_edge = before == '.';
		bool is_plain = (s[i] >= 'a' && s[i] <= 'z') ||
				(s[i] >= '0' && s[i] <= '9');

		if (!is_plain && (is_edge || (s[i] != '-' && s[i] != '.') ||
				  (s[i] == '.' && before == '-')))
			return false;
		before = s[i];
	}
	return len && len <= NAME_MAX_LEN && before != '.' && before != '-';
}
