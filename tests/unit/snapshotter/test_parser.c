// SPDX-License-Identifier: Apache-2.0
/*
 * bootseerd's side of the parser, against a parser whose jobs are malicious.  This program is
 * that parser too, when it runs under the parser's name; the size of the file to check tells a
 * job what to do.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fs.h"
#include "snapshotter/node/parser/parser_priv.h"

enum hostile {
	GOOD = 1,      /* replies and ends */
	SAYS_TOO_MUCH, /* replies, sends more bytes, and stays */
	STAYS,         /* replies, and stays */
	SLEEPS,        /* never replies */
	DIES,          /* ends without a reply */
	/* replies success, and writes to the file afterwards */
	WRITES_AND_STAYS
};

/* --------------------------------------------------------------- the parser --- */

static void hostile_do(const struct parser_job *job,
		       const int fds[PARSER_N_FDS], uint64_t memory)
{
	const struct parser_reply good = { .rc = 0 };
	const struct parser_reply two[2] = { { .rc = 0 } };

	(void)memory;
	switch ((enum hostile)job->size) {
	case GOOD:
		(void)!write(fds[PARSER_FD_REPLY], &good, sizeof(good));
		_exit(0);
	case SAYS_TOO_MUCH:
		(void)!write(fds[PARSER_FD_REPLY], two, sizeof(two));
		break;
	case STAYS:
		(void)!write(fds[PARSER_FD_REPLY], &good, sizeof(good));
		break;
	case WRITES_AND_STAYS:
		/* Close the pipe, so that only the end of the process shows that the job is
		 * over. */
		(void)!write(fds[PARSER_FD_REPLY], &good, sizeof(good));
		(void)close(fds[PARSER_FD_REPLY]);
		break;
	case DIES:
		_exit(0);
	case SLEEPS:
		break;
	}
	for (;;)
		(void)pause();
}

/* Runs before Criterion reads the arguments. */
__attribute__((constructor)) static void be_the_parser(int argc, char **argv)
{
	if (argc != 1 || strcmp(argv[0], PARSER_NAME) != 0)
		return;
	(void)signal(SIGPIPE, SIG_IGN);
	parser_serve(hostile_do, 0);
	_exit(0);
}

/* ------------------------------------------------------------------- fixture --- */

static const struct parser_bounds quick = { .begin = 2000,
					    .stall = 2000,
					    .whole = 60 * 1000 };
static char dir[40];
static struct parser *parser;

static void open_parser(const struct parser_bounds *bounds)
{
	struct error err = ERROR_INIT;

	cr_assert_eq(parser_open_bounded("/proc/self/exe", bounds, &parser,
					 &err),
		     0, "%s", err.msg);
}

static void setup(void)
{
	strcpy(dir, "/tmp/parser.XXXXXX");
	cr_assert(mkdtemp(dir));
}

static void teardown(void)
{
	parser_close(parser);
	cr_assert_eq(fs_remove_tree(dir, NULL), 0);
}

TestSuite(parser, .timeout = 120, .init = setup, .fini = teardown);

static int file_of(enum hostile what)
{
	char path[64];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/file.%d", dir, (int)what);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	cr_assert(fd >= 0);
	return fd;
}

static int begin(enum hostile what, struct artifact_job *ret, struct error *err)
{
	struct artifact_parser *a = parser_of_artifacts(parser);
	int fd = file_of(what);
	int rc = a->check(a, ARTIFACT_META, fd, (uint64_t)what, ret, err);

	(void)close(fd);
	return rc;
}

static int end(struct artifact_job *job, struct error *err)
{
	struct artifact_parser *a = parser_of_artifacts(parser);

	return a->end(a, job, err);
}

