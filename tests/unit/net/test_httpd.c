// SPDX-License-Identifier: Apache-2.0
/* Clients that hold what they were given. */
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "net/httpd_priv.h"

TestSuite(httpd, .timeout = 120);

#define MEMORY 8192
#define CONNECTIONS 16
#define TURNS 10000
#define ANSWERS 4 /* large ones in memory */

struct scene {
	struct loop *loop;
	struct loop_timer timer;
	struct httpd *server;
};

/* Requests for /slow, which are answered at the end. */
static struct httpd_request *slow[CONNECTIONS];
static size_t n_slow;

static uint64_t on_head(void *arg, struct httpd_request *r)
{
	r->owner = httpd_head_get(&r->head, "Owner");
	if (r->owner && !*r->owner)
		r->owner = NULL;
	if (strcmp(r->head.path, "/refused") != 0)
		return MEMORY;
	httpd_answer_error(r, HTTPD_UNAUTHORIZED, "no");
	return 0;
}

static void on_request(void *arg, struct httpd_request *r)
{
	struct httpd_reply reply = HTTPD_REPLY_INIT;

	/* More than sockets hold. */
	static const char large[16 << 20];

	if (strcmp(r->head.path, "/large") == 0) {
		reply.shared = large;
		reply.shared_len = sizeof(large);
	}
	if (strcmp(r->head.path, "/own") == 0)
		cr_assert_eq(buf_append(&reply.body, large, sizeof(large)), 0);
	if (strcmp(r->head.path, "/slow") == 0)
		slow[n_slow++] = r;
	else
		httpd_answer(r, &reply);
}

static void on_drop(void *arg, struct httpd_request *r)
{
}

static int on_error(void *arg, int status, const char *message, struct buf *ret)
{
	return buf_puts(ret, message);
}

static void on_timer(struct loop_timer *t)
{
	loop_stop(container_of(t, struct scene, timer)->loop);
}

static void turn(struct scene *s)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(loop_timer_start(s->loop, &s->timer, 1000000, &err), 0,
		     "%s", err.msg);
	cr_assert_eq(loop_run(s->loop, &err), 0, "%s", err.msg);
}

static void begin(struct scene *s)
{
	static const struct httpd_handler handler = { .head = on_head,
						      .request = on_request,
						      .drop = on_drop,
						      .error = on_error };
	struct httpd_config cfg = { .name = "test",
				    .option = "--listen",
				    .listen = "127.0.0.1:0",
				    .connections_max = CONNECTIONS,
				    .body_memory = MEMORY,
				    .answer_memory = ANSWERS * (16u << 20),
				    .idle_ns = INT64_C(60000000000),
				    .request_ns = INT64_C(60000000000),
				    .handler = &handler };
	struct error err = ERROR_INIT;

	*s = (struct scene){ .timer.fn = on_timer };
	cr_assert_eq(loop_new(&s->loop, &err), 0, "%s", err.msg);
	cfg.loop = s->loop;
	cr_assert_eq(httpd_new(&cfg, &s->server, &err), 0, "%s", err.msg);
}

static void end(struct scene *s)
{
	httpd_abort(s->server);
	while (n_slow) {
		struct httpd_reply reply = HTTPD_REPLY_INIT;

		httpd_answer(slow[--n_slow], &reply);
	}
	httpd_free(s->server);
	loop_timer_stop(&s->timer);
	loop_free(s->loop);
}

static int connect_it(const struct scene *s)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const int small = 4096;

	cr_assert_eq(getsockname(s->server->listener.fd, (struct sockaddr *)&ss,
				 &len),
		     0);
	cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small,
				sizeof(small)),
		     0);
	cr_assert_eq(connect(fd, (struct sockaddr *)&ss, len), 0);
	return fd;
}

/* A client that has sent the head of a request: its body has so many bytes, and its owner is named
 * in it. */
static int begin_post(struct scene *s, const char *path, const char *owner,
		      int bytes)
{
	int fd = connect_it(s), n;
	char head[256];

	n = snprintf(head, sizeof(head),
		     "POST %s HTTP/1.1\r\nOwner: %s\r\n"
		     "Content-Length: %d\r\n\r\n",
		     path, owner, bytes);
	cr_assert_eq(send(fd, head, (size_t)n, 0), n);
	return fd;
}

