// SPDX-License-Identifier: Apache-2.0
/* For libraries that are loaded before a program's own. */
#ifndef BOOTSEER_TESTS_FAKES_NEXT_H
#define BOOTSEER_TESTS_FAKES_NEXT_H

#include <dlfcn.h>
#include <stdlib.h>

/* The function that a library takes the name of: *(void **)&real = next("read"), for ISO C
 * has no cast from an object's pointer to a function's.  Never NULL. */
static inline void *next(const char *name)
{
	void *p = dlsym(RTLD_NEXT, name);

	if (!p)
		abort();
	return p;
}

#endif