/* Has the process ended?  Its PID is not reused: `job` still holds the pidfd. */
static bool is_gone(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* The result of a job; also checks that its process is gone by then. */
static int result_of(enum hostile what, struct error *err)
{
	struct artifact_job job = { .in = -1 };
	int pidfd, rc;

	cr_assert_eq(begin(what, &job, err), 0, "%s", err->msg);
	pidfd = fcntl(job.pidfd, F_DUPFD_CLOEXEC, 0);
	cr_assert(pidfd >= 0);
	rc = end(&job, err);
	cr_expect(is_gone(pidfd), "its process lives");
	(void)close(pidfd);
	return rc;
}

/* ---------------------------------------------------------------------- jobs --- */

Test(parser, counts_a_job_that_answers_and_ends)
{
	struct error err = ERROR_INIT;

	open_parser(&parser_bounds);
	for (int k = 0; k < 100; k++)
		cr_assert_eq(result_of(GOOD, &err), 0, "%s", err.msg);
}

Test(parser, kills_a_job_that_says_more_than_its_reply)
{
	struct error err = ERROR_INIT;

	/* At once: none of these time limits ends within the test. */
	open_parser(&(struct parser_bounds){ .begin = 600 * 1000,
					     .stall = 600 * 1000,
					     .whole = 600 * 1000 });
	cr_expect_eq(result_of(SAYS_TOO_MUCH, &err), -EBADMSG);
	cr_expect(strstr(err.msg, "more than its answer"), "%s", err.msg);
}

Test(parser, does_not_count_a_job_that_answers_and_stays)
{
	struct error err = ERROR_INIT;

	open_parser(&quick);
	cr_expect_eq(result_of(STAYS, &err), -ETIMEDOUT);
	cr_expect(strstr(err.msg, "did nothing"), "%s", err.msg);
}

Test(parser, does_not_take_the_end_of_a_reply_for_the_end_of_its_job)
{
	struct error err = ERROR_INIT;

	open_parser(&quick);
	cr_expect_eq(result_of(WRITES_AND_STAYS, &err), -ETIMEDOUT);
}

Test(parser, kills_a_job_that_sleeps)
{
	struct error err = ERROR_INIT;

	open_parser(&quick);
	cr_expect_eq(result_of(SLEEPS, &err), -ETIMEDOUT);
}

Test(parser, says_of_a_job_that_died_that_it_did)
{
	struct error err = ERROR_INIT;

	open_parser(&parser_bounds);
	cr_expect_eq(result_of(DIES, &err), -EBADMSG);
	cr_expect(strstr(err.msg, "died"), "%s", err.msg);
}

Test(parser, kills_a_job_that_takes_nothing)
{
	struct artifact_job job = { .in = -1 };
	struct error err = ERROR_INIT;
	struct artifact_parser *a;
	int fd = file_of(SLEEPS), pidfd, rc = 0;
	char some[4096] = { 0 };

	open_parser(&quick);
	a = parser_of_artifacts(parser);
	cr_assert_eq(a->unpack(a, fd, SLEEPS, &job, &err), 0, "%s", err.msg);
	pidfd = fcntl(job.pidfd, F_DUPFD_CLOEXEC, 0);
	for (int k = 0; k < 1024 && rc == 0; k++)
		rc = a->put(a, &job, some, sizeof(some), &err);
	cr_expect_eq(rc, -ETIMEDOUT);
	cr_expect_eq(end(&job, &err), -ETIMEDOUT);
	cr_expect(strstr(err.msg, "took nothing"), "%s", err.msg);
	cr_expect(is_gone(pidfd), "its process lives");
	(void)close(pidfd);
	(void)close(fd);
}

/* ---------------------------------------------------------------- the process --- */

/* Stop the parser's process, and wait until it is stopped. */
static void stop_parser(int pid)
{
	int status;

	cr_assert_eq(kill(pid, SIGSTOP), 0);
	cr_assert_eq(waitpid(pid, &status, WUNTRACED), pid);
	cr_assert(WIFSTOPPED(status));
}

Test(parser, is_killed_and_run_again_when_it_is_stuck)
{
	struct error err = ERROR_INIT;
	int before;

	open_parser(&quick);
	before = parser_pid(parser);
	stop_parser(before);
	cr_expect_eq(result_of(GOOD, &err), 0, "%s", err.msg);
	cr_expect_neq(parser_pid(parser), before);
	cr_expect_eq(kill(before, 0), -1);
}

Test(parser, is_run_again_when_it_was_killed)
{
	struct error err = ERROR_INIT;
	int before;

	open_parser(&parser_bounds);
	before = parser_pid(parser);
	cr_assert_eq(kill(before, SIGKILL), 0);
	cr_expect_eq(result_of(GOOD, &err), 0, "%s", err.msg);
	cr_expect_neq(parser_pid(parser), before);
}

Test(parser, takes_no_job_with_it_that_has_begun)
{
	struct artifact_job job = { .in = -1 };
	struct error err = ERROR_INIT;

	open_parser(&quick);
	cr_assert_eq(begin(SLEEPS, &job, &err), 0, "%s", err.msg);
	stop_parser(parser_pid(parser));
	cr_expect_eq(result_of(GOOD, &err), 0, "%s", err.msg);
	cr_expect_not(is_gone(job.pidfd));
	cr_expect_eq(end(&job, &err), -ETIMEDOUT);
}

static void *ask_main(void *arg)
{
	struct artifact_job job = { .in = -1 };
	struct error err = ERROR_INIT;

	*(int *)arg = begin(GOOD, &job, &err);
	if (*(int *)arg == 0)
		*(int *)arg = end(&job, &err);
	return NULL;
}

/* 16 callers wait for a stuck parser at the same time: one after the other they would take 48
 * s, and kill each other's parser. */
Test(parser, holds_all_that_ask_up_for_one_bound_only)
{
	pthread_t threads[16];
	int rcs[16], before;
	struct error err = ERROR_INIT;

	open_parser(&(struct parser_bounds){
		.begin = 3000, .stall = 60 * 1000, .whole = 60 * 1000 });
	before = parser_pid(parser);
	stop_parser(before);
	for (int k = 0; k < 16; k++)
		cr_assert_eq(pthread_create(&threads[k], NULL, ask_main,
					    &rcs[k]),
			     0);
	for (int k = 0; k < 16; k++) {
		cr_assert_eq(pthread_join(threads[k], NULL), 0);
		cr_expect_eq(rcs[k], 0);
	}
	cr_expect_eq(parser->generation, 2);
	cr_expect_eq(result_of(GOOD, &err), 0, "%s", err.msg);
}

Test(parser, that_ends_at_once_is_said)
{
	struct artifact_job job = { .in = -1 };
	struct error err = ERROR_INIT;

	cr_assert_eq(parser_open_bounded("/bin/false", &quick, &parser, &err),
		     0);
	cr_expect_eq(begin(GOOD, &job, &err), -ECHILD);
	cr_expect(strstr(err.msg, "ends at once"), "%s", err.msg);
}