/* What was answered, up to now or after a while; 0: nothing. */
static int answer(struct scene *s, int fd)
{
	char text[64] = "";

	for (int k = 0; k < TURNS; k++) {
		turn(s);
		if (recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT) > 12)
			return atoi(text + 9);
	}
	return 0;
}

static int say_body(struct scene *s, int fd, int bytes)
{
	char body[MEMORY] = "";

	cr_assert_eq(send(fd, body, (size_t)bytes, 0), bytes);
	return answer(s, fd);
}

Test(httpd, bodies_of_one_owner_leave_half_of_the_memory)
{
	int held[4], fd;
	struct scene s;

	begin(&s);
	for (size_t k = 0; k < ARRAY_SIZE(held); k++)
		held[k] = begin_post(&s, "/", "one", MEMORY / 4);
	fd = begin_post(&s, "/", "other", MEMORY / 2);
	cr_expect_eq(say_body(&s, fd, MEMORY / 2), 200);
	/* His come to their turns when those before end. */
	for (size_t k = 0; k < ARRAY_SIZE(held); k++) {
		cr_expect_eq(say_body(&s, held[k], MEMORY / 4), 200);
		close(held[k]);
	}
	close(fd);
	end(&s);
}

Test(httpd, one_owner_leaves_half_of_the_places)
{
	int held[CONNECTIONS], fd;
	struct scene s;

	begin(&s);
	for (size_t k = 0; k < ARRAY_SIZE(held); k++) {
		held[k] = begin_post(&s, "/", "one", 1);
		turn(&s); /* else he is idle, and gives way */
	}
	fd = begin_post(&s, "/", "other", 1);
	cr_expect_eq(say_body(&s, fd, 1), 200);
	for (size_t k = 0; k < ARRAY_SIZE(held); k++)
		close(held[k]);
	close(fd);
	end(&s);
}

Test(httpd, requests_of_one_owner_leave_half_of_the_places)
{
	int held[CONNECTIONS], fd;
	struct scene s;

	begin(&s);
	for (size_t k = 0; k < ARRAY_SIZE(held); k++) {
		held[k] = begin_post(&s, "/slow", "one", 0);
		turn(&s);
	}
	fd = begin_post(&s, "/", "other", 0);
	cr_expect_eq(answer(&s, fd), 200);
	cr_expect_eq(n_slow, CONNECTIONS / 2);
	for (size_t k = 0; k < ARRAY_SIZE(held); k++)
		close(held[k]);
	close(fd);
	end(&s);
}

/* All places are taken by who calls, and takes no answer; is another one heard? */
static void expect_room_beside_unread(const char *owner)
{
	int held[CONNECTIONS], fd;
	struct scene s;

	begin(&s);
	for (size_t k = 0; k < ARRAY_SIZE(held); k++) {
		held[k] = begin_post(&s, "/large", owner, 0);
		for (int t = 0; t < 4; t++)
			turn(&s);
	}
	fd = begin_post(&s, "/", "other", 0);
	cr_expect_eq(answer(&s, fd), 200);
	for (size_t k = 0; k < ARRAY_SIZE(held); k++)
		close(held[k]);
	close(fd);
	end(&s);
}

Test(httpd, answers_that_one_owner_does_not_take_leave_half_of_the_places)
{
	expect_room_beside_unread("one");
}

Test(httpd, answers_that_nobody_known_does_not_take_give_way)
{
	expect_room_beside_unread("");
}

/* Each of `owners` in turn calls and takes nothing; what of it is in memory? */
static void expect_bounded_answers(const char *const *owners, size_t n,
				   const char *last, int status)
{
	int held[CONNECTIONS / 2], fd;
	struct httpd_stats st;
	struct scene s;

	begin(&s);
	for (size_t k = 0; k < ARRAY_SIZE(held); k++) {
		held[k] = begin_post(&s, "/own", owners[k % n], 0);
		for (int t = 0; t < 4; t++)
			turn(&s);
	}
	httpd_get_stats(s.server, &st);
	cr_expect_leq(st.answer_bytes, ANSWERS * (16u << 20));
	fd = begin_post(&s, "/own", last, 0);
	cr_expect_eq(answer(&s, fd), status);
	httpd_get_stats(s.server, &st);
	cr_expect_leq(st.answer_bytes, ANSWERS * (16u << 20));
	for (size_t k = 0; k < ARRAY_SIZE(held); k++)
		close(held[k]);
	close(fd);
	end(&s);
}

