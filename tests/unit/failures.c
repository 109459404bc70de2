// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/failures.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ROUNDS_MAX 20000u

/* Calls up to the one that fails, that one included; 0: none fails. */
static atomic_uint left[FAIL_MAP + 1];
static atomic_bool has_failed;
/* Only what the test's own thread calls is counted: how far others come in a round is
 * another matter each time. */
static _Thread_local bool is_counted;

static bool is_due(enum failure_kind kind)
{
	unsigned int n = is_counted ? atomic_load(&left[kind]) : 0;

	while (n && !atomic_compare_exchange_weak(&left[kind], &n, n - 1))
		;
	if (n != 1)
		return false;
	atomic_store(&has_failed, true);
	return true;
}

/* The linker's names for calls that are wrapped. */
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__real_strdup(const char *s);
char *__wrap_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
char *__wrap_strndup(const char *s, size_t n);
/* So it is called with offsets of 64 bits. */
void *__real_mmap64(void *at, size_t len, int prot, int flags, int fd,
		    off_t off);
void *__wrap_mmap64(void *at, size_t len, int prot, int flags, int fd,
		    off_t off);

static bool is_thread_due(void)
{
	return is_due(FAIL_THREAD);
}

static bool is_short(void)
{
	if (!is_due(FAIL_MEMORY))
		return false;
	errno = ENOMEM;
	return true;
}

void *__wrap_malloc(size_t size)
{
	return is_short() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return is_short() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return is_short() ? NULL : __real_realloc(p, size);
}

char *__wrap_strdup(const char *s)
{
	return is_short() ? NULL : __real_strdup(s);
}

char *__wrap_strndup(const char *s, size_t n)
{
	return is_short() ? NULL : __real_strndup(s, n);
}

void *__wrap_mmap64(void *at, size_t len, int prot, int flags, int fd,
		    off_t off)
{
	if (!is_due(FAIL_MAP))
		return __real_mmap64(at, len, prot, flags, fd, off);
	errno = ENOMEM;
	return MAP_FAILED;
}

unsigned int failures_count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned int n = 0;

	cr_assert(d);
	while (readdir(d))
		n++;
	(void)closedir(d);
	return n;
}

bool failures_next(struct failures *f)
{
	atomic_store(&left[f->kind], 0);
	if (f->n == 0)
		f->n_fds = failures_count_fds();
	else
		cr_expect_eq(failures_count_fds(), f->n_fds,
			     "round %u left descriptors", f->n);
	if (f->n && !atomic_load(&has_failed))
		return false;
	cr_assert_lt(++f->n, ROUNDS_MAX);
	is_counted = true;
	unit_refuses_thread = is_thread_due;
	atomic_store(&has_failed, false);
	atomic_store(&left[f->kind], f->n);
	return true;
}

bool failures_hit(struct failures *f)
{
	atomic_store(&left[f->kind], 0);
	return atomic_load(&has_failed);
}
