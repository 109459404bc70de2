// SPDX-License-Identifier: Apache-2.0
/* A connection of the server: one request after the other. */
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "net/httpd_priv.h"

#define INPUT_MAX 65536u  /* bytes read in advance */
#define ANSWER_BPS 65536u /* clients that read more slowly are cut off */
/* the send rate is divided into so many parts of a second */
#define RATE_TICKS 10u
/* clients that may share the rate before the slow ones are cut off */
#define RATE_CLIENTS 64u
/* smaller answers are limited by the number of connections alone */
#define LARGE 65536u
#define LINGER_NS INT64_C(2000000000)
/* bytes of a stream that may wait to be sent */
#define STREAM_AHEAD (1024u * 1024)

void httpd_resume(struct httpd *s)
{
	if (s->listener.is_paused &&
	    s->stats.connections < s->cfg.connections_max)
		listener_resume(&s->listener);
	if (s->stopping && s->stats.connections == 0 && s->on_idle) {
		void (*idle)(void *) = s->on_idle;

		s->on_idle = NULL;
		idle(s->on_idle_arg);
	}
}

static void conn_step(struct httpd_conn *c);
static void grant_bodies(struct httpd *s);

/* ------------------------------------------------------------------- states --- */

/* Start the state's deadline; if that fails, close the connection, since it could stay for
 * ever. */
static void set_deadline(struct httpd_conn *c, int64_t ns)
{
	if (loop_timer_start(c->server->cfg.loop, &c->timer, ns, NULL) < 0)
		c->last = true;
}

static bool awaits_body(const struct httpd_conn *c)
{
	return c->state == CONN_QUEUED || c->state == CONN_BODY;
}

/* Does the connection count as one of its owner's: is its request waiting for a body,
 * running, or being answered? */
static bool conn_counts_for_owner(const struct httpd_conn *c)
{
	return awaits_body(c) || c->state == CONN_RUNNING ||
	       c->state == CONN_ANSWER;
}

/* Is it sending an answer to an unknown client? Such answers are small and sent at once, so
 * these connections may be closed. */
static bool conn_answers_unknown_client(const struct httpd_conn *c)
{
	return c->state == CONN_ANSWER && c->share == c->server->shares;
}

static void forget_large_answer(struct httpd_conn *c)
{
	if (!c->large)
		return;
	TAILQ_REMOVE(&c->server->large, c, by_large);
	c->server->stats.answer_bytes -= c->large;
	c->share->large -= c->large;
	c->large = 0;
}

static void remove_conn_from_lists(struct httpd_conn *c)
{
	forget_large_answer(c);
	if (conn_counts_for_owner(c))
		c->share->held--;
	if (c->state == CONN_HEAD) {
		TAILQ_REMOVE(&c->server->idle, c, some);
	} else if (c->state == CONN_QUEUED) {
		TAILQ_REMOVE(&c->server->waiting, c, some);
		c->server->stats.bodies_waiting--;
	} else if (conn_answers_unknown_client(c)) {
		TAILQ_REMOVE(&c->server->unread, c, some);
	}
}

static void set_state(struct httpd_conn *c, enum httpd_conn_state state)
{
	remove_conn_from_lists(c);
	c->state = state;
	if (conn_counts_for_owner(c))
		c->share->held++;
	if (state == CONN_HEAD) {
		TAILQ_INSERT_TAIL(&c->server->idle, c, some);
	} else if (state == CONN_QUEUED) {
		TAILQ_INSERT_TAIL(&c->server->waiting, c, some);
		c->server->stats.bodies_waiting++;
	} else if (conn_answers_unknown_client(c)) {
		TAILQ_INSERT_TAIL(&c->server->unread, c, some);
	}
	/* Now there is a connection that can be closed for a newcomer. */
	if ((state == CONN_HEAD || conn_answers_unknown_client(c)) &&
	    c->server->listener.is_paused &&
	    c->server->stats.connections <= c->server->cfg.connections_max)
		listener_resume(&c->server->listener);
}

