// SPDX-License-Identifier: Apache-2.0
/* The only file that knows libcurl. */
#include "common/http.h"

#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "common/fs.h"

#define IDLE_MAX 64 /* connections kept */
#define HEADERS_MAX 65536
#define ERROR_BODY_MAX 4096
#define REDIRECTS_MAX 5L
#define BUFFER_SIZE (256L * 1024)

struct handle {
	struct handle *next;
	CURL *curl;
};

struct http {
	pthread_mutex_t lock; /* idle, n_idle */
	struct handle *idle;
	size_t n_idle;
	char *ca_file;
	struct http_config cfg;
};

/* One request under way. */
struct transfer {
	CURL *curl;
	const struct http_request *req;
	struct http_response *resp;
	uint64_t sent;
	int rc; /* of the sink */
	struct error *err;
};

static pthread_once_t global_once = PTHREAD_ONCE_INIT;

static void global_init(void)
{
	(void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

int http_new(const struct http_config *cfg, struct http **ret,
	     struct error *err)
{
	struct http *h = calloc(1, sizeof(*h));

	if (!h)
		return error_nomem(err);
	(void)pthread_once(&global_once, global_init);
	h->cfg = *cfg;
	if (cfg->ca_file) {
		h->ca_file = strdup(cfg->ca_file);
		if (!h->ca_file) {
			free(h);
			return error_nomem(err);
		}
	}
	(void)pthread_mutex_init(&h->lock, NULL);
	*ret = h;
	return 0;
}

static void handle_free(struct handle *x)
{
	if (!x)
		return;
	curl_easy_cleanup(x->curl);
	free(x);
}

void http_free(struct http *h)
{
	if (!h)
		return;
	while (h->idle) {
		struct handle *x = h->idle;

		h->idle = x->next;
		handle_free(x);
	}
	(void)pthread_mutex_destroy(&h->lock);
	free(h->ca_file);
	free(h);
}

/* The one used last is taken first: its connection is the warmest. */
static struct handle *take_handle(struct http *h)
{
	struct handle *x;

	(void)pthread_mutex_lock(&h->lock);
	x = h->idle;
	if (x) {
		h->idle = x->next;
		h->n_idle--;
	}
	(void)pthread_mutex_unlock(&h->lock);
	if (x) {
		curl_easy_reset(x->curl);
		return x;
	}
	x = calloc(1, sizeof(*x));
	if (!x)
		return NULL;
	x->curl = curl_easy_init();
	if (!x->curl) {
		free(x);
		return NULL;
	}
	return x;
}

static void give_handle(struct http *h, struct handle *x)
{
	(void)pthread_mutex_lock(&h->lock);
	if (h->n_idle < IDLE_MAX) {
		x->next = h->idle;
		h->idle = x;
		h->n_idle++;
		x = NULL;
	}
	(void)pthread_mutex_unlock(&h->lock);
	handle_free(x);
}

void http_response_fini(struct http_response *r)
{
	buf_fini(&r->body);
	buf_fini(&r->headers);
}

char *http_header(const struct http_response *r, const char *name)
{
	size_t len = strlen(name);
	const char *line = r->headers.data;

	while (line && *line) {
		const char *end = strchr(line, '\n');

		if (strncmp(line, name, len) == 0 && line[len] == ':') {
			line += len + 1;
			line += strspn(line, " \t");
			return strndup(line, (size_t)(end - line));
		}
		line = end + 1;
	}
	return NULL;
}

static size_t on_header(char *data, size_t size, size_t n, void *arg)
{
	struct transfer *t = arg;
	struct buf *b = &t->resp->headers;
	size_t len = size * n, start = b->len;

	/* A new status line: the headers before were of a redirect. */
	if (len > 5 && memcmp(data, "HTTP/", 5) == 0) {
		buf_reset(b);
		return len;
	}
	while (len && isspace((unsigned char)data[len - 1]))
		len--;
	if (len == 0)
		return size * n;
	if (b->len + len > HEADERS_MAX || buf_append(b, data, len) < 0 ||
	    buf_append(b, "\n", 1) < 0)
		return 0;
	for (char *c = b->data + start; *c && *c != ':'; c++)
		*c = (char)tolower((unsigned char)*c);
	return size * n;
}

static size_t on_body(char *data, size_t size, size_t n, void *arg)
{
	struct transfer *t = arg;
	struct buf *b = &t->resp->body;
	size_t len = size * n;
	long status = 0;

	(void)curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
	if (status < 200 || status > 299) {
		if (b->len < ERROR_BODY_MAX && buf_append(b, data, len) < 0)
			return 0;
		return len;
	}
	if (t->req->sink) {
		t->rc = t->req->sink->put(t->req->sink, data, len, t->err);
		return t->rc < 0 ? 0 : len;
	}
	if (b->len + len > HTTP_BODY_MAX) {
		t->rc = error_set(t->err, EFBIG,
				  "the answer is longer than %u bytes",
				  HTTP_BODY_MAX);
		return 0;
	}
	return buf_append(b, data, len) < 0 ? 0 : len;
}

static size_t on_read(char *data, size_t size, size_t n, void *arg)
{
	struct transfer *t = arg;
	uint64_t left = t->req->body_len - t->sent;
	size_t len = size * n < left ? size * n : (size_t)left;

	if (len == 0)
		return 0;
	if (t->req->body)
		memcpy(data, (const char *)t->req->body + t->sent, len);
	else if (fs_pread_full(t->req->body_fd, data, len,
			       t->req->body_off + t->sent) < 0)
		return CURL_READFUNC_ABORT;
	t->sent += len;
	return len;
}

/* curl sends the body anew when a kept connection turns out to be dead. */
static int on_seek(void *arg, curl_off_t off, int origin)
{
	struct transfer *t = arg;

	if (origin != SEEK_SET || off < 0)
		return CURL_SEEKFUNC_CANTSEEK;
	t->sent = (uint64_t)off;
	return CURL_SEEKFUNC_OK;
}

static void set_limits(struct http *h, CURL *c)
{
	const char *schemes = h->cfg.allow_plain ? "http,https" : "https";
	long stall = (long)(h->cfg.stall_timeout_ms + 999) / 1000;

	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, schemes);
	curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, schemes);
	curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
	curl_easy_setopt(c, CURLOPT_MAXREDIRS, REDIRECTS_MAX);
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS,
			 (long)h->cfg.connect_timeout_ms);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, stall ? stall : 1L);
	curl_easy_setopt(c, CURLOPT_BUFFERSIZE, BUFFER_SIZE);
	curl_easy_setopt(c, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(c, CURLOPT_USERAGENT, "bootseer/" BOOTSEER_VERSION);
	if (h->ca_file)
		curl_easy_setopt(c, CURLOPT_CAINFO, h->ca_file);
}

