// SPDX-License-Identifier: Apache-2.0
/*
 * Makes requests with libcurl; http_error.c explains its failures. Each request takes a
 * connection from a stack: the last one used is taken first, as it is most likely still open.
 */
#include "net/http.h"

#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fs.h"
#include "net/http_flow.h"
#include "net/http_priv.h"
#include "net/traffic.h"

#define RECEIVE_BUFFER (256L << 10)
#define SEND_BUFFER (256L << 10)
#define MAX_IDLE 8
#define RETRY_AFTER_MAX_MS (UINT64_C(24) * 3600 * 1000)

/* Bulk transfers narrow the window of a connection, so urgent requests use other
 * connections. */
enum conn_class { CONN_URGENT, CONN_BULK, N_CLASSES };

struct http {
	struct http_config cfg;
	char *ca_file, *more_ca, *cert_file, *key_file;
	CURLSH *share; /* names and TLS sessions, for all handles */
	pthread_mutex_t share_lock[CURL_LOCK_DATA_LAST];

	pthread_mutex_t lock;              /* protects idle */
	struct http_conn *idle[N_CLASSES]; /* most recently used first */
	unsigned int n_idle[N_CLASSES];
};

/* A connection that can be reused, with its libcurl handles. */
struct http_conn {
	struct http_conn *next;
	CURL *easy;
	CURLM *multi; /* owns the connection */
	struct http_flow flow;
	unsigned int dscp;
};

/* A request that is running. */
struct exchange {
	const struct http *client;
	const struct http_request *req;
	struct http_conn *conn;
	struct http_response *r;
	struct error *err;
	int rc;         /* error of a callback: takes precedence over curl's */
	bool stopped;   /* the sink has all it wants */
	uint64_t sent;  /* bytes of the body read for sending */
	uint64_t moved; /* bytes in both directions at `moved_ns` */
	int64_t moved_ns;
	/* bytes in both directions when the window began */
	uint64_t window_moved;
	/* begin of the window in which least_rate is checked */
	int64_t window_ns;
	/* when the last byte of the request was sent, and the first of the answer came; 0:
	 * not yet */
	int64_t sent_ns, answered_ns;
};

/* --------------------------------------------------------------- response --- */

void http_response_fini(struct http_response *r)
{
	buf_fini(&r->headers);
	buf_fini(&r->body);
	free(r->url);
	free(r->referer);
	r->url = r->referer = NULL;
	r->status = 0;
}

char *http_header(const struct http_response *r, const char *name)
{
	size_t len = strlen(name);
	AUTO_BUF all = BUF_INIT;

	for (size_t at = 0; at < r->headers.len;) {
		const char *line = r->headers.data + at;
		const char *value;

		at += strlen(line) + 1;
		if (strncasecmp(line, name, len) != 0 || line[len] != ':')
			continue;
		value = line + len + 1;
		value += strspn(value, " \t");
		if (buf_printf(&all, "%s%s", all.data ? ", " : "", value) < 0)
			return NULL;
	}
	return all.data ? buf_steal(&all) : NULL;
}

int64_t http_date_ms(const char *text)
{
	time_t t = curl_getdate(text, NULL);

	return t == (time_t)-1 ? -1 : (int64_t)t * 1000;
}

struct http_refusal http_refusal_of(const struct http_refusal *v, size_t n,
				    long status)
{
	for (size_t i = 0; i < n; i++)
		if (v[i].status == status)
			return v[i];
	return (struct http_refusal){ status, EIO, "" };
}

uint64_t http_retry_after_ms(const struct http_response *r)
{
	AUTO_FREE char *after = http_header(r, "retry-after");
	AUTO_FREE char *date = NULL;
	int64_t until_ms, now_ms;
	uint64_t ms;

	if (!after)
		return 0;
	if (isdigit((unsigned char)*after)) {
		ms = strtoull(after, NULL, 10);
		ms = ms < RETRY_AFTER_MAX_MS ? ms * 1000 : RETRY_AFTER_MAX_MS;
	} else {
		date = http_header(r, "date");
		until_ms = http_date_ms(after);
		now_ms = date ? http_date_ms(date) : -1;
		if (now_ms < 0)
			now_ms = clock_wall_ns() / NS_PER_MS;
		ms = until_ms > now_ms ? (uint64_t)(until_ms - now_ms) : 0;
	}
	return ms < RETRY_AFTER_MAX_MS ? ms : RETRY_AFTER_MAX_MS;
}