static void free_body(struct httpd_conn *c)
{
	if (!c->body)
		return;
	free(c->body);
	c->body = NULL;
	c->req.body = NULL;
	c->server->stats.body_bytes -= c->req.head.content_length;
	c->share->bytes -= c->req.head.content_length;
}

/* Tell the handler, which accepted the head, that the body will not come. */
static void drop_request(struct httpd_conn *c)
{
	const struct httpd_config *cfg = &c->server->cfg;

	if (awaits_body(c))
		cfg->handler->drop(cfg->arg, &c->req);
}

static void end_stream(struct httpd_conn *c)
{
	struct httpd_stream stream = c->stream;

	c->stream = (struct httpd_stream){ .read = NULL };
	c->stream_left = 0;
	if (stream.read)
		stream.end(stream.arg);
}

static void free_conn(struct httpd_conn *c)
{
	struct httpd *s = c->server;

	end_stream(c);

	drop_request(c);
	remove_conn_from_lists(c);
	free_body(c);
	free(c->head);
	fd_close(c->peer.pidfd);
	TAILQ_REMOVE(&s->conns, c, all);
	s->stats.connections--;
	free(c);
	grant_bodies(s);
	httpd_resume(s);
}

void httpd_conn_close(struct httpd_conn *c)
{
	const struct httpd_config *cfg = &c->server->cfg;
	bool leaves = c->bev && c->state == CONN_RUNNING;

	loop_timer_stop(&c->timer);
	if (c->bev) {
		if (c->server->rates)
			(void)bufferevent_remove_from_rate_limit_group(c->bev);
		if (c->server->cfg.tls)
			httpd_tls_close(c->bev);
		bufferevent_free(c->bev);
		c->bev = NULL;
	}
	if (c->state != CONN_RUNNING)
		free_conn(c);
	else if (leaves && cfg->handler->gone)
		cfg->handler->gone(cfg->arg, &c->req);
}

/* -------------------------------------------------------------------- bodies --- */

static bool send_continue(struct httpd_conn *c)
{
	static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";

	if (!c->req.head.expect_continue)
		return true;
	c->continue_sent = true;
	return bufferevent_write(c->bev, text, strlen(text)) == 0;
}

/* Seeded hash, so that nobody can choose names that fall into one share. */
static struct httpd_share *find_share_of_owner(struct httpd *s,
					       const char *owner)
{
	if (!owner)
		return &s->shares[0];
	return &s->shares[1 + hash_seeded(&s->seed, owner, strlen(owner)) %
				      (HTTPD_SHARES - 1)];
}

/* Would the owner leave half of `all` to others? An owner with nothing yet may always take. */
static bool leaves_half_to_others(const struct httpd_conn *c, uint64_t has,
				  uint64_t more, uint64_t all)
{
	return c->share == c->server->shares || has == 0 ||
	       has + more <= all / 2;
}

static bool may_take_memory(const struct httpd_conn *c)
{
	return leaves_half_to_others(c, c->share->bytes,
				     c->req.head.content_length,
				     c->server->cfg.body_memory);
}

/* Reserve memory for the body, if there is enough now. */
static bool take_memory(struct httpd_conn *c)
{
	struct httpd_stats *stats = &c->server->stats;
	uint64_t n = c->req.head.content_length;

	if (stats->body_bytes + n > c->server->cfg.body_memory)
		return false;
	c->body = malloc(n + 1);
	if (!c->body)
		return false;
	stats->body_bytes += n;
	c->share->bytes += n;
	return true;
}

/* The first waiting connection whose owner may still take memory. */
static struct httpd_conn *find_first_waiting_conn(struct httpd *s)
{
	struct httpd_conn *c;

	TAILQ_FOREACH(c, &s->waiting, some)
	{
		if (may_take_memory(c))
			return c;
	}
	return NULL;
}

static void begin_body(struct httpd_conn *c)
{
	set_state(c, CONN_BODY);
	set_deadline(c, c->server->cfg.request_ns);
	if (bufferevent_enable(c->bev, EV_READ) < 0 || !send_continue(c))
		c->last = true;
}

