// SPDX-License-Identifier: Apache-2.0
/*
 * A registry that serves an OCI layout folder and misbehaves when told to.
 *
 *   fake-registry --dir LAYOUT --port-file FILE [--log FILE] [--heads FILE]
 *                 [--address ADDRESS]
 *
 * FILE (- is stdout) gets two numbers when it listens: the registry's port and the control
 * port on 127.0.0.1.  GET /set?NAME=VALUE&... on the control port switches a
 * fault (the table below), GET /reset switches all off.  Every request to the
 * registry is one line in the log: METHOD URI STATUS BYTES auth=A range=R; in --heads it is
 * METHOD URI, and all of its header behind it, each line after a tab.
 * All repository names mean the same folder.
 */
#include <errno.h>
#include <sys/queue.h> /* before event2/keyvalq_struct.h, which makes its own otherwise */

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <getopt.h>
#include <inttypes.h>
#include <arpa/inet.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/fakes/registry.h"

const struct fault_spec fault_specs[N_FAULTS] = {
	[FAULT_MATCH] = { "match", true, false },
	[FAULT_TIMES] = { "times", false, false },
	[FAULT_STATUS] = { "status", false, true },
	[FAULT_RETRY_AFTER] = { "retry_after", false, false },
	[FAULT_DELAY_MS] = { "delay_ms", false, true },
	[FAULT_DROP] = { "drop", false, true },
	[FAULT_DROP_AFTER] = { "drop_after", false, true },
	[FAULT_CUT] = { "cut", false, true },
	[FAULT_HANG] = { "hang", false, true },
	[FAULT_DRIP] = { "drip", false, false },
	[FAULT_DRIP_MS] = { "drip_ms", false, false },
	[FAULT_WRONG] = { "wrong", false, true },
	[FAULT_NO_RANGE] = { "no_range", false, false },
	[FAULT_BAD_RANGE] = { "bad_range", false, true },
	[FAULT_MAX_RANGE] = { "max_range", false, false },
	[FAULT_BASIC] = { "basic", false, false },
	[FAULT_BEARER] = { "bearer", false, false },
	[FAULT_REFUSAL] = { "refusal", false, false },
	[FAULT_LOGIN] = { "login", false, false },
	[FAULT_LOCKED] = { "locked", false, false },
	[FAULT_TOKEN_USES] = { "token_uses", false, false },
	[FAULT_REDIRECT] = { "redirect", false, false },
	[FAULT_STORAGE_LOGIN] = { "storage_login", false, false },
	[FAULT_TOKEN_PORT] = { "token_port", false, false },
	[FAULT_TOKEN_MOVED] = { "token_moved", false, false },
	[FAULT_REFERRERS] = { "referrers", false, false },
	[FAULT_UPLOAD_CUT] = { "upload_cut", false, true },
	[FAULT_UPLOAD_LOSE] = { "upload_lose", false, true },
	[FAULT_NO_CHUNKS] = { "no_chunks", false, false },
	[FAULT_DOWN] = { "down", false, false },
	[FAULT_PAGE] = { "page", false, false },
	[FAULT_NO_DELETE] = { "no_delete", false, false },
	[FAULT_DIGEST_TAGS] = { "digest_tags", false, false },
	[FAULT_NO_HEAD] = { "no_head", false, false },
	[FAULT_REFERER] = { "referer", false, false },
	[FAULT_IMMUTABLE] = { "immutable", false, false },
};

int64_t fault(const struct fake *f, enum fault which)
{
	return f->faults[which];
}

/* Does a fault that may be limited in number strike now?  Counts it. */
bool fault_strikes(struct fake *f, enum fault which, const char *uri)
{
	if (!f->faults[which] || (*f->match && !strstr(uri, f->match)))
		return false;
	if (f->faults[FAULT_TIMES] && --f->faults[FAULT_TIMES] == 0)
		for (int i = 0; i < N_FAULTS; i++)
			if (fault_specs[i].counted)
				f->expired |= UINT64_C(1) << i;
	return true;
}