/* A status line begins an answer; a chain of redirects has several. */
static void start_answer(struct exchange *x, const char *line, size_t len)
{
	const char *space = memchr(line, ' ', len);

	x->answered_ns = clock_now_ns();
	buf_reset(&x->r->headers);
	buf_reset(&x->r->body);
	x->r->status = 0;
	for (size_t i = 1; space && i <= 3 && space + i < line + len; i++)
		if (isdigit((unsigned char)space[i]))
			x->r->status = x->r->status * 10 + (space[i] - '0');
}

static size_t on_header(char *data, size_t unit, size_t n, void *arg)
{
	struct exchange *x = arg;
	size_t len = unit * n;
	size_t all = len;

	if (len > 5 && strncmp(data, "HTTP/", 5) == 0) {
		start_answer(x, data, len);
		return all;
	}
	while (len && strchr("\r\n \t", data[len - 1]))
		len--;
	if (len == 0 || memchr(data, '\0', len))
		return all;
	if (x->r->headers.len + len + 1 > HTTP_HEADERS_MAX) {
		x->rc = error_set(x->err, EFBIG,
				  "the answer's headers are too long");
		return 0;
	}
	if (buf_append(&x->r->headers, data, len) < 0 ||
	    buf_append(&x->r->headers, "", 1) < 0) {
		x->rc = error_nomem(x->err);
		return 0;
	}
	return all;
}

static size_t append_response_body(struct exchange *x, const char *data,
				   size_t len)
{
	bool good = x->r->status / 100 == 2;
	size_t max = good ? HTTP_BODY_MAX : HTTP_ERROR_BODY_MAX;
	size_t room = max - x->r->body.len;
	size_t n = len < room ? len : room;

	if (n && buf_append(&x->r->body, data, n) < 0) {
		x->rc = error_nomem(x->err);
		return 0;
	}
	if (n == len)
		return len;
	if (good)
		x->rc = error_set(x->err, EFBIG,
				  "the answer is longer than %zu bytes", max);
	else
		x->stopped = true; /* an error page: its start is enough */
	return 0;
}

static size_t on_body(char *data, size_t unit, size_t n, void *arg)
{
	struct exchange *x = arg;
	size_t len = unit * n;
	int rc;

	if (!x->req->sink || x->r->status / 100 != 2)
		return append_response_body(x, data, len);
	if (x->req->pace && !x->req->is_greedy)
		http_flow_took(&x->conn->flow, len, x->req->pace);
	rc = x->req->sink->put(x->req->sink, x->r, data, len, x->err);
	if (rc == 0)
		return len;
	if (rc == HTTP_STOP)
		x->stopped = true;
	else
		x->rc = rc;
	return 0;
}

/* ---------------------------------------------------------------- request --- */

static size_t on_send(char *data, size_t unit, size_t n, void *arg)
{
	struct exchange *x = arg;
	const struct http_request *req = x->req;
	uint64_t left = req->body_len - x->sent;
	size_t len = unit * n < left ? unit * n : (size_t)left;
	int rc = 0;

	if (req->body)
		memcpy(data, (const char *)req->body + x->sent, len);
	else if (len)
		rc = fs_pread_full(req->body_fd, data, len,
				   req->body_off + x->sent);
	if (rc < 0) {
		x->rc = error_errno(x->err, -rc, "read what is to be sent");
		return CURL_READFUNC_ABORT;
	}
	x->sent += len;
	if (x->sent == req->body_len)
		x->sent_ns = clock_now_ns();
	if (req->sent && req->sent(req->sent_arg, x->sent)) {
		x->rc = error_set(x->err, ECANCELED, "cancelled");
		return CURL_READFUNC_ABORT;
	}
	return len;
}

/* A redirect, or a kept connection that was closed: send the body again from its start. */
static int on_seek(void *arg, curl_off_t off, int origin)
{
	struct exchange *x = arg;

	if (origin != SEEK_SET || off < 0 || (uint64_t)off > x->req->body_len)
		return CURL_SEEKFUNC_FAIL;
	x->sent = (uint64_t)off;
	return CURL_SEEKFUNC_OK;
}