static void grant_bodies(struct httpd *s)
{
	struct httpd_conn *c;

	while ((c = find_first_waiting_conn(s)) && take_memory(c)) {
		begin_body(c);
		/* Bytes that arrived before had to stay in the buffer: process them now. */
		bufferevent_trigger(c->bev, EV_READ,
				    BEV_TRIG_IGNORE_WATERMARKS |
					    BEV_TRIG_DEFER_CALLBACKS);
	}
}

/* Start the handler. As all step_ functions, returns true when there is more to do now. */
static bool run_request(struct httpd_conn *c)
{
	set_state(c, CONN_RUNNING);
	loop_timer_stop(&c->timer);
	c->req.body = c->body;
	c->server->cfg.handler->request(c->server->cfg.arg, &c->req);
	return c->state != CONN_RUNNING;
}

/* More bytes must come; if the client has ended its sending, close. */
static bool await_bytes(struct httpd_conn *c)
{
	if (c->has_ended)
		httpd_conn_close(c);
	return false;
}

static bool step_body(struct httpd_conn *c)
{
	uint64_t want = c->req.head.content_length - c->got;

	c->got += bufferevent_read(c->bev, c->body + c->got, want);
	if (c->got < c->req.head.content_length)
		return await_bytes(c);
	c->body[c->got] = '\0';
	return run_request(c);
}

/* --------------------------------------------------------------------- heads --- */

static bool httpd_conn_refuse(struct httpd_conn *c, int status, const char *why)
{
	/* The end of this request is unknown, so no other can follow. */
	c->last = true;
	c->req.head.content_length = INPUT_MAX;
	c->server->stats.requests_total++;
	httpd_answer_error(&c->req, status, why);
	return true;
}

/* The head was accepted: wait for the body, or start the handler. */
static bool want_body(struct httpd_conn *c, uint64_t max)
{
	const struct httpd_config *cfg = &c->server->cfg;
	const struct httpd_head *h = &c->req.head;

	if (h->content_length > max ||
	    h->content_length > c->server->cfg.body_memory) {
		cfg->handler->drop(cfg->arg, &c->req);
		httpd_answer_error(&c->req, HTTPD_TOO_LARGE,
				   "the body is larger than allowed here");
		return true;
	}
	if (h->content_length == 0 && h->method == HTTPD_POST &&
	    !h->has_length) {
		cfg->handler->drop(cfg->arg, &c->req);
		httpd_answer_error(&c->req, HTTPD_LENGTH_REQUIRED,
				   "Content-Length is missing");
		return true;
	}
	if (!leaves_half_to_others(c, c->share->held, 1,
				   cfg->connections_max)) {
		cfg->handler->drop(cfg->arg, &c->req);
		c->last = true;
		httpd_answer_error(&c->req, HTTPD_TOO_MANY,
				   "half of all places have requests of this "
				   "caller");
		return true;
	}
	if (h->content_length == 0)
		return run_request(c);
	if (may_take_memory(c) && !find_first_waiting_conn(c->server) &&
	    take_memory(c)) {
		begin_body(c);
		return true;
	}
	set_state(c, CONN_QUEUED);
	set_deadline(c, c->server->cfg.request_ns);
	(void)bufferevent_disable(c->bev, EV_READ);
	return false;
}

static bool handle_head(struct httpd_conn *c, size_t len)
{
	struct httpd *s = c->server;
	struct error err = ERROR_INIT;
	uint64_t max;
	int status;

	c->head[len] = '\0';
	status = httpd_head_parse(c->head, len, &c->req.head, &err);
	c->req.begun_ns = clock_now_ns();
	if (status)
		return httpd_conn_refuse(c, status, err.msg);
	c->last = c->last || !c->req.head.keep_alive || s->stopping ||
		  s->cfg.group;
	s->stats.requests_total++;
	if (s->cfg.tls)
		httpd_tls_peer(c->bev, c->req.peer_node,
			       sizeof(c->req.peer_node));
	max = s->cfg.handler->head(s->cfg.arg, &c->req);
	if (c->state == CONN_HEAD)
		c->share = find_share_of_owner(s, c->req.owner);
	return c->state == CONN_HEAD ? want_body(c, max) : true;
}