/* After a request: switch off what has struck often enough. */
static void expire_faults(struct fake *f)
{
	for (int i = 0; i < N_FAULTS; i++)
		if (f->expired & (UINT64_C(1) << i))
			f->faults[i] = 0;
	f->expired = 0;
}

/* ----------------------------------------------------------------- replies --- */

/* A body under way, sent in pieces or not to its end. */
struct job {
	struct fake *f;
	struct evhttp_request *req;
	struct evhttp_connection *con;
	struct evbuffer *body;
	struct event *timer;
	uint64_t left; /* bytes until the connection is cut, or says no more */
	bool cut, hang;
	bool started;
	int status;
};

static void job_free(struct job *j)
{
	evhttp_connection_set_closecb(j->con, NULL, NULL);
	evbuffer_free(j->body);
	event_free(j->timer);
	free(j);
}

static void on_client_gone(struct evhttp_connection *con, void *arg)
{
	(void)con;
	job_free(arg);
}

static void close_later(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	evhttp_connection_free(arg);
}

/* A connection must not be freed below its own callback. */
void fake_drop(struct fake *f, struct evhttp_request *req)
{
	static const struct timeval now = { 0, 0 };

	(void)event_base_once(f->base, -1, EV_TIMEOUT, close_later,
			      evhttp_request_get_connection(req), &now);
}

static void on_piece_sent(struct evhttp_connection *con, void *arg)
{
	struct job *j = arg;
	struct fake *f = j->f;

	(void)con;
	if (j->hang && j->left == 0) {
		/* Until the client goes. */
	} else if (j->cut && j->left == 0) {
		struct evhttp_request *req = j->req;

		job_free(j);
		fake_drop(f, req);
	} else if (evbuffer_get_length(j->body) == 0) {
		struct evhttp_request *req = j->req;

		job_free(j);
		evhttp_send_reply_end(req);
	} else {
		int64_t ms = fault(f, FAULT_DRIP_MS);
		struct timeval t = { ms / 1000, ms % 1000 * 1000 };

		event_add(j->timer, &t);
	}
}

static void send_piece(evutil_socket_t fd, short what, void *arg)
{
	struct job *j = arg;
	size_t n = evbuffer_get_length(j->body);
	int64_t drip = fault(j->f, FAULT_DRIP);
	struct evbuffer *piece = evbuffer_new();

	(void)fd;
	(void)what;
	if (n == 0 || evhttp_request_get_command(j->req) == EVHTTP_REQ_HEAD) {
		struct evhttp_request *req = j->req;
		int status = j->status;

		/* libevent never tells of a piece without bytes that it was sent. */
		job_free(j);
		evhttp_send_reply(req, status, NULL, NULL);
		return;
	}
	if (!j->started) {
		evhttp_send_reply_start(j->req, j->status, NULL);
		j->started = true;
	}
	if (drip && n > (size_t)drip)
		n = (size_t)drip;
	if ((j->cut || j->hang) && n > j->left)
		n = (size_t)j->left;
	j->left -= j->cut || j->hang ? n : 0;
	evbuffer_remove_buffer(j->body, piece, n);
	evhttp_send_reply_chunk_with_cb(j->req, piece, on_piece_sent, j);
	evbuffer_free(piece);
}

static void log_head(FILE *to, const char *method, struct evhttp_request *req)
{
	struct evkeyval *h;

	fprintf(to, "%s %s", method, evhttp_request_get_uri(req));
	TAILQ_FOREACH(h, evhttp_request_get_input_headers(req), next)
	{
		fprintf(to, "\t%s: %s", h->key, h->value);
	}
	fputc('\n', to);
	fflush(to);
}

