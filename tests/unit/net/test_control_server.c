// SPDX-License-Identifier: Apache-2.0
/* The control socket with real connections; what it answers is made up. */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/clock.h"
#include "net/control.h"
#include "net/control_client.h"
#include "net/control_server.h"
#include "net/lanes.h"
#include "net/listener.h"
#include "tests/unit/accepts.h"
#include "tests/unit/lingering.h"
#include "tests/unit/pause.h"

TestSuite(control_server, .timeout = 120);

#define BODY_MAX 4096
#define CALL_BEGIN "POST /v1/"
#define CALL_END " HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n"
/* A call after which the connection ends. */
#define LAST_CALL CALL_BEGIN "x.y" CALL_END "Connection: close\r\n\r\n"

static char dir[32];
static char path[64];
static struct loop *loop;
static struct pool *pool, *slow_pool;
static struct lanes *lanes;
static struct control_server *server;
static pthread_t thread;
static atomic_int at_once, most;
static atomic_int strangers; /* calls that another process is said to make */
static pthread_barrier_t both;

/* Calls of "slow:NAME" are in the lane NAME until they are released, or until the
 * peer leaves. */
#define SLOW_THREADS 8
#define SLOW_AT_ONCE 2
#define SLOW_WAITING 3
static atomic_int slow_inside, slow_left;
static atomic_bool slow_released;

static bool is_slow(struct control_call *call, const char *method)
{
	if (strncmp(method, "slow:", 5) != 0)
		return false;
	if (call->kind == CONTROL_REMOTE) {
		atomic_fetch_add(&slow_inside, 1);
		while (!atomic_load(&slow_released) &&
		       !atomic_load(&call->is_gone))
			unit_pause();
		/* Who is told of one that left finds its place free. */
		atomic_fetch_sub(&slow_inside, 1);
		atomic_fetch_add(&slow_left, atomic_load(&call->is_gone));
		return false;
	}
	call->kind = CONTROL_REMOTE;
	snprintf(call->lane, sizeof(call->lane), "%.32s", method + 5);
	return true;
}

/* "goes" is left by its peer before it comes to the thread that does it; "gives" is
 * the same without having to be done. */
static atomic_int done_for_nobody;

static bool is_left(struct control_call *call, const char *method)
{
	bool goes_on = strcmp(method, "goes") == 0;

	if (!goes_on && strcmp(method, "gives") != 0)
		return false;
	if (call->kind == CONTROL_REMOTE) {
		atomic_fetch_add(&done_for_nobody, goes_on ? 1 : 100);
		return false;
	}
	while (!atomic_load(&call->is_gone))
		unit_pause();
	call->kind = CONTROL_REMOTE;
	call->goes_on = goes_on;
	return true;
}

/* "wait" returns when two are inside at once; everything else at once. */
static int answer(void *arg, struct control_call *call, struct buf *reply)
{
	const struct httpd_peer *peer = call->peer;
	struct control_request r;
	struct error err = ERROR_INIT;
	AUTO_JSON *result = NULL;
	int n = atomic_fetch_add(&at_once, 1) + 1;
	int before = atomic_load(&most);

	(void)arg;
	while (n > before && !atomic_compare_exchange_weak(&most, &before, n))
		;
	if (control_call_parse(call->path, call->body, call->len, &r, &err) <
	    0) {
		atomic_fetch_sub(&at_once, 1);
		return control_fail(&err, reply);
	}
	if (is_slow(call, r.method) || is_left(call, r.method)) {
		control_request_fini(&r);
		atomic_fetch_sub(&at_once, 1);
		return CONTROL_LATER;
	}
	if (strcmp(r.method, "wait") == 0)
		pthread_barrier_wait(&both);
	if (peer->pid != getpid() ||
	    (peer->pidfd >= 0 &&
	     pidfd_send_signal(peer->pidfd, 0, NULL, 0) < 0))
		atomic_fetch_add(&strangers, 1);
	result = json_pack("{s:s}", "method", r.method);
	control_request_fini(&r);
	atomic_fetch_sub(&at_once, 1);
	return control_reply_format(result, reply, NULL) < 0 ? -ENOMEM
							     : HTTPD_OK;
}

static void *run_loop(void *arg)
{
	(void)arg;
	(void)!loop_run(loop, NULL);
	control_server_stop(server);
	pool_free(pool);
	pool_free(slow_pool);
	return NULL;
}

static void tell_full(const char *lane, char *ret, size_t size)
{
	(void)snprintf(ret, size, "registry %s has no room", lane);
}

