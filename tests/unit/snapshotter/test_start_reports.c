// SPDX-License-Identifier: Apache-2.0
/* Reports of starts: waiting, kept over a restart, and dropped. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/fs.h"
#include "snapshotter/node/starts/report_files.h"
#include "snapshotter/node/starts/start_reports.h"
#include "tests/unit/pause.h"

TestSuite(start_reports, .timeout = 120);

static char root[32], url[48];
static struct node_config cfg;
static int listener = -1;

static void open_root(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t len = sizeof(a);

	strcpy(root, "/tmp/reports.XXXXXX");
	cr_assert(mkdtemp(root));
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(listener, (struct sockaddr *)&a, sizeof(a)), 0);
	cr_assert_eq(getsockname(listener, (struct sockaddr *)&a, &len), 0);
	/* The port is bound, but not listened on yet. */
	(void)snprintf(url, sizeof(url), "http://127.0.0.1:%d",
		       ntohs(a.sin_port));
	cfg = (struct node_config){ .root = root,
				    .service = url,
				    .node_name = (char *)(uintptr_t) "n1" };
}

static void close_root(void)
{
	(void)close(listener);
	cr_assert_eq(fs_remove_tree(root, NULL), 0);
}

static struct start_reports *open_reports(void)
{
	struct start_reports *r = NULL;
	struct error err = ERROR_INIT;

	cr_assert_eq(start_reports_new(&cfg, &r, &err), 0, "%s", err.msg);
	cr_assert(r);
	return r;
}

static void add(struct start_reports *r, unsigned int number)
{
	static const struct digest image;
	const struct start_reported of = { &image, "h/r", "w" };
	char *body;

	cr_assert(asprintf(&body, "{\"number\":%u}", number) > 0);
	start_reports_add(r, &of, body);
}

static struct start_reports_stats stats_of(struct start_reports *r)
{
	struct start_reports_stats s;

	start_reports_get_stats(r, &s);
	return s;
}

/* ---------------------------------------------------------------- the folder --- */

struct kept {
	char text[4096];
	size_t n;
};

/* Note the number in a body, as "1 2 3 ". */
static int note_kept(void *arg, uint64_t number, const char *path,
		     const char *body)
{
	struct kept *k = arg;
	unsigned int v;

	(void)number;
	cr_assert_eq(strncmp(path, "/v1/images/sha256:", 18), 0);
	cr_assert_eq(sscanf(body, "{\"number\":%u}", &v), 1);
	(void)snprintf(k->text + strlen(k->text),
		       sizeof(k->text) - strlen(k->text), "%u ", v);
	k->n++;
	return 0;
}

static uint64_t look(struct kept *k)
{
	struct report_files *f;
	struct error err = ERROR_INIT;
	char dir[64];
	uint64_t dropped;

	*k = (struct kept){ .n = 0 };
	(void)snprintf(dir, sizeof(dir), "%s/start-reports", root);
	cr_assert_eq(report_files_open(dir, &f, &err), 0, "%s", err.msg);
	cr_assert_eq(report_files_load(f, 1000, START_REPORT_BYTES, note_kept,
				       k, &dropped, &err),
		     0, "%s", err.msg);
	report_files_close(f);
	return dropped;
}

static void write_file(const char *name, const char *text)
{
	char path[96];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/start-reports/%s", root, name);
	f = fopen(path, "w");
	cr_assert(f);
	cr_assert(fputs(text, f) >= 0);
	cr_assert_eq(fclose(f), 0);
}

Test(start_reports, that_are_not_sent_wait_for_the_next_one, .init = open_root,
     .fini = close_root)
{
	struct start_reports *r = open_reports();
	struct kept k;

	for (unsigned int i = 1; i <= 3; i++)
		add(r, i);
	cr_expect_eq(stats_of(r).waiting, 3);
	start_reports_free(r);
	cr_expect_eq(look(&k), 0);
	cr_expect_str_eq(k.text, "1 2 3 ");

	r = open_reports();
	cr_expect_eq(stats_of(r).waiting, 3);
	add(r, 4);
	start_reports_free(r);
	cr_expect_eq(look(&k), 0);
	cr_expect_str_eq(k.text, "1 2 3 4 ");
}