/* Is the input a line of JSON? A program of an older release sends that to a Unix socket and
 * expects a line: it is told at once that the releases differ. */
static bool input_is_json_line(const struct httpd_conn *c, struct evbuffer *in)
{
	char first = 'A';

	return c->server->cfg.path && evbuffer_copyout(in, &first, 1) == 1 &&
	       (first < 'A' || first > 'Z') && first != '\r';
}

/* Skip the empty lines that some clients send behind a body (RFC 9112, 2.2). */
static void skip_empty_lines(struct evbuffer *in)
{
	char two[2];

	while (evbuffer_copyout(in, two, sizeof(two)) == sizeof(two) &&
	       memcmp(two, "\r\n", sizeof(two)) == 0)
		(void)evbuffer_drain(in, sizeof(two));
}

static bool step_head(struct httpd_conn *c)
{
	struct evbuffer *in = bufferevent_get_input(c->bev);
	struct evbuffer_ptr end;
	size_t len;

	skip_empty_lines(in);
	len = evbuffer_get_length(in);
	if (len == 0)
		return await_bytes(c);
	if (!c->head_begun) {
		c->head_begun = true;
		set_deadline(c, c->server->cfg.request_ns);
	}
	c->is_bare = input_is_json_line(c, in);
	if (c->is_bare)
		return httpd_conn_refuse(c, HTTPD_BAD_REQUEST,
					 "that is not HTTP: the programs of "
					 "one node must be of one release");
	end = evbuffer_search(in, "\r\n\r\n", 4, NULL);
	if (end.pos < 0 && len < HTTPD_HEAD_MAX)
		return await_bytes(c);
	if (end.pos < 0 || (size_t)end.pos + 4 > HTTPD_HEAD_MAX)
		return httpd_conn_refuse(c, HTTPD_HEADERS_TOO_LARGE,
					 "the headers are too large");
	len = (size_t)end.pos + 4;
	c->head = malloc(len + 1);
	if (!c->head)
		return httpd_conn_refuse(c, HTTPD_UNAVAILABLE, "out of memory");
	if (evbuffer_remove(in, c->head, len) != (int)len)
		return false;
	return handle_head(c, len);
}

static void next_request(struct httpd_conn *c)
{
	free(c->head);
	c->head = NULL;
	memset(&c->req, 0, sizeof(c->req));
	c->req.peer = c->server->cfg.path ? &c->peer : NULL;
	c->got = c->discard = 0;
	c->head_begun = c->continue_sent = false;
	set_state(c, CONN_HEAD);
	set_deadline(c, c->server->cfg.idle_ns);
}

/* -------------------------------------------------------------------- answers --- */

void httpd_reply_fini(struct httpd_reply *r)
{
	buf_fini(&r->headers);
	buf_fini(&r->body);
	if (r->stream.read)
		r->stream.end(r->stream.arg);
	if (r->release)
		r->release(r->release_arg);
	memset(r, 0, sizeof(*r));
}

static void count_answer(struct httpd *s, const struct httpd_request *r,
			 int status)
{
	struct httpd_stats *t = &s->stats;

	if (status < 300)
		t->answers_2xx_total++;
	else if (status < 400)
		t->answers_3xx_total++;
	else if (status < 500)
		t->answers_4xx_total++;
	else
		t->answers_5xx_total++;
	if (r->begun_ns)
		t->request_ns_total += (uint64_t)(clock_now_ns() - r->begun_ns);
}