static bool is_bulk(const struct http_request *req)
{
	return req->pace && !req->pace->is_urgent;
}

/* Was the transfer below the least rate in the window that ends now? */
static bool is_too_slow(struct exchange *x, uint64_t moved, int64_t now)
{
	const struct http_config *cfg = &x->client->cfg;
	uint64_t least = cfg->least_rate * cfg->stall_timeout_ms / 1000;
	bool slow;

	if (!least || is_bulk(x->req) ||
	    now - x->window_ns < (int64_t)cfg->stall_timeout_ms * 1000000)
		return false;
	slow = moved - x->window_moved < least;
	x->window_ns = now;
	x->window_moved = moved;
	return slow;
}

/* Note that the server made progress; answers 429 and 5xx do not count. */
static void http_heard(const struct exchange *x, int64_t now)
{
	atomic_int_fast64_t *at = x->client->cfg.heard_ns;

	if (at && x->r->status != 429 && x->r->status < 500)
		atomic_store(at, now);
}

static int on_progress(void *arg, curl_off_t dl_total, curl_off_t dl,
		       curl_off_t ul_total, curl_off_t ul)
{
	struct exchange *x = arg;
	uint64_t moved = (uint64_t)dl + (uint64_t)ul;
	int64_t now = clock_now_ns();
	int64_t stall_ms = x->client->cfg.stall_timeout_ms;

	(void)dl_total;
	(void)ul_total;
	if (moved != x->moved) {
		x->moved = moved;
		x->moved_ns = now;
		http_heard(x, now);
	} else if (x->req->silent) {
		x->req->silent(x->req->silent_arg,
			       (now - x->moved_ns) / 1000000);
	}
	if (stall_ms && now - x->moved_ns > stall_ms * 1000000) {
		x->rc = error_set(x->err, ETIMEDOUT,
				  "no byte for %lld ms: the transfer hangs",
				  (long long)stall_ms);
		return 1;
	}
	if (is_too_slow(x, moved, now)) {
		x->rc = error_set(x->err, ETIMEDOUT,
				  "less than %llu bytes a second for %lld ms: "
				  "the transfer is too slow",
				  (unsigned long long)x->client->cfg.least_rate,
				  (long long)stall_ms);
		return 1;
	}
	return 0;
}

/* ----------------------------------------------------------------- client --- */

static void share_lock(CURL *h, curl_lock_data what, curl_lock_access access,
		       void *arg)
{
	struct http *c = arg;

	(void)h;
	(void)access;
	(void)pthread_mutex_lock(&c->share_lock[what]);
}

static void share_unlock(CURL *h, curl_lock_data what, void *arg)
{
	struct http *c = arg;

	(void)h;
	(void)pthread_mutex_unlock(&c->share_lock[what]);
}