static void log_request(struct fake *f, struct evhttp_request *req, int status,
			size_t bytes)
{
	static const struct {
		enum evhttp_cmd_type type;
		const char *name;
	} names[] = {
		{ EVHTTP_REQ_GET, "GET" },     { EVHTTP_REQ_HEAD, "HEAD" },
		{ EVHTTP_REQ_POST, "POST" },   { EVHTTP_REQ_PUT, "PUT" },
		{ EVHTTP_REQ_PATCH, "PATCH" }, { EVHTTP_REQ_DELETE, "DELETE" },
	};
	struct evkeyvalq *in = evhttp_request_get_input_headers(req);
	const char *range = evhttp_find_header(in, "Range");
	const char *method = "?";

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (names[i].type == evhttp_request_get_command(req))
			method = names[i].name;
	fprintf(f->log, "%s %s %d %zu auth=%s range=%s\n", method,
		evhttp_request_get_uri(req), status, bytes,
		evhttp_find_header(in, "Authorization") ? "yes" : "no",
		range ? range : "-");
	fflush(f->log);
	if (f->heads)
		log_head(f->heads, method, req);
}

void fake_header(struct evhttp_request *req, const char *name,
		 const char *value)
{
	evhttp_add_header(evhttp_request_get_output_headers(req), name, value);
}

/* Send `body` (taken), slowly or in part when a fault says so. */
void fake_reply(struct fake *f, struct evhttp_request *req, int status,
		struct evbuffer *body)
{
	const char *uri = evhttp_request_get_uri(req);
	bool head = evhttp_request_get_command(req) == EVHTTP_REQ_HEAD;
	struct timeval wait = { 0, 0 };
	size_t len = evbuffer_get_length(body);
	struct job *j = calloc(1, sizeof(*j));
	char length[32];

	if (!j)
		abort();
	log_request(f, req, status, len);
	if (!head) {
		snprintf(length, sizeof(length), "%zu", len);
		fake_header(req, "Content-Length", length);
	}
	j->cut = !head && len && fault_strikes(f, FAULT_CUT, uri);
	j->hang = !head && len && !j->cut && fault_strikes(f, FAULT_HANG, uri);
	j->left = (uint64_t)fault(f, j->hang ? FAULT_HANG : FAULT_CUT);
	if (fault_strikes(f, FAULT_DELAY_MS, uri)) {
		wait.tv_sec = fault(f, FAULT_DELAY_MS) / 1000;
		wait.tv_usec = fault(f, FAULT_DELAY_MS) % 1000 * 1000;
	} else if (!j->cut && !j->hang && !fault(f, FAULT_DRIP)) {
		free(j);
		evhttp_send_reply(req, status, NULL, body);
		evbuffer_free(body);
		return;
	}
	j->f = f;
	j->req = req;
	j->con = evhttp_request_get_connection(req);
	j->body = body;
	j->status = status;
	j->timer = evtimer_new(f->base, send_piece, j);
	evhttp_connection_set_closecb(j->con, on_client_gone, j);
	event_add(j->timer, &wait);
}

void fake_reply_text(struct fake *f, struct evhttp_request *req, int status,
		     const char *text)
{
	struct evbuffer *b = evbuffer_new();

	evbuffer_add(b, text, strlen(text));
	fake_reply(f, req, status, b);
}

/* ----------------------------------------------------------------- control --- */

static void set_down(struct fake *f, bool down)
{
	if (down && f->listener) {
		evhttp_del_accept_socket(f->http, f->listener);
		f->listener = NULL;
	} else if (!down && !f->listener) {
		f->listener =
			evhttp_bind_socket_with_handle(f->http, f->address,
						       f->port);
	}
}

static bool set_fault(struct fake *f, const char *name, const char *value)
{
	for (int i = 0; i < N_FAULTS; i++) {
		if (strcmp(fault_specs[i].name, name) != 0)
			continue;
		if (fault_specs[i].text)
			snprintf(f->match, sizeof(f->match), "%s", value);
		else
			f->faults[i] = strtoll(value, NULL, 10);
		return true;
	}
	return false;
}