static int append_answer_head(struct httpd_conn *c, const struct httpd_reply *r,
			      uint64_t len, struct evbuffer *out)
{
	char date[64];
	time_t now = time(NULL);
	struct tm tm;
	int rc;

	gmtime_r(&now, &tm);
	strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
	rc = evbuffer_add_printf(out, "HTTP/1.1 %d %s\r\nDate: %s\r\n%s",
				 r->status, httpd_status_text(r->status), date,
				 r->headers.len ? r->headers.data : "");
	if (rc >= 0 && r->type)
		rc = evbuffer_add_printf(out, "Content-Type: %s\r\n", r->type);
	if (rc >= 0 && r->status != HTTPD_NOT_MODIFIED)
		rc = evbuffer_add_printf(out, "Content-Length: %" PRIu64 "\r\n",
					 len);
	if (rc >= 0)
		rc = evbuffer_add_printf(out, "%s\r\n",
					 c->last ? "Connection: close\r\n"
						 : "");
	return rc < 0 ? -ENOMEM : 0;
}

static void free_text(const void *data, size_t len, void *arg)
{
	free(arg);
}

static void release_shared(const void *data, size_t len, void *arg)
{
	struct httpd_reply *r = arg;

	httpd_reply_fini(r);
	free(r);
}

/* Move the body to the output without a copy. */
static int append_answer_body(struct httpd_reply *r, struct evbuffer *out)
{
	size_t len = r->body.len;
	char *text;

	if (r->shared) {
		struct httpd_reply *held = malloc(sizeof(*held));

		if (!held)
			return -ENOMEM;
		*held = *r;
		held->headers = held->body = (struct buf)BUF_INIT;
		r->release = NULL;
		if (evbuffer_add_reference(out, held->shared, held->shared_len,
					   release_shared, held) == 0)
			return 0;
		release_shared(NULL, 0, held);
		return -ENOMEM;
	}
	text = len ? buf_steal(&r->body) : NULL;
	if (!text ||
	    evbuffer_add_reference(out, text, len, free_text, text) == 0)
		return 0;
	free(text);
	return -ENOMEM;
}

static bool is_head(const struct httpd_conn *c)
{
	return c->req.head.method == HTTPD_HEAD && c->head;
}

/* Bytes of an answer that occupy memory of its own until the client takes them; 0 for small
 * ones. */
static uint64_t large_answer_bytes(const struct httpd_conn *c,
				   const struct httpd_reply *r)
{
	return !c->bev || r->shared || is_head(c) || r->body.len <= LARGE
		       ? 0
		       : r->body.len;
}

/* The oldest unread large answer of the owner that has most bytes of them. */
static struct httpd_conn *find_largest_unread_answer(const struct httpd *s)
{
	struct httpd_conn *most = TAILQ_FIRST(&s->large), *c;

	TAILQ_FOREACH(c, &s->large, by_large)
	{
		if (c->share->large > most->share->large)
			most = c;
	}
	return most;
}

/* Drop large answers to make room; false: this owner would have the most. Unknown clients
 * count as one owner. */
static bool make_room_for_answer(const struct httpd_conn *c, uint64_t more)
{
	struct httpd *s = c->server;
	struct httpd_conn *most;

	while (s->stats.answer_bytes &&
	       s->stats.answer_bytes + more > s->cfg.answer_memory) {
		most = find_largest_unread_answer(s);
		if (c->share != s->shares &&
		    most->share->large < c->share->large + more)
			return false;
		s->stats.answers_dropped_total++;
		httpd_conn_close(most);
	}
	return true;
}

static void note_large_answer(struct httpd_conn *c, uint64_t n)
{
	if (!n)
		return;
	c->large = n;
	c->share->large += n;
	c->server->stats.answer_bytes += n;
	TAILQ_INSERT_TAIL(&c->server->large, c, by_large);
}

static uint64_t get_least_answer_bps(const struct httpd *s)
{
	const uint64_t share = s->cfg.send_rate / RATE_CLIENTS + 1;

	return s->cfg.send_rate && share < ANSWER_BPS ? share : ANSWER_BPS;
}