/* All of one group. */
static uint64_t group(const struct httpd_peer *peer)
{
	(void)peer;
	return 1;
}

static void start_for(bool everybody)
{
	struct control_server_config cfg = { .name = "control",
					     .body_max = BODY_MAX,
					     .option = "choose another",
					     .group = everybody ? group : NULL,
					     .lane_is_full = tell_full,
					     .answer = answer };
	struct error err = ERROR_INIT;

	(void)signal(SIGPIPE, SIG_IGN); /* as daemon_signals_start() has it */
	strcpy(dir, "/tmp/server.XXXXXX");
	cr_assert(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/sock", dir);
	cr_assert_eq(pthread_barrier_init(&both, NULL, 2), 0);
	cr_assert_eq(loop_new(&loop, &err), 0);
	cr_assert_eq(pool_new(loop, 4, 0, &pool, &err), 0);
	cr_assert_eq(pool_new(loop, SLOW_THREADS, 0, &slow_pool, &err), 0);
	lanes = lanes_new(
		&(struct lanes_config){ .all = SLOW_THREADS,
					.at_once = SLOW_AT_ONCE,
					.waiting = SLOW_WAITING,
					.strange_most = SLOW_THREADS });
	cr_assert(lanes);
	cfg.path = path;
	cfg.loop = loop;
	cfg.pools[CONTROL_QUICK] = pool;
	cfg.pools[CONTROL_REMOTE] = slow_pool;
	cfg.lanes = lanes;
	cr_assert_eq(control_server_new(&cfg, &server, &err), 0, "%s", err.msg);
	cr_assert_eq(pthread_create(&thread, NULL, run_loop, NULL), 0);
}

static void start(void)
{
	start_for(false);
}

static void stop(void)
{
	/* The loop may end while it is still being woken. */
	loop_stop(loop);
	pthread_join(thread, NULL);
	loop_free(loop);
	control_server_free(server);
	lanes_free(lanes);
	cr_expect_neq(access(path, F_OK), 0, "the socket is gone");
	rmdir(dir);
}

static int open_client(uint32_t timeout_ms, struct control_client **ret)
{
	const struct control_client_config cfg = {
		.path = path,
		.server = "the server",
		.timeout_ms = timeout_ms,
	};

	return control_client_open(&cfg, ret, NULL);
}

/* The answer as text, the caller's. */
static int ask(struct control_client *c, const char *method, char **ret)
{
	AUTO_JSON *out = NULL;
	int rc = control_client_call(c, method, NULL, &out, NULL);

	if (rc == 0)
		*ret = json_dumps(out, JSON_COMPACT);
	return rc;
}

static int raw_socket(void)
{
	return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static void raw_connect_it(int fd)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	strcpy(addr.sun_path, path);
	cr_assert_eq(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
}

static int raw_connect(void)
{
	int fd = raw_socket();

	raw_connect_it(fd);
	return fd;
}

/* Everything until the other side closes. */
static size_t read_all(int fd, char *out, size_t size)
{
	size_t n = 0;
	ssize_t k;

	while ((k = read(fd, out + n, size - 1 - n)) > 0)
		n += (size_t)k;
	out[n] = '\0';
	return n;
}

Test(control_server, answers_several_calls_of_one_connection)
{
	struct control_client *c = NULL;
	char *out = NULL;

	start();
	cr_assert_eq(open_client(5000, &c), 0);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(ask(c, "x.y", &out), 0);
		cr_expect_str_eq(out, "{\"method\":\"x.y\"}");
		free(out);
	}
	control_client_close(c);
	stop();
	cr_expect_eq(atomic_load(&strangers), 0);
}

static void *call_wait(void *arg)
{
	struct control_client *c = NULL;
	char *out = NULL;
	int rc = open_client(20000, &c);

	(void)arg;
	if (rc == 0)
		rc = ask(c, "wait", &out);
	free(out);
	control_client_close(c);
	return rc == 0 ? arg : NULL;
}

Test(control_server, works_for_several_connections_at_once)
{
	pthread_t t[2];
	void *ok;
	int token;

	start();
	for (int i = 0; i < 2; i++)
		cr_assert_eq(pthread_create(&t[i], NULL, call_wait, &token), 0);
	for (int i = 0; i < 2; i++) {
		pthread_join(t[i], &ok);
		cr_expect_not_null(ok);
	}
	cr_expect_eq(atomic_load(&most), 2);
	stop();
}

Test(control_server, answers_calls_that_came_together_in_order)
{
	static const char two[] =
		CALL_BEGIN "a" CALL_END "\r\n" CALL_BEGIN "b" CALL_END
			   "Connection: close\r\n\r\n";
	char out[1024];
	int fd;

	start();
	fd = raw_connect();
	cr_assert_eq(write(fd, two, sizeof(two) - 1), (ssize_t)sizeof(two) - 1);
	read_all(fd, out, sizeof(out));
	cr_assert(strstr(out, "\"a\"") && strstr(out, "\"b\""), "%s", out);
	cr_expect_lt((void *)strstr(out, "\"a\""),
		     (void *)strstr(out, "\"b\""));
	close(fd);
	stop();
}

/* Read the answer to `text` until the server closes. */
static void ask_text(const char *text, char *out, size_t size)
{
	int fd = raw_connect();

	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	read_all(fd, out, size);
	close(fd);
}

Test(control_server, refuses_what_is_no_call_and_says_why)
{
	char out[1024];

	start();
	ask_text("POST /v1/x HTTP/1.1\r\nHost: x\r\nContent-Length: 4097\r\n"
		 "Connection: close\r\nExpect: 100-continue\r\n\r\n",
		 out, sizeof(out));
	cr_expect(strstr(out, " 413 ") && strstr(out, "larger than allowed"),
		  "%s", out);
	ask_text("GET /v1/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		 out, sizeof(out));
	cr_expect(strstr(out, " 405 ") && strstr(out, "Allow: POST"), "%s",
		  out);
	ask_text("POST /v2/x HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n"
		 "Connection: close\r\n\r\n",
		 out, sizeof(out));
	cr_expect(strstr(out, " 405 ") && strstr(out, "of one release"), "%s",
		  out);
	ask_text("POST /v1/x HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
		 "Connection: close\r\n\r\n[]",
		 out, sizeof(out));
	cr_expect(strstr(out, " 400 ") && strstr(out, "params is no object"),
		  "%s", out);
	stop();
}

/* The refusal of a body that is still sent is read, and not EPIPE. */
Test(control_server, a_client_that_sends_what_is_too_large_is_told_so)
{
	static const char *const ends[] = { "", "Connection: close\r\n" };
	static char body[1 << 20];
	char text[256], out[1024];

	start();
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		int fd = raw_connect();
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int n = snprintf(text, sizeof(text),
				 "POST /v1/x HTTP/1.1\r\nHost: x\r\n%s"
				 "Content-Length: %zu\r\n\r\n",
				 ends[i], sizeof(body));

		cr_assert_eq(send(fd, text, (size_t)n, 0), n);
		cr_assert_eq(poll(&p, 1, 60000), 1);
		cr_expect_eq(send(fd, body, sizeof(body), MSG_NOSIGNAL),
			     (ssize_t)sizeof(body), "%s", strerror(errno));
		cr_assert_eq(shutdown(fd, SHUT_WR), 0);
		read_all(fd, out, sizeof(out));
		cr_expect(strstr(out, " 413 "), "%s", out);
		close(fd);
	}
	stop();
}

Test(control_server, does_not_mind_an_empty_line_before_a_call)
{
	char out[1024];

	start();
	ask_text("\r\n" LAST_CALL, out, sizeof(out));
	cr_expect(strstr(out, "\"x.y\""), "%s", out);
	stop();
}

/* An older program waits for the end of a line, and shows a line's message. */
Test(control_server,
     a_program_that_sends_lines_is_told_at_once_that_it_is_older)
{
	struct error err = ERROR_INIT;
	json_t *result = NULL;
	char out[1024];

	start();
	ask_text("{\"bootseer\":1,\"method\":\"x.y\"}\n", out, sizeof(out));
	cr_expect_eq(strchr(out, '\n'), out + strlen(out) - 1, "%s", out);
	cr_expect_eq(control_reply_parse(out, strlen(out), &result, &err),
		     -EINVAL);
	cr_expect(strstr(err.msg, "of one release"), "%s", err.msg);
	stop();
}

Test(control_server, survives_peers_that_leave_in_the_middle)
{
	struct control_client *c = NULL;
	char *out = NULL;
	int fd;

	start();
	for (int i = 0; i < 20; i++) {
		fd = raw_connect();
		cr_assert_gt(write(fd, LAST_CALL, 20 + (size_t)i * 2), 0);
		close(fd);
	}
	cr_assert_eq(open_client(5000, &c), 0);
	cr_expect_eq(ask(c, "still", &out), 0);
	free(out);
	control_client_close(c);
	stop();
}

Test(control_server, gives_the_place_of_whoever_is_silent_longest_to_others)
{
	int fds[2 * CONTROL_CONNECTIONS_MAX];
	char byte;

	start();
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = raw_connect();
	cr_expect_eq(read(fds[0], &byte, 1), 0);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		close(fds[i]);
	stop();
}

Test(control_server, is_heard_by_all_while_others_keep_their_places_silently)
{
	int fds[2 * CONTROL_CONNECTIONS_MAX];
	char out[256];

	start_for(true);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = raw_connect();
	for (int i = 0; i < 10; i++) {
		ask_text(LAST_CALL, out, sizeof(out));
		cr_expect(strstr(out, "x.y"), "%d: '%s'", i, out);
	}
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		close(fds[i]);
	stop();
}

#define PASS_RIGHTS 83 /* SO_PASSRIGHTS, Linux 6.16 */
static atomic_bool is_old_kernel;

/* The server's calls come here, too. */
int setsockopt(int fd, int level, int option, const void *value, socklen_t len)
{
	if (level == SOL_SOCKET && option == PASS_RIGHTS &&
	    atomic_load(&is_old_kernel)) {
		errno = ENOPROTOOPT;
		return -1;
	}
	return (int)syscall(SYS_setsockopt, fd, level, option, value, len);
}

/* Half of them leave before it is read, and one is never read. */
static void expect_heard_beside_lingerers(void)
{
	int peers[12], fds[ARRAY_SIZE(peers)];
	char out[256];

	start_for(true);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = raw_connect();
		peers[i] = lingering_send(fds[i]);
		cr_expect(peers[i] >= 0 || peers[i] == -EPERM, "%d", peers[i]);
		if (i % 2)
			close(fds[i]);
	}
	ask_text(LAST_CALL, out, sizeof(out));
	cr_expect(strstr(out, "x.y"), "'%s'", out);
	stop();
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		if (peers[i] >= 0)
			close(peers[i]);
		if (i % 2 == 0)
			close(fds[i]);
	}
}

