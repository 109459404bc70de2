// SPDX-License-Identifier: Apache-2.0
/* Runs each test in a process of its own and prints TAP. */
#include <criterion/criterion.h>

#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

#define TIMEOUT 300 /* seconds, where a suite says nothing */
#define FAILED 99   /* exit status; the sanitizer's own is 66 */

static struct tsan_test *tests, *suites;
static bool failed;

void tsan_add_test(struct tsan_test *t)
{
	t->next = tests;
	tests = t;
}

void tsan_add_suite(struct tsan_test *t)
{
	t->next = suites;
	suites = t;
}

void tsan_failed(bool fatal, const char *file, int line, const char *what,
		 const char *fmt, ...)
{
	va_list ap;

	printf("# %s:%d: %s: ", file, line, what);
	va_start(ap, fmt);
	(void)vprintf(fmt, ap);
	va_end(ap);
	(void)putchar('\n');
	(void)fflush(stdout);
	failed = true;
	if (fatal)
		_exit(FAILED);
}

static const struct tsan_options *suite_of(const struct tsan_test *t)
{
	static const struct tsan_options none;

	for (const struct tsan_test *s = suites; s; s = s->next)
		if (strcmp(s->suite, t->suite) == 0)
			return &s->options;
	return &none;
}

static void run_here(const struct tsan_test *t, const struct tsan_options *s)
{
	double timeout = t->options.timeout > 0 ? t->options.timeout
			 : s->timeout > 0       ? s->timeout
						: TIMEOUT;

	/* Several times slower under the sanitizer. */
	(void)alarm((unsigned int)(timeout * 10));
	if (s->init)
		s->init();
	if (t->options.init)
		t->options.init();
	t->run();
	if (t->options.fini)
		t->options.fini();
	if (s->fini)
		s->fini();
	exit(failed ? FAILED : 0);
}

static bool run_apart(const struct tsan_test *t)
{
	int status = 0;
	pid_t pid;

	(void)fflush(stdout);
	pid = fork();
	if (pid == 0)
		run_here(t, suite_of(t));
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return false;
	if (t->options.signal)
		return WIFSIGNALED(status) &&
		       WTERMSIG(status) == t->options.signal;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(void)
{
	int n = 0, bad = 0;

	for (const struct tsan_test *t = tests; t; t = t->next) {
		bool ok = run_apart(t);

		printf("%sok %d - %s::%s\n", ok ? "" : "not ", ++n, t->suite,
		       t->name);
		bad += !ok;
	}
	printf("1..%d\n", n);
	return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
