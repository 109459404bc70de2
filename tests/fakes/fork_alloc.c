// SPDX-License-Identifier: Apache-2.0
/*
 * An allocator that no child of a process with threads may use:
 *
 *	LD_PRELOAD=.../test-fork-alloc.so program
 *
 * Between fork() and exec() such a child has what the one thread had that forked it: a lock
 * of the allocator that another thread held is held for ever.  glibc's own allocator bears
 * it, others do not, and they hang once in a thousand times.  Here the child says so and
 * ends.  Programs that have a sanitizer's allocator do not come here.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/single_threaded.h>
#include <unistd.h>

/* glibc's own, below the names that are taken here. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void *__libc_memalign(size_t align, size_t size);
extern void __libc_free(void *p);

static bool had_threads, is_child;

static void before_fork(void)
{
	had_threads = !__libc_single_threaded;
}

static void in_child(void)
{
	is_child = had_threads;
}

__attribute__((constructor)) static void begin(void)
{
	(void)pthread_atfork(before_fork, NULL, in_child);
}

static void check(void)
{
	static const char text[] =
		"test-fork-alloc: a child of threads uses the allocator\n";

	if (!is_child)
		return;
	(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
	_exit(99);
}

void *malloc(size_t size)
{
	check();
	return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	check();
	return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	check();
	return __libc_realloc(p, size);
}

void *memalign(size_t align, size_t size)
{
	check();
	return __libc_memalign(align, size);
}

void *aligned_alloc(size_t align, size_t size)
{
	return memalign(align, size);
}

int posix_memalign(void **ret, size_t align, size_t size)
{
	*ret = memalign(align, size);
	return *ret ? 0 : ENOMEM;
}

void free(void *p)
{
	if (p)
		check();
	__libc_free(p);
}