static void on_set(struct evhttp_request *req, void *arg)
{
	const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(req);
	const char *query = evhttp_uri_get_query(uri);
	struct evkeyvalq pairs = { NULL, NULL };
	struct evkeyval *p;
	struct fake *f = arg;
	bool good = true;

	if (query && evhttp_parse_query_str(query, &pairs) == 0) {
		for (p = pairs.tqh_first; p; p = p->next.tqe_next)
			good = set_fault(f, p->key, p->value) && good;
		evhttp_clear_headers(&pairs);
	}
	set_down(f, fault(f, FAULT_DOWN) != 0);
	evhttp_send_reply(req, good ? 200 : 400, NULL, NULL);
}

static void fault_defaults(struct fake *f)
{
	memset(f->faults, 0, sizeof(f->faults));
	f->faults[FAULT_REFERRERS] = 1;
	f->match[0] = '\0';
}

static void on_reset(struct evhttp_request *req, void *arg)
{
	struct fake *f = arg;

	fault_defaults(f);
	set_down(f, false);
	evhttp_send_reply(req, 200, NULL, NULL);
}

/* --------------------------------------------------------------- registry --- */

static void add_retry_after(struct evhttp_request *req, int64_t s)
{
	time_t at = time(NULL) - (time_t)s;
	char text[64];
	struct tm tm;

	if (s < 0 && gmtime_r(&at, &tm))
		(void)evutil_date_rfc1123(text, sizeof(text), &tm);
	else
		(void)snprintf(text, sizeof(text), "%" PRId64, s);
	if (s)
		fake_header(req, "Retry-After", text);
}

static void on_request(struct evhttp_request *req, void *arg)
{
	struct fake *f = arg;
	const char *uri = evhttp_request_get_uri(req);

	/* Down is also down for those that are connected still. */
	if (fault(f, FAULT_DOWN) || fault_strikes(f, FAULT_DROP, uri)) {
		log_request(f, req, 0, 0);
		fake_drop(f, req);
	} else if (fault_strikes(f, FAULT_STATUS, uri)) {
		add_retry_after(req, fault(f, FAULT_RETRY_AFTER));
		fake_reply_text(f, req, (int)fault(f, FAULT_STATUS),
				"{\"errors\":[{\"code\":\"FAULT\","
				"\"message\":\"as told\"}]}");
	} else if (fake_authorize(f, req)) {
		fake_serve(f, req);
	}
	expire_faults(f);
}

/* What a hostile host is told: its log has whether credentials came, and how many
 * bytes of a body. */
static void on_steal(struct evhttp_request *req, void *arg)
{
	struct evbuffer *in = evhttp_request_get_input_buffer(req);

	log_request(arg, req, 200, evbuffer_get_length(in));
	evhttp_send_reply(req, 200, NULL, NULL);
}

/* A login that the registry's credentials are not for. */
static void ask_login(struct fake *f, struct evhttp_request *req)
{
	char challenge[128] = "Basic realm=\"storage\"";

	if (fault(f, FAULT_STORAGE_LOGIN) == 2)
		snprintf(challenge, sizeof(challenge),
			 "Bearer realm=\"http://127.0.0.1:%u/steal\"",
			 f->control_port);
	fake_header(req, "WWW-Authenticate", challenge);
	fake_reply_text(f, req, 401, "{}");
}

/* Where redirects lead: another origin, that needs no login. */
static void on_storage(struct evhttp_request *req, void *arg)
{
	struct fake *f = arg;
	const char *referer =
		evhttp_find_header(evhttp_request_get_input_headers(req),
				   "Referer");

	if (fault(f, FAULT_STORAGE_LOGIN) ||
	    (fault(f, FAULT_REFERER) &&
	     !(referer && strstr(referer, "/v2/")))) {
		ask_login(f, req);
		return;
	}
	if (fault(f, FAULT_NO_HEAD) &&
	    evhttp_request_get_command(req) == EVHTTP_REQ_HEAD) {
		fake_reply_text(f, req, 403, "");
		return;
	}
	fake_serve_blob(f, req, strrchr(evhttp_request_get_uri(req), '/') + 1);
	expire_faults(f);
}

static uint16_t port_of(int fd)
{
	struct sockaddr_in a;
	socklen_t len = sizeof(a);

	if (getsockname(fd, (struct sockaddr *)&a, &len) < 0)
		return 0;
	return ntohs(a.sin_port);
}