static void init_curl(void)
{
	(void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

static bool copy_text(char **ret, const char *text)
{
	*ret = text ? strdup(text) : NULL;
	return *ret || !text;
}

/* Find the certificate authorities that this machine trusts. libcurl only knows the file of
 * the distribution on which it was built, and this program also runs on others. */
static const char *find_system_ca(void)
{
	static const char *const files[] = {
		"/etc/ssl/certs/ca-certificates.crt", /* Debian, Arch */
		"/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora, RHEL */
		"/etc/ssl/ca-bundle.pem",             /* SUSE */
		"/etc/ssl/cert.pem",                  /* Alpine */
	};

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (access(files[i], R_OK) == 0)
			return files[i];
	return NULL;
}

int http_new(const struct http_config *cfg, struct http **ret,
	     struct error *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct http *c = calloc(1, sizeof(*c));

	(void)pthread_once(&once, init_curl);
	if (!c)
		return error_nomem(err);
	c->cfg = *cfg;
	if (!c->cfg.max_idle)
		c->cfg.max_idle = MAX_IDLE;
	(void)pthread_mutex_init(&c->lock, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(c->share_lock); i++)
		(void)pthread_mutex_init(&c->share_lock[i], NULL);
	c->share = curl_share_init();
	if (!c->share ||
	    !copy_text(&c->ca_file,
		       cfg->ca_file ? cfg->ca_file : find_system_ca()) ||
	    !copy_text(&c->more_ca, cfg->more_ca) ||
	    !copy_text(&c->cert_file, cfg->cert_file) ||
	    !copy_text(&c->key_file, cfg->key_file)) {
		http_free(c);
		return error_nomem(err);
	}
	(void)curl_share_setopt(c->share, CURLSHOPT_LOCKFUNC, share_lock);
	(void)curl_share_setopt(c->share, CURLSHOPT_UNLOCKFUNC, share_unlock);
	(void)curl_share_setopt(c->share, CURLSHOPT_USERDATA, c);
	(void)curl_share_setopt(c->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_DNS);
	(void)curl_share_setopt(c->share, CURLSHOPT_SHARE,
				CURL_LOCK_DATA_SSL_SESSION);
	*ret = c;
	return 0;
}

static void conn_free(struct http_conn *conn)
{
	if (conn->easy)
		curl_easy_cleanup(conn->easy);
	if (conn->multi)
		(void)curl_multi_cleanup(conn->multi);
	free(conn);
}

static struct http_conn *conn_new(void)
{
	struct http_conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		return NULL;
	conn->flow = (struct http_flow)HTTP_FLOW_INIT;
	conn->easy = curl_easy_init();
	conn->multi = curl_multi_init();
	if (conn->easy && conn->multi)
		return conn;
	conn_free(conn);
	return NULL;
}

void http_free(struct http *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < N_CLASSES; i++) {
		struct http_conn *conn = c->idle[i], *next;

		for (; conn; conn = next) {
			next = conn->next;
			conn_free(conn);
		}
	}
	if (c->share)
		(void)curl_share_cleanup(c->share);
	for (size_t i = 0; i < ARRAY_SIZE(c->share_lock); i++)
		(void)pthread_mutex_destroy(&c->share_lock[i]);
	(void)pthread_mutex_destroy(&c->lock);
	free(c->ca_file);
	free(c->more_ca);
	free(c->cert_file);
	free(c->key_file);
	free(c);
}

static enum conn_class conn_class_of_request(const struct http_request *req)
{
	return is_bulk(req) ? CONN_BULK : CONN_URGENT;
}

static struct http_conn *take_conn_from_pool(struct http *c,
					     enum conn_class class)
{
	struct http_conn *conn;

	(void)pthread_mutex_lock(&c->lock);
	conn = c->idle[class];
	if (conn) {
		c->idle[class] = conn->next;
		c->n_idle[class]--;
	}
	(void)pthread_mutex_unlock(&c->lock);
	return conn ? conn : conn_new();
}

static void return_conn_to_pool(struct http *c, enum conn_class class,
				struct http_conn *conn)
{
	curl_easy_reset(conn->easy);
	http_flow_pause(&conn->flow);
	(void)pthread_mutex_lock(&c->lock);
	if (c->n_idle[class] < c->cfg.max_idle) {
		conn->next = c->idle[class];
		c->idle[class] = conn;
		c->n_idle[class]++;
		conn = NULL;
	}
	(void)pthread_mutex_unlock(&c->lock);
	if (conn)
		conn_free(conn);
}

/* ---------------------------------------------------------------- perform --- */

static void set_limits(CURL *h, const struct exchange *x)
{
	const struct http_config *cfg = &x->client->cfg;
	const char *schemes = cfg->allow_plain ? "http,https" : "https";

	(void)curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, schemes);
	(void)curl_easy_setopt(h, CURLOPT_REDIR_PROTOCOLS_STR, schemes);
	(void)curl_easy_setopt(h, CURLOPT_FOLLOWLOCATION,
			       cfg->stays || x->req->stays ? 0L : 1L);
	if (cfg->is_direct)
		(void)curl_easy_setopt(h, CURLOPT_NOPROXY, "*");
	(void)curl_easy_setopt(h, CURLOPT_MAXREDIRS, (long)HTTP_REDIRECTS_MAX);
	(void)curl_easy_setopt(h, CURLOPT_AUTOREFERER,
			       cfg->tells_referer ? 1L : 0L);
	(void)curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS,
			       (long)cfg->connect_timeout_ms);
	(void)curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
	/* Do not wait for libcurl's thread that looks up a name: that could take as long as
	 * DNS does, whatever the deadline. */
	(void)curl_easy_setopt(h, CURLOPT_QUICK_EXIT, 1L);
	(void)curl_easy_setopt(h, CURLOPT_TCP_KEEPALIVE, 1L);
	(void)curl_easy_setopt(h, CURLOPT_HTTP_VERSION,
			       (long)CURL_HTTP_VERSION_1_1);
	(void)curl_easy_setopt(h, CURLOPT_BUFFERSIZE, RECEIVE_BUFFER);
	(void)curl_easy_setopt(h, CURLOPT_USERAGENT,
			       "bootseer/" BOOTSEER_VERSION);
	(void)curl_easy_setopt(h, CURLOPT_SHARE, x->client->share);
	(void)curl_easy_setopt(h, CURLOPT_SSL_CTX_FUNCTION, http_tls_prepare);
	(void)curl_easy_setopt(h, CURLOPT_SSL_CTX_DATA, x->client->more_ca);
	if (cfg->is_unverified) {
		(void)curl_easy_setopt(h, CURLOPT_SSL_VERIFYPEER, 0L);
		(void)curl_easy_setopt(h, CURLOPT_SSL_VERIFYHOST, 0L);
	}
	if (x->client->ca_file)
		(void)curl_easy_setopt(h, CURLOPT_CAINFO, x->client->ca_file);
	if (x->client->cert_file) {
		(void)curl_easy_setopt(h, CURLOPT_SSLCERT,
				       x->client->cert_file);
		(void)curl_easy_setopt(h, CURLOPT_SSLKEY, x->client->key_file);
	}
}