Test(control_server, is_heard_while_others_send_what_takes_long_to_close)
{
	expect_heard_beside_lingerers();
}

Test(control_server, is_heard_beside_them_on_older_kernels)
{
	atomic_store(&is_old_kernel, true);
	expect_heard_beside_lingerers();
}

/* A loop that spins would find none again and again at once. */
Test(control_server, waits_while_descriptors_are_short_without_spinning)
{
	char out[256] = "";
	int64_t begun;
	int fd;

	start();
	fd = raw_socket();
	accepts_starve();
	begun = clock_now_ns();
	raw_connect_it(fd);
	while (atomic_load(&accepts_starved) < 3)
		unit_pause();
	cr_expect_geq(clock_now_ns() - begun, 2 * SHORTAGE_PAUSE_NS);
	accepts_feed();
	cr_assert_eq(write(fd, LAST_CALL, strlen(LAST_CALL)),
		     (ssize_t)strlen(LAST_CALL));
	(void)read_all(fd, out, sizeof(out));
	cr_expect(strstr(out, "x.y"), "%s", out);
	close(fd);
	stop();
}

/* ------------------------------------------------------- calls that wait --- */

static int call_raw(const char *method)
{
	char line[256];
	int fd = raw_connect();
	int n = snprintf(line, sizeof(line),
			 CALL_BEGIN "%s" CALL_END "Connection: close\r\n\r\n",
			 method);

	cr_assert_eq(write(fd, line, (size_t)n), n);
	return fd;
}