/* Replace an answer for which memory is short by an error that asks to try later. */
static void replace_answer_by_retry_later(const struct httpd_conn *c,
					  struct httpd_reply *r)
{
	const struct httpd_config *cfg = &c->server->cfg;

	httpd_reply_fini(r);
	r->status = HTTPD_UNAVAILABLE;
	r->type = cfg->handler->error_type;
	if (cfg->handler->error(cfg->arg, r->status,
				"this caller does not take the answers that "
				"it has",
				&r->body) < 0)
		r->type = NULL;
	(void)!buf_puts(&r->headers, "Retry-After: 1\r\n");
}

/* Close without sending the rest: half an answer must not look like a whole one. */
static void cut_answer(struct httpd_conn *c)
{
	c->is_cut = true;
	if (bufferevent_disable(c->bev, EV_READ | EV_WRITE) == 0)
		set_deadline(c, 0);
}

/* Send more of a stream. The client has a deadline to read the bytes that wait; without any,
 * there is none, as the handler must produce more. */
static void fill_stream(struct httpd_conn *c)
{
	struct evbuffer *out = bufferevent_get_output(c->bev);
	bool is_new = false;

	while (c->stream_left && evbuffer_get_length(out) < STREAM_AHEAD) {
		struct evbuffer_iovec room;
		size_t max = c->stream_left < LARGE ? c->stream_left : LARGE;
		int64_t n = -ENOMEM;

		if (evbuffer_reserve_space(out, LARGE, &room, 1) == 1)
			n = c->stream.read(c->stream.arg, room.iov_base, max);
		room.iov_len = n > 0 ? (size_t)n : 0;
		if (n > 0 && evbuffer_commit_space(out, &room, 1) < 0)
			n = -ENOMEM;
		if (n < 0) {
			end_stream(c);
			cut_answer(c);
			return;
		}
		if (n == 0)
			break;
		c->stream_left -= (uint64_t)n;
		is_new = true;
	}
	if (is_new)
		set_deadline(c, c->server->cfg.request_ns);
	else if (evbuffer_get_length(out) == 0)
		loop_timer_stop(&c->timer);
}

void httpd_more(struct httpd_request *req)
{
	struct httpd_conn *c = container_of(req, struct httpd_conn, req);

	if (c->state == CONN_ANSWER && c->bev && c->stream.read)
		fill_stream(c);
}

static uint64_t get_reply_length(const struct httpd_reply *r)
{
	if (r->stream.read)
		return r->stream.len;
	return r->shared ? r->shared_len : r->body.len;
}

static void begin_stream(struct httpd_conn *c, struct httpd_reply *r)
{
	c->stream = r->stream;
	c->stream_left = r->stream.len;
	r->stream.read = NULL;
	fill_stream(c);
}

/* Has the client ended its sending, with nothing behind this request? */
static bool has_client_ended(const struct httpd_conn *c)
{
	return c->has_ended &&
	       evbuffer_get_length(bufferevent_get_input(c->bev)) <= c->discard;
}

void httpd_answer(struct httpd_request *req, struct httpd_reply *r)
{
	struct httpd_conn *c = container_of(req, struct httpd_conn, req);
	uint64_t large = large_answer_bytes(c, r), len;
	struct evbuffer *out;
	bool ran = c->state == CONN_RUNNING;
	int rc;

	if (large && !make_room_for_answer(c, large)) {
		replace_answer_by_retry_later(c, r);
		large = 0;
	}
	len = get_reply_length(r);
	count_answer(c->server, req, r->status);
	/* Drop the unread part of the body, unless the client waits for "100 Continue" to
	 * send it. */
	c->discard = req->head.content_length - c->got;
	if (c->discard && req->head.expect_continue && !c->continue_sent) {
		c->discard = 0;
		c->last = true;
	}
	free_body(c);
	set_state(c, CONN_ANSWER);
	note_large_answer(c, large);
	grant_bodies(c->server);
	if (!c->bev) {
		httpd_reply_fini(r);
		free_conn(c);
		return;
	}
	c->last = c->last || c->server->stopping || has_client_ended(c);
	c->server->stats.sent_bytes_total += len;
	set_deadline(c,
		     c->server->cfg.request_ns +
			     (int64_t)(len / get_least_answer_bps(c->server)) *
				     NS_PER_S);
	(void)bufferevent_enable(c->bev, EV_READ);
	out = bufferevent_get_output(c->bev);
	rc = c->is_bare ? 0 : append_answer_head(c, r, len, out);
	if (rc == 0 && !is_head(c) && r->stream.read)
		begin_stream(c, r);
	else if (rc == 0 && !is_head(c) && len)
		rc = append_answer_body(r, out);
	httpd_reply_fini(r);
	if (rc < 0)
		cut_answer(c);
	else if (ran)
		bufferevent_trigger(c->bev, EV_READ,
				    BEV_TRIG_IGNORE_WATERMARKS |
					    BEV_TRIG_DEFER_CALLBACKS);
}