/* A handle opens several sockets while it follows redirects: the last one brings the bytes. */
static curl_socket_t on_open(void *arg, curlsocktype purpose,
			     struct curl_sockaddr *to)
{
	struct http_conn *conn = arg;
	int fd = socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);

	(void)purpose;
	if (fd < 0)
		return fd;
	traffic_mark(fd, conn->dscp);
	http_flow_use(&conn->flow, fd);
	return fd;
}

static int on_close(void *arg, curl_socket_t fd)
{
	struct http_conn *conn = arg;

	if (fd == conn->flow.fd)
		http_flow_use(&conn->flow, -1);
	return close(fd);
}

static void set_callbacks(CURL *h, struct exchange *x)
{
	(void)curl_easy_setopt(h, CURLOPT_HEADERFUNCTION, on_header);
	(void)curl_easy_setopt(h, CURLOPT_HEADERDATA, x);
	(void)curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, on_body);
	(void)curl_easy_setopt(h, CURLOPT_WRITEDATA, x);
	(void)curl_easy_setopt(h, CURLOPT_NOPROGRESS, 0L);
	(void)curl_easy_setopt(h, CURLOPT_XFERINFOFUNCTION, on_progress);
	(void)curl_easy_setopt(h, CURLOPT_XFERINFODATA, x);
	x->conn->dscp = x->client->cfg.dscp;
	(void)curl_easy_setopt(h, CURLOPT_OPENSOCKETFUNCTION, on_open);
	(void)curl_easy_setopt(h, CURLOPT_OPENSOCKETDATA, x->conn);
	(void)curl_easy_setopt(h, CURLOPT_CLOSESOCKETFUNCTION, on_close);
	(void)curl_easy_setopt(h, CURLOPT_CLOSESOCKETDATA, x->conn);
}

static bool has_body(const char *method)
{
	return strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0 ||
	       strcmp(method, "PATCH") == 0;
}

static void set_method(CURL *h, struct exchange *x)
{
	const struct http_request *req = x->req;

	if (strcmp(req->method, "HEAD") == 0) {
		(void)curl_easy_setopt(h, CURLOPT_NOBODY, 1L);
		return;
	}
	if (strcmp(req->method, "GET") == 0)
		return;
	if (has_body(req->method)) {
		(void)curl_easy_setopt(h, CURLOPT_UPLOAD, 1L);
		(void)curl_easy_setopt(h, CURLOPT_UPLOAD_BUFFERSIZE,
				       SEND_BUFFER);
		(void)curl_easy_setopt(h, CURLOPT_INFILESIZE_LARGE,
				       (curl_off_t)req->body_len);
		(void)curl_easy_setopt(h, CURLOPT_READFUNCTION, on_send);
		(void)curl_easy_setopt(h, CURLOPT_READDATA, x);
		(void)curl_easy_setopt(h, CURLOPT_SEEKFUNCTION, on_seek);
		(void)curl_easy_setopt(h, CURLOPT_SEEKDATA, x);
	}
	(void)curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, req->method);
}