static int call_slow(const char *lane)
{
	char method[64];

	(void)snprintf(method, sizeof(method), "slow:%s", lane);
	return call_raw(method);
}

static void until(const atomic_int *what, int value)
{
	while (atomic_load(what) != value)
		unit_pause();
}

/* A call that waits for nobody is answered. */
static void expect_quick(void)
{
	struct control_client *c = NULL;
	char *out = NULL;

	cr_assert_eq(open_client(20000, &c), 0);
	cr_expect_eq(ask(c, "quick", &out), 0);
	free(out);
	control_client_close(c);
}

static void expect_answer(int fd, const char *part)
{
	char out[1024];

	read_all(fd, out, sizeof(out));
	cr_expect(strstr(out, part), "%s", out);
	close(fd);
}

Test(control_server, answers_quick_calls_while_slow_ones_wait)
{
	int fds[SLOW_AT_ONCE + SLOW_WAITING], other;
	size_t i;

	start();
	for (i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = call_slow("one");
	until(&slow_inside, SLOW_AT_ONCE);
	expect_quick();
	/* Another lane has places of its own. */
	other = call_slow("two");
	until(&slow_inside, SLOW_AT_ONCE + 1);
	atomic_store(&slow_released, true);
	for (i = 0; i < ARRAY_SIZE(fds); i++)
		expect_answer(fds[i], "slow:one");
	expect_answer(other, "slow:two");
	stop();
}

Test(control_server, refuses_what_waits_beyond_a_lane_and_says_which)
{
	enum { ALL = SLOW_AT_ONCE + SLOW_WAITING + 1 };
	int fds[ALL], refused = 0;
	char out[1024];

	start();
	for (int i = 0; i < ALL; i++)
		fds[i] = call_slow("h:5000");
	until(&slow_inside, SLOW_AT_ONCE);
	/* Whichever came last: it alone is answered and closed. */
	while (!refused) {
		struct pollfd p[ALL];

		for (int i = 0; i < ALL; i++)
			p[i] = (struct pollfd){ .fd = fds[i],
						.events = POLLIN };
		cr_assert_gt(poll(p, ALL, -1), 0);
		for (int i = 0; i < ALL; i++) {
			if (!p[i].revents)
				continue;
			read_all(fds[i], out, sizeof(out));
			cr_expect(strstr(out, "registry h:5000"), "%s", out);
			refused++;
		}
	}
	cr_expect_eq(refused, 1);
	atomic_store(&slow_released, true);
	for (int i = 0; i < ALL; i++)
		close(fds[i]);
	stop();
}

Test(control_server, a_client_that_leaves_ends_its_call_and_frees_its_place)
{
	int fds[SLOW_AT_ONCE], last;

	start();
	for (int i = 0; i < SLOW_AT_ONCE; i++)
		fds[i] = call_slow("one");
	until(&slow_inside, SLOW_AT_ONCE);
	last = call_slow("one");
	close(fds[0]);
	until(&slow_left, 1);
	until(&slow_inside, SLOW_AT_ONCE); /* the one that waited */
	close(fds[1]);
	close(last);
	until(&slow_left, SLOW_AT_ONCE + 1);
	until(&slow_inside, 0);
	expect_quick();
	stop();
}

Test(control_server, does_what_has_to_be_done_for_a_client_that_left_too)
{
	int gives, goes;

	start();
	atomic_store(&done_for_nobody, 0);
	gives = call_raw("gives");
	until(&at_once, 1);
	close(gives);
	until(&at_once, 0);
	goes = call_raw("goes");
	until(&at_once, 1);
	close(goes);
	until(&done_for_nobody, 1);
	expect_quick();
	stop();
	cr_expect_eq(atomic_load(&done_for_nobody), 1);
}

Test(control_server, a_client_that_ends_what_it_sends_has_its_answer)
{
	int fd;

	start();
	fd = call_slow("one");
	until(&slow_inside, 1);
	cr_assert_eq(shutdown(fd, SHUT_WR), 0);
	expect_quick();
	cr_expect_eq(atomic_load(&slow_inside), 1);
	atomic_store(&slow_released, true);
	expect_answer(fd, "slow:one");
	stop();
}

/* A second server beside the one of start(), on its own loop. */
static int second_server(struct error *err)
{
	struct control_server_config cfg = { .answer = answer,
					     .name = "second",
					     .path = path,
					     .option = "choose another" };
	struct control_server *s = NULL;
	int rc;

	cr_assert_eq(loop_new(&cfg.loop, NULL), 0);
	cr_assert_eq(pool_new(cfg.loop, 1, 0, &cfg.pools[CONTROL_QUICK], NULL),
		     0);
	rc = control_server_new(&cfg, &s, err);
	if (rc == 0)
		control_server_stop(s);
	pool_free(cfg.pools[CONTROL_QUICK]);
	loop_free(cfg.loop);
	control_server_free(s);
	return rc;
}

Test(control_server, takes_over_a_socket_that_a_crash_left_but_no_other)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct error err = ERROR_INIT;
	int fd;

	start();
	cr_expect_eq(second_server(&err), -EADDRINUSE);
	stop();

	cr_assert(mkdir(dir, 0700) == 0);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	strcpy(addr.sun_path, path);
	cr_assert_eq(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	close(fd);
	cr_expect_eq(second_server(&err), 0, "%s", err.msg);
	rmdir(dir);
}