void httpd_answer_error(struct httpd_request *req, int status,
			const char *message)
{
	struct httpd_conn *c = container_of(req, struct httpd_conn, req);
	const struct httpd_config *cfg = &c->server->cfg;
	struct httpd_reply r = { .status = status,
				 .type = cfg->handler->error_type };

	if (cfg->handler->error(cfg->arg, status, message, &r.body) < 0)
		r.type = NULL;
	httpd_answer(req, &r);
}

void httpd_from(struct httpd_request *req, char *ret, size_t size)
{
	struct httpd_conn *c = container_of(req, struct httpd_conn, req);
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	if (!c->bev ||
	    getpeername(bufferevent_getfd(c->bev), (struct sockaddr *)&ss,
			&len) < 0 ||
	    getnameinfo((struct sockaddr *)&ss, len, ret, (socklen_t)size, NULL,
			0, NI_NUMERICHOST) != 0)
		(void)snprintf(ret, size, "gone");
}

/* Everything was sent: go on to the next request, or end. */
static bool step_answer(struct httpd_conn *c)
{
	struct evbuffer *in = bufferevent_get_input(c->bev);
	size_t n = evbuffer_get_length(in);

	if (c->is_cut)
		return false;
	n = n < c->discard ? n : c->discard;
	(void)evbuffer_drain(in, n);
	c->discard = c->has_ended ? 0 : c->discard - n;
	if (c->stream_left)
		fill_stream(c);
	if (c->stream_left ||
	    evbuffer_get_length(bufferevent_get_output(c->bev)) > 0)
		return false;
	end_stream(c);
	if (!c->last && c->discard == 0) {
		next_request(c);
		return true;
	}
	/* On a socket open to everybody, do not keep a connection to drain a refused body. */
	if (c->discard == 0 || c->server->cfg.group) {
		httpd_conn_close(c);
		return false;
	}
	/* Closing now would make the client's sending fail (EPIPE), so that it never reads
	 * the answer (RFC 9112, 9.6). */
	if (c->state != CONN_LINGER) {
		set_state(c, CONN_LINGER);
		set_deadline(c, LINGER_NS);
		if (c->last && !c->server->cfg.tls)
			(void)shutdown(bufferevent_getfd(c->bev), SHUT_WR);
	}
	return false;
}

/* --------------------------------------------------------------------- events --- */

static void conn_step(struct httpd_conn *c)
{
	bool more = true;

	while (more) {
		switch (c->state) {
		case CONN_HEAD:
			more = step_head(c);
			break;
		case CONN_BODY:
			more = step_body(c);
			break;
		case CONN_ANSWER:
		case CONN_LINGER:
			more = step_answer(c);
			break;
		default:
			more = false;
		}
	}
}

static void on_read(struct bufferevent *bev, void *arg)
{
	conn_step(arg);
}

/* Has the client closed the whole connection? One that closed only its sending side still
 * waits for its answer. */