Test(httpd, answers_that_one_owner_does_not_take_fill_no_memory)
{
	static const char *const one[] = { "one" };

	expect_bounded_answers(one, 1, "other", 200);
	expect_bounded_answers(one, 1, "one", 503);
}

Test(httpd, answers_that_many_do_not_take_fill_no_memory)
{
	static const char *const many[] = { "a", "b", "c", "d",
					    "e", "f", "g", "h" };
	static const char *const nobody[] = { "" };

	expect_bounded_answers(many, ARRAY_SIZE(many), "other", 200);
	expect_bounded_answers(nobody, 1, "", 200);
}

Test(httpd, who_was_refused_and_sends_no_body_has_a_place_for_a_moment)
{
	struct httpd_stats st;
	struct scene s;
	int fd;

	begin(&s);
	fd = begin_post(&s, "/refused", "one", MEMORY);
	cr_expect_eq(answer(&s, fd), 401);
	for (int k = 0; k < TURNS; k++) {
		turn(&s);
		httpd_get_stats(s.server, &st);
		if (st.connections == 0)
			break;
	}
	cr_expect_eq(st.connections, 0);
	close(fd);
	end(&s);
}

/* Read the answers until the server closes: all that came before are among them. */
static void read_all(struct scene *s, int fd, char *out, size_t size)
{
	size_t n = 0;
	ssize_t k = -1;

	for (int t = 0; t < TURNS && k != 0; t++) {
		turn(s);
		k = recv(fd, out + n, size - 1 - n, MSG_DONTWAIT);
		n += k > 0 ? (size_t)k : 0;
	}
	cr_expect_eq(k, 0, "it closes");
	out[n] = '\0';
}

static size_t count_of(const char *text, const char *what)
{
	size_t n = 0;

	while ((text = strstr(text, what))) {
		text += strlen(what);
		n++;
	}
	return n;
}

Test(httpd, answers_all_that_came_before_the_client_ended_what_it_sends)
{
	static const char three[] = "GET /slow HTTP/1.1\r\n\r\n"
				    "POST / HTTP/1.1\r\nContent-Length: 4\r\n"
				    "\r\nbodyGET /refused HTTP/1.1\r\n\r\n"
				    "GET / HTTP/1.1\r\nCut: ";
	struct httpd_reply reply = HTTPD_REPLY_INIT;
	char out[2048];
	struct scene s;
	int fd;

	begin(&s);
	fd = connect_it(&s);
	cr_assert_eq(send(fd, three, sizeof(three) - 1, 0),
		     (ssize_t)sizeof(three) - 1);
	cr_assert_eq(shutdown(fd, SHUT_WR), 0);
	for (int t = 0; t < TURNS && n_slow == 0; t++)
		turn(&s);
	cr_assert_eq(n_slow, 1);
	/* Its end was seen before the first one is answered. */
	turn(&s);
	httpd_answer(slow[--n_slow], &reply);
	read_all(&s, fd, out, sizeof(out));
	cr_expect_eq(count_of(out, "HTTP/1.1 200 "), 2, "%s", out);
	cr_expect_eq(count_of(out, "HTTP/1.1 401 "), 1, "%s", out);
	cr_expect_eq(count_of(out, "HTTP/1.1 "), 3, "%s", out);
	close(fd);
	end(&s);
}

Test(httpd, does_not_mind_an_empty_line_before_a_request)
{
	static const char two[] = "\r\nPOST / HTTP/1.1\r\nContent-Length: 4"
				  "\r\n\r\nbody\r\n\r\n"
				  "GET / HTTP/1.1\r\nConnection: close"
				  "\r\n\r\n";
	char out[2048];
	struct scene s;
	int fd;

	begin(&s);
	fd = connect_it(&s);
	/* The line's end may come later. */
	cr_assert_eq(send(fd, two, 1, 0), 1);
	for (int t = 0; t < 4; t++)
		turn(&s);
	cr_assert_eq(send(fd, two + 1, sizeof(two) - 2, 0),
		     (ssize_t)sizeof(two) - 2);
	read_all(&s, fd, out, sizeof(out));
	cr_expect_eq(count_of(out, "HTTP/1.1 200 "), 2, "%s", out);
	cr_expect_eq(count_of(out, "HTTP/1.1 "), 2, "%s", out);
	close(fd);
	end(&s);
}