/* A port for the registry's life: one that it gave up while it is down would be given to
 * a program beside, which answers, and keeps it from listening again. */
static int hold_port(const char *address)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int on = 1;

	if (fd < 0 || inet_pton(AF_INET, address, &a.sin_addr) != 1 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return -1;
	return fd;
}

static int listen_both(struct fake *f)
{
	struct evhttp_bound_socket *s;

	f->http = evhttp_new(f->base);
	f->control = evhttp_new(f->base);
	evhttp_set_allowed_methods(f->http, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD |
						    EVHTTP_REQ_POST |
						    EVHTTP_REQ_PUT |
						    EVHTTP_REQ_PATCH |
						    EVHTTP_REQ_DELETE);
	evhttp_set_gencb(f->http, on_request, f);
	evhttp_set_gencb(f->control, on_storage, f);
	evhttp_set_cb(f->control, "/set", on_set, f);
	evhttp_set_cb(f->control, "/steal", on_steal, f);
	evhttp_set_cb(f->control, "/reset", on_reset, f);
	f->held = hold_port(f->address);
	if (f->held < 0)
		return -1;
	f->port = port_of(f->held);
	f->listener =
		evhttp_bind_socket_with_handle(f->http, f->address, f->port);
	s = evhttp_bind_socket_with_handle(f->control, "127.0.0.1", 0);
	if (!f->listener || !s)
		return -1;
	f->control_port = port_of(evhttp_bound_socket_get_fd(s));
	return 0;
}

static int write_ports(const struct fake *f, const char *path)
{
	struct error err = ERROR_INIT;
	AUTO_BUF b = BUF_INIT;

	if (strcmp(path, "-") == 0) {
		printf("%u %u\n", f->port, f->control_port);
		return fflush(stdout);
	}
	if (buf_printf(&b, "%u %u\n", f->port, f->control_port) < 0 ||
	    fs_replace_file(path, b.data, b.len, 0644, &err) < 0) {
		fprintf(stderr, "%s: %s\n", path, err.msg);
		return -1;
	}
	return 0;
}

static int open_store(struct fake *f, struct error *err)
{
	const struct oci_config cfg = OCI_CONFIG_INIT;
	const struct oci_ref ref = { .transport = OCI_TRANSPORT_LAYOUT,
				     .repo = f->dir };

	return oci_store_open(&ref, &cfg, true, &f->store, err);
}

static int parse_options(struct fake *f, int argc, char **argv,
			 const char **ports)
{
	static const struct option options[] = {
		{ "dir", required_argument, NULL, 'd' },
		{ "port-file", required_argument, NULL, 'p' },
		{ "log", required_argument, NULL, 'l' },
		{ "heads", required_argument, NULL, 'h' },
		{ "address", required_argument, NULL, 'a' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	f->log = stderr;
	f->address = "127.0.0.1";
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'd')
			f->dir = optarg;
		else if (c == 'p')
			*ports = optarg;
		else if (c == 'a')
			f->address = optarg;
		else if (c == 'l')
			f->log = fopen(optarg, "ae");
		else if (c == 'h')
			f->heads = fopen(optarg, "ae");
		else
			return -1;
	}
	return f->dir && *ports && f->log ? 0 : -1;
}

int main(int argc, char **argv)
{
	struct fake f = { .expired = 0 };
	struct error err = ERROR_INIT;
	const char *ports = NULL;

	if (parse_options(&f, argc, argv, &ports) < 0) {
		fprintf(stderr,
			"usage: %s --dir LAYOUT --port-file FILE "
			"[--log FILE] [--heads FILE] [--address ADDRESS]\n",
			argv[0]);
		return 2;
	}
	(void)signal(SIGPIPE, SIG_IGN);
	fault_defaults(&f);
	f.base = event_base_new();
	if (open_store(&f, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	if (listen_both(&f) < 0 || write_ports(&f, ports) < 0)
		return 1;
	return event_base_dispatch(f.base) < 0;
}