static void set_request(CURL *c, struct transfer *t, struct curl_slist *headers)
{
	const struct http_request *req = t->req;

	curl_easy_setopt(c, CURLOPT_URL, req->url);
	curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(c, CURLOPT_HEADERDATA, t);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
	if (strcmp(req->method, "HEAD") == 0)
		curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
	else if (strcmp(req->method, "GET") != 0)
		curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, req->method);
	if (req->body_len) {
		curl_easy_setopt(c, CURLOPT_UPLOAD, 1L);
		curl_easy_setopt(c, CURLOPT_READFUNCTION, on_read);
		curl_easy_setopt(c, CURLOPT_READDATA, t);
		curl_easy_setopt(c, CURLOPT_SEEKFUNCTION, on_seek);
		curl_easy_setopt(c, CURLOPT_SEEKDATA, t);
		curl_easy_setopt(c, CURLOPT_INFILESIZE_LARGE,
				 (curl_off_t)req->body_len);
		curl_easy_setopt(c, CURLOPT_UPLOAD_BUFFERSIZE, BUFFER_SIZE);
		curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
	} else if (strcmp(req->method, "POST") == 0 ||
		   strcmp(req->method, "PUT") == 0 ||
		   strcmp(req->method, "PATCH") == 0) {
		curl_easy_setopt(c, CURLOPT_POSTFIELDS, "");
		curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE, 0L);
		curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
	}
}

static int code_of(CURLcode code)
{
	switch (code) {
	case CURLE_OPERATION_TIMEDOUT:
		return ETIMEDOUT;
	case CURLE_COULDNT_CONNECT:
		return ECONNREFUSED;
	case CURLE_COULDNT_RESOLVE_HOST:
		return EHOSTUNREACH;
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_UNSUPPORTED_PROTOCOL:
		return EPROTO;
	case CURLE_OUT_OF_MEMORY:
		return ENOMEM;
	default:
		return EIO;
	}
}

static int explain(struct http *h, const struct transfer *t, CURLcode code,
		   const char *detail, struct error *err)
{
	const char *cure = "";

	if (t->rc < 0)
		return t->rc;
	if (code == CURLE_SSL_CONNECT_ERROR && !h->cfg.allow_plain)
		cure = " (a registry without TLS needs --plain-http)";
	if (code == CURLE_PEER_FAILED_VERIFICATION)
		cure = " (give its authority with --ca-file)";
	return error_set(err, code_of(code), "%s %.200s: %s%s", t->req->method,
			 t->req->url,
			 *detail ? detail : curl_easy_strerror(code), cure);
}

static struct curl_slist *make_headers(const struct http_request *req)
{
	/* No "Expect: 100-continue": it costs a round trip. */
	struct curl_slist *list = curl_slist_append(NULL, "Expect:");

	for (size_t i = 0; list && req->headers && req->headers[i]; i++) {
		struct curl_slist *more =
			curl_slist_append(list, req->headers[i]);

		if (!more) {
			curl_slist_free_all(list);
			return NULL;
		}
		list = more;
	}
	return list;
}

int http_do(struct http *h, const struct http_request *req,
	    struct http_response *resp, struct error *err)
{
	struct transfer t = { .req = req, .resp = resp, .err = err };
	struct curl_slist *headers = make_headers(req);
	struct handle *x = headers ? take_handle(h) : NULL;
	char detail[CURL_ERROR_SIZE] = "";
	CURLcode code;
	int rc = 0;

	buf_reset(&resp->body);
	buf_reset(&resp->headers);
	if (!x) {
		curl_slist_free_all(headers);
		return error_nomem(err);
	}
	t.curl = x->curl;
	set_limits(h, x->curl);
	set_request(x->curl, &t, headers);
	curl_easy_setopt(x->curl, CURLOPT_ERRORBUFFER, detail);
	code = curl_easy_perform(x->curl);
	if (code != CURLE_OK)
		rc = explain(h, &t, code, detail, err);
	else
		curl_easy_getinfo(x->curl, CURLINFO_RESPONSE_CODE,
				  &resp->status);
	curl_easy_setopt(x->curl, CURLOPT_ERRORBUFFER, NULL);
	curl_slist_free_all(headers);
	if (code == CURLE_OK)
		give_handle(h, x);
	else
		handle_free(x);
	return rc;
}
