// SPDX-License-Identifier: Apache-2.0
/* Runs each test in a process of its own, or with --filter SUITE/NAME those alone that match
 * one of the patterns, and prints TAP, with a line after each test that began a thread. */
#include "criterion/criterion.h"

#include <errno.h>
#include <fnmatch.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define TIMEOUT 300 /* seconds, where a suite says nothing */
/* Exit statuses; the sanitizers have 1, 23 and 66. */
#define FAILED 99
#define SKIPPED 77

static struct unit_test *tests, *suites;
static bool failed;

/* Folders that the test under way has made, for a test that fails removes none; and whether
 * the test began a thread. */
#define FOLDERS_MAX 64
#define FOLDER_MAX 128
static struct folders {
	atomic_uint n;
	atomic_bool has_threads;
	char path[FOLDERS_MAX][FOLDER_MAX];
} * folders; /* shared with the test's process */

char *__real_mkdtemp(char *path);
char *__wrap_mkdtemp(char *path);

char *__wrap_mkdtemp(char *path)
{
	unsigned int at;

	if (!__real_mkdtemp(path))
		return NULL;
	at = folders && path[0] == '/' ? atomic_fetch_add(&folders->n, 1)
				       : FOLDERS_MAX;
	if (at < FOLDERS_MAX && strlen(path) < FOLDER_MAX)
		strcpy(folders->path[at], path);
	return path;
}

bool (*unit_refuses_thread)(void);

static void note_thread(void)
{
	if (folders)
		atomic_store(&folders->has_threads, true);
}

int __real_pthread_create(pthread_t *ret, const pthread_attr_t *attr,
			  void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attr,
			  void *(*fn)(void *), void *arg);

int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attr,
			  void *(*fn)(void *), void *arg)
{
	note_thread();
	return unit_refuses_thread && unit_refuses_thread()
		       ? EAGAIN
		       : __real_pthread_create(ret, attr, fn, arg);
}

static void remove_folders(void)
{
	unsigned int n = atomic_load(&folders->n);
	pid_t pid;

	for (unsigned int i = 0; i < n && i < FOLDERS_MAX; i++) {
		if (!folders->path[i][0])
			continue;
		pid = fork();
		if (pid == 0) {
			(void)execlp("rm", "rm", "-rf", "--one-file-system",
				     folders->path[i], NULL);
			_exit(FAILED);
		}
		if (pid > 0)
			(void)waitpid(pid, NULL, 0);
	}
}

void unit_add_test(struct unit_test *t)
{
	t->next = tests;
	tests = t;
}

void unit_add_suite(struct unit_test *t)
{
	t->next = suites;
	suites = t;
}

void unit_failed(bool fatal, const char *file, int line, const char *what,
		 const char *fmt, ...)
{
	va_list ap;

	printf("# %s:%d: %s:", file, line, what);
	va_start(ap, fmt);
	(void)vprintf(fmt, ap);
	va_end(ap);
	(void)putchar('\n');
	(void)fflush(stdout);
	failed = true;
	if (fatal)
		_exit(FAILED);
}

void unit_skip(const char *why)
{
	printf("# %s\n", why);
	(void)fflush(stdout);
	_exit(SKIPPED);
}

static const struct unit_options *suite_of(const struct unit_test *t)
{
	static const struct unit_options none;

	for (const struct unit_test *s = suites; s; s = s->next)
		if (strcmp(s->suite, t->suite) == 0)
			return &s->options;
	return &none;
}

static void run_here(const struct unit_test *t, const struct unit_options *s)
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

/* Whether the test passed; *ret_skipped: it did not run. */
static bool run_apart(const struct unit_test *t, bool *ret_skipped)
{
	int status = 0;
	pid_t pid;

	*ret_skipped = false;
	(void)fflush(stdout);
	memset(folders, 0, sizeof(*folders));
	pid = fork();
	if (pid == 0)
		run_here(t, suite_of(t));
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return false;
	if (t->options.signal)
		return WIFSIGNALED(status) &&
		       WTERMSIG(status) == t->options.signal;
	if (WIFSIGNALED(status))
		printf("# ended by signal %d\n", WTERMSIG(status));
	*ret_skipped = WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED;
	return *ret_skipped || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Whether one of the patterns of --filter matches, or there is none. */
static bool is_wanted(const struct unit_test *t, int argc, char **argv)
{
	bool has_filter = false;
	char name[512];

	(void)snprintf(name, sizeof(name), "%s/%s", t->suite, t->name);
	for (int i = 1; i + 1 < argc; i++) {
		if (strcmp(argv[i], "--filter") != 0)
			continue;
		if (fnmatch(argv[i + 1], name, 0) == 0)
			return true;
		has_filter = true;
	}
	return !has_filter;
}

int main(int argc, char **argv)
{
	int n = 0, bad = 0;

	folders = mmap(NULL, sizeof(*folders), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (folders == MAP_FAILED)
		return EXIT_FAILURE;
	for (const struct unit_test *t = tests; t; t = t->next) {
		bool skipped, ok;

		if (!is_wanted(t, argc, argv))
			continue;
		ok = run_apart(t, &skipped);
		printf("%sok %d - %s::%s%s\n", ok ? "" : "not ", ++n, t->suite,
		       t->name, skipped ? " # SKIP" : "");
		if (atomic_load(&folders->has_threads))
			(void)puts("# has threads");
		bad += !ok;
		if (!ok)
			remove_folders();
	}
	printf("1..%d\n", n);
	return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