static bool client_has_left(struct bufferevent *bev)
{
	struct pollfd p = { .fd = bufferevent_getfd(bev) };

	return poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR));
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct httpd_conn *c = arg;

	if (what & BEV_EVENT_CONNECTED)
		return;
	if (c->server->cfg.tls && httpd_tls_failed(bev))
		c->server->stats.tls_failures_total++;
	if ((what & BEV_EVENT_EOF) && !client_has_left(bev)) {
		/* Requests that came before the end are still answered. */
		c->has_ended = true;
		conn_step(c);
		return;
	}
	httpd_conn_close(c);
}

static void on_deadline(struct loop_timer *t)
{
	struct httpd_conn *c = container_of(t, struct httpd_conn, timer);

	c->last = true;
	drop_request(c);
	if (c->state == CONN_QUEUED)
		httpd_answer_error(&c->req, HTTPD_UNAVAILABLE,
				   "too much is waiting, try again");
	else if (c->state == CONN_BODY)
		httpd_answer_error(&c->req, HTTPD_TIMEOUT,
				   "the body did not come in time");
	else
		httpd_conn_close(c);
}

static void on_bytes_in(struct evbuffer *b, const struct evbuffer_cb_info *info,
			void *arg)
{
	struct httpd *s = arg;

	s->stats.received_bytes_total += info->n_added;
}

/* Limit the rate at which bytes are given to the kernel, whose buffers take what is sent. */
int httpd_set_rate(struct httpd *s, struct error *err)
{
	const struct timeval tick = { .tv_usec = 1000000 / RATE_TICKS };
	const size_t each = (size_t)(s->cfg.send_rate / RATE_TICKS) + 1;
	struct ev_token_bucket_cfg *cfg;

	if (!s->cfg.send_rate)
		return 0;
	cfg = ev_token_bucket_cfg_new(EV_RATE_LIMIT_MAX, EV_RATE_LIMIT_MAX,
				      each, each, &tick);
	if (cfg)
		s->rates =
			bufferevent_rate_limit_group_new(loop_event_base(
								 s->cfg.loop),
							 cfg);
	ev_token_bucket_cfg_free(cfg);
	return s->rates ? 0 : error_nomem(err);
}

static struct bufferevent *make_bev(struct httpd *s, int fd)
{
	struct event_base *base = loop_event_base(s->cfg.loop);

	return s->cfg.tls ? httpd_tls_accept(s->cfg.tls, base, fd)
			  : bufferevent_socket_new(base, fd,
						   BEV_OPT_CLOSE_ON_FREE);
}

void httpd_conn_new(struct httpd *s, int fd)
{
	struct httpd_conn *c = calloc(1, sizeof(*c));

	if (c)
		c->bev = make_bev(s, fd);
	if (!c || !c->bev) {
		s->stats.connections_refused_total++;
		free(c);
		close(fd);
		return;
	}
	c->server = s;
	c->share = &s->shares[0];
	c->timer.fn = on_deadline;
	c->peer.pidfd = -1;
	if (s->cfg.path) {
		httpd_unix_peer(s, fd, &c->peer);
		c->req.peer = &c->peer;
	}
	TAILQ_INSERT_TAIL(&s->conns, c, all);
	TAILQ_INSERT_TAIL(&s->idle, c, some);
	s->stats.connections++;
	bufferevent_setcb(c->bev, on_read, on_read, on_event, c);
	bufferevent_setwatermark(c->bev, EV_READ, 0, INPUT_MAX);
	if (!evbuffer_add_cb(bufferevent_get_input(c->bev), on_bytes_in, s) ||
	    bufferevent_set_max_single_read(c->bev, INPUT_MAX) < 0 ||
	    bufferevent_set_max_single_write(c->bev, 4 * INPUT_MAX) < 0 ||
	    (s->rates &&
	     bufferevent_add_to_rate_limit_group(c->bev, s->rates) < 0) ||
	    bufferevent_enable(c->bev, EV_READ | EV_WRITE) < 0) {
		httpd_conn_close(c);
		return;
	}
	set_deadline(c, s->cfg.request_ns);
}