/* The caller's headers; NULL when memory is short. "Expect: 100-continue" is switched off,
 * since it costs a round trip, or a second with old servers. */
static struct curl_slist *make_headers(const struct http_request *req)
{
	struct curl_slist *list = curl_slist_append(NULL, "Expect:");

	for (size_t i = 0; list && req->headers && req->headers[i]; i++) {
		struct curl_slist *more =
			curl_slist_append(list, req->headers[i]);

		if (!more)
			curl_slist_free_all(list);
		list = more;
	}
	return list;
}

/* Log in by Kerberos. The ticket cache holds the identity; libcurl needs some user name
 * nevertheless. */
static void set_login(CURL *h, const struct http_request *req)
{
	if (!req->negotiates)
		return;
	(void)curl_easy_setopt(h, CURLOPT_HTTPAUTH, CURLAUTH_NEGOTIATE);
	(void)curl_easy_setopt(h, CURLOPT_USERPWD, ":");
	(void)curl_easy_setopt(h, CURLOPT_COOKIEFILE, "");
}

static int set_redirected_url(CURL *h, struct http_response *r,
			      struct error *err)
{
	char *url = NULL, *referer = NULL;
	long n = 0;

	(void)curl_easy_getinfo(h, CURLINFO_REDIRECT_COUNT, &n);
	if (n == 0 ||
	    curl_easy_getinfo(h, CURLINFO_EFFECTIVE_URL, &url) != CURLE_OK)
		return 0;
	(void)curl_easy_getinfo(h, CURLINFO_REFERER, &referer);
	return copy_text(&r->url, url) && copy_text(&r->referer, referer)
		       ? 0
		       : error_nomem(err);
}

/* Is there a connection to the server or its proxy? The TLS handshake, which takes more
 * round trips, need not be done. */
static bool is_connected(CURL *h)
{
	curl_off_t connect_us = 0, ready_us = 0;

	/* A reused connection reports only the second time. */
	(void)curl_easy_getinfo(h, CURLINFO_CONNECT_TIME_T, &connect_us);
	(void)curl_easy_getinfo(h, CURLINFO_PRETRANSFER_TIME_T, &ready_us);
	return connect_us || ready_us;
}

/* Has the request no connection after its reach_ms? */
static bool is_out_of_reach(struct exchange *x, int64_t begun_ns)
{
	int64_t reach_ns = x->req->reach_ms * NS_PER_MS;

	if (!reach_ns || clock_now_ns() - begun_ns < reach_ns ||
	    is_connected(x->conn->easy))
		return false;
	x->rc = error_set(x->err, ETIMEDOUT, "no connection within %u ms",
			  x->req->reach_ms);
	return true;
}

/* As curl_easy_perform(), but also watches x->req->pace. */
static CURLcode http_perform(struct exchange *x, int64_t begun_ns)
{
	bool is_watched = x->req->pace || x->req->reach_ms;
	CURLM *multi = x->conn->multi;
	CURLcode code = CURLE_FAILED_INIT;
	const CURLMsg *msg;
	CURLMcode rc;
	int running = 1, n;

	rc = curl_multi_add_handle(multi, x->conn->easy);
	while (rc == CURLM_OK && running) {
		rc = curl_multi_perform(multi, &running);
		if (rc != CURLM_OK || !running)
			break;
		if (pace_level(x->req->pace) == PACE_STOP) {
			x->rc = error_set(x->err, ECANCELED,
					  "not wanted any more");
			break;
		}
		if (is_out_of_reach(x, begun_ns))
			break;
		rc = curl_multi_poll(multi, NULL, 0,
				     is_watched ? HTTP_STOP_MS : 1000, NULL);
	}
	while ((msg = curl_multi_info_read(multi, &n)))
		if (msg->msg == CURLMSG_DONE)
			code = msg->data.result;
	(void)curl_multi_remove_handle(multi, x->conn->easy);
	return rc == CURLM_OUT_OF_MEMORY ? CURLE_OUT_OF_MEMORY : code;
}