Test(start_reports, keep_the_newest_when_there_are_too_many, .init = open_root,
     .fini = close_root)
{
	struct start_reports *r = open_reports();
	struct kept k;

	for (unsigned int i = 1; i <= START_REPORTS_MAX; i++)
		add(r, i);
	start_reports_free(r);
	/* With the reports of the last run there would be twice as many as allowed. */
	r = open_reports();
	for (unsigned int i = 1; i <= START_REPORTS_MAX; i++)
		add(r, 100 + i);
	start_reports_free(r);
	r = open_reports();
	cr_expect_eq(stats_of(r).waiting, START_REPORTS_MAX);
	start_reports_free(r);
	(void)look(&k);
	cr_expect_eq(k.n, START_REPORTS_MAX);
	cr_expect_eq(strncmp(k.text, "101 102 ", 8), 0, "%s", k.text);
}

Test(start_reports, drop_files_that_are_none, .init = open_root,
     .fini = close_root)
{
	struct start_reports *r = open_reports();
	struct kept k;

	add(r, 1);
	start_reports_free(r);
	write_file("0000000000000002.report", "");
	write_file("0000000000000003.report", "/v1/images/sha256:a\n{\"numb");
	write_file("0000000000000004.report", "/v1/images/sha256:a");
	write_file("0000000000000005.report", "x\n{\"number\":5}");
	write_file("5.report", "somebody else's");
	r = open_reports();
	cr_expect_eq(stats_of(r).waiting, 1);
	cr_expect_eq(stats_of(r).dropped, 4);
	start_reports_free(r);
	cr_expect_eq(look(&k), 0);
	cr_expect_str_eq(k.text, "1 ");
}

/* ---------------------------------------------------------------- the service --- */

struct fake_service {
	pthread_t thread;
	const char *answer;
	size_t n; /* number of requests to answer */
	char bodies[256];
};

/* Answer one request, and note its body. */
static void serve_one(struct fake_service *s, int fd)
{
	char text[4096], *body = NULL;
	size_t n = 0;

	while (!body || !strchr(body, '}')) {
		ssize_t got = recv(fd, text + n, sizeof(text) - 1 - n, 0);

		cr_assert(got > 0);
		n += (size_t)got;
		text[n] = '\0';
		body = strstr(text, "\r\n\r\n");
	}
	cr_assert(strstr(text, "Bootseer-Node: n1\r\n"));
	strcat(strcat(s->bodies, body + 4), " ");
	cr_assert_eq(send(fd, s->answer, strlen(s->answer), MSG_NOSIGNAL),
		     (ssize_t)strlen(s->answer));
}

static void *serve(void *arg)
{
	struct fake_service *s = arg;

	for (size_t i = 0; i < s->n; i++) {
		int fd = accept(listener, NULL, NULL);

		cr_assert(fd >= 0);
		serve_one(s, fd);
		(void)close(fd);
	}
	return NULL;
}

static void expect_answered(const char *answer, uint64_t sent)
{
	struct fake_service s = { .answer = answer, .n = 2 };
	struct start_reports *r = open_reports();
	struct kept k;

	/* Two reports wait; the next bootseerd sends them. */
	add(r, 1);
	add(r, 2);
	start_reports_free(r);
	cr_assert_eq(listen(listener, 8), 0);
	cr_assert_eq(pthread_create(&s.thread, NULL, serve, &s), 0);
	r = open_reports();
	(void)pthread_join(s.thread, NULL);
	/* The answer to the last report may not have been read yet. */
	while (stats_of(r).waiting)
		unit_pause();
	cr_expect_eq(stats_of(r).sent, sent);
	cr_expect_eq(stats_of(r).dropped, 2 - sent);
	start_reports_free(r);
	cr_expect_str_eq(s.bodies, "{\"number\":1} {\"number\":2} ");
	(void)look(&k);
	cr_expect_eq(k.n, 0);
}

Test(start_reports, are_sent_by_the_next_one_the_oldest_first,
     .init = open_root, .fini = close_root)
{
	expect_answered("HTTP/1.1 200 OK\r\nConnection: close\r\n"
			"Content-Length: 2\r\n\r\n{}",
			2);
}

Test(start_reports, that_the_service_refuses_are_dropped, .init = open_root,
     .fini = close_root)
{
	expect_answered("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n"
			"Content-Length: 2\r\n\r\n{}",
			0);
}

Test(start_reports, are_none_without_a_service, .init = open_root,
     .fini = close_root)
{
	struct start_reports *r = NULL;

	cfg.service = NULL;
	cr_assert_eq(start_reports_new(&cfg, &r, NULL), 0);
	cr_expect_eq(r, NULL);
	add(r, 1);
	cr_expect_eq(stats_of(r).waiting, 0);
	start_reports_free(r);
}
