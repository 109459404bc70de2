// SPDX-License-Identifier: Apache-2.0
/* Attributes and hand-over helpers that make ownership visible at the line. */
#ifndef BOOTSEER_COMMON_CLEANUP_H
#define BOOTSEER_COMMON_CLEANUP_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* From `ptr`, which points at member `member`, get the struct of type `type` around it. */
#define container_of(ptr, type, member) \
	((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void cleanup_free(void *p)
{
	free(*(void **)p);
}

/* Close a descriptor; a negative number means that none is open, and does nothing. */
static inline void fd_close(int fd)
{
	if (fd >= 0)
		(void)close(fd);
}

static inline void cleanup_close(const int *fd)
{
	fd_close(*fd);
}

static inline void cleanup_fclose(FILE **f)
{
	if (*f)
		(void)fclose(*f);
}

/* Declarations with one of these must be initialised. */
#define AUTO_FREE __attribute__((cleanup(cleanup_free)))
#define AUTO_CLOSE __attribute__((cleanup(cleanup_close)))
#define AUTO_FCLOSE __attribute__((cleanup(cleanup_fclose)))

/* AUTO_FINI(thing) x = THING_INIT: calls thing_fini(&x) at the end of the scope. */
#define AUTO_FINI(type) __attribute__((cleanup(type##_fini))) struct type

/*
 * AUTO(thing) x = NULL: calls thing_free(x) at the end of the scope, for every
 * type whose header says DEFINE_AUTO(thing).
 */
#define AUTO(type) __attribute__((cleanup(cleanup_##type))) struct type *
#define DEFINE_AUTO(type) \
	static inline void cleanup_##type(struct type **p) \
	{ \
		type##_free(*p); \
	}

/* Take the value out of an AUTO variable: the scope no longer owns it. */
#define steal_ptr(p) \
	__extension__({ \
		__typeof__(*(p)) *_q = (p); \
		__typeof__(*_q) _v = *_q; \
		*_q = NULL; \
		_v; \
	})

static inline int steal_fd(int *fd)
{
	int v = *fd;

	*fd = -1;
	return v;
}

#endif