/* Note how long the request took, and how long it waited for the server. */
static void set_response_times(CURL *h, const struct exchange *x,
			       int64_t begun_ns)
{
	int64_t now = clock_now_ns(), sent = begun_ns, answered = now;
	curl_off_t ready_us = 0;

	if (curl_easy_getinfo(h, CURLINFO_PRETRANSFER_TIME_T, &ready_us) ==
	    CURLE_OK)
		sent += (int64_t)ready_us * 1000;
	/* There was no connection, so no time of the server. */
	if (!ready_us && !x->answered_ns)
		sent = now;
	if (x->sent_ns > sent)
		sent = x->sent_ns;
	if (x->answered_ns)
		answered = x->answered_ns;
	x->r->took_ns = now - begun_ns;
	x->r->wait_ns = answered > sent ? answered - sent : 0;
}

static bool is_refused(CURL *h, CURLcode code)
{
	long os_errno = 0;

	return code == CURLE_COULDNT_CONNECT &&
	       curl_easy_getinfo(h, CURLINFO_OS_ERRNO, &os_errno) == CURLE_OK &&
	       os_errno == ECONNREFUSED;
}

static int http_run(CURL *h, struct exchange *x)
{
	char why[CURL_ERROR_SIZE] = "";
	int64_t begun_ns = clock_now_ns();
	CURLcode code;

	(void)curl_easy_setopt(h, CURLOPT_ERRORBUFFER, why);
	if (x->req->deadline_ns) {
		int64_t left = x->req->deadline_ns - begun_ns;

		if (left <= 0)
			return error_set(x->err, ETIMEDOUT,
					 "the deadline is over");
		(void)curl_easy_setopt(h, CURLOPT_TIMEOUT_MS,
				       (long)(left / 1000000 + 1));
	}
	x->moved_ns = begun_ns;
	x->window_ns = begun_ns;
	code = http_perform(x, begun_ns);
	x->r->is_refused = is_refused(h, code);
	set_response_times(h, x, begun_ns);
	(void)curl_easy_setopt(h, CURLOPT_ERRORBUFFER, NULL);
	if (x->rc < 0)
		return x->rc;
	if (code != CURLE_OK && !x->stopped)
		return http_error(code, *why ? why : curl_easy_strerror(code),
				  strncasecmp(x->req->url, "http:", 5) == 0,
				  x->r->status != 0, x->client->cfg.cures,
				  x->err);
	http_heard(x, clock_now_ns());
	return set_redirected_url(h, x->r, x->err);
}

int http_do(struct http *c, const struct http_request *req,
	    struct http_response *r, struct error *err)
{
	struct exchange x = { .client = c, .req = req, .r = r, .err = err };
	enum conn_class class = conn_class_of_request(req);
	struct curl_slist *headers;
	struct http_conn *conn;
	CURL *h;
	int rc;

	free(r->url);
	free(r->referer);
	r->url = r->referer = NULL;
	r->status = 0;
	r->is_refused = false;
	r->took_ns = r->wait_ns = 0;
	buf_reset(&r->headers);
	buf_reset(&r->body);
	conn = take_conn_from_pool(c, class);
	headers = make_headers(req);
	if (!conn || !headers) {
		if (conn)
			return_conn_to_pool(c, class, conn);
		curl_slist_free_all(headers);
		return error_nomem(err);
	}
	x.conn = conn;
	h = conn->easy;
	set_limits(h, &x);
	set_callbacks(h, &x);
	set_method(h, &x);
	set_login(h, req);
	(void)curl_easy_setopt(h, CURLOPT_HTTPHEADER, headers);
	if (curl_easy_setopt(h, CURLOPT_URL, req->url) != CURLE_OK)
		rc = error_nomem(err);
	else
		rc = http_run(h, &x);
	return_conn_to_pool(c, class, conn);
	curl_slist_free_all(headers);
	return rc;
}
